"""`fedtrip methods`, `datasets`, `models`, `--help`: what a newcomer reads."""

import json
import subprocess
import sys

import pytest
from rich.cells import cell_len

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.experiment.description import Experiment
from fedtrip.families import METHOD

COMMANDS = ["run", "compare", "evaluate", "partition", "methods", "datasets", "models", "data"]


def test_methods_are_explained_with_their_options(fedtrip):
    shown = fedtrip("methods").out
    listing = json.loads(fedtrip("methods", "--json").out)
    assert list(listing) == METHOD.names()
    for name, entry in listing.items():
        assert entry["title"]
        assert entry["formula"]
        assert f"{name}  {entry['title']}"[:60] in shown
        for option in entry["options"]:
            assert option["help"], f"{name}.{option['name']} has no docstring"
            assert f"--set {name}.{option['name']}={option['default']}" in shown
    accepted = {option["name"]: option["accepted"] for option in listing["fedtrip"]["options"]}
    assert accepted["xi"] == "annealed | inverse-gap | constant | gap"
    assert (accepted["mu"], accepted["reach"]) == ("float | auto", "float")
    assert max(map(cell_len, shown.splitlines())) <= 80


def test_data_sets(fedtrip):
    shown = fedtrip("datasets").out
    listing = json.loads(fedtrip("datasets", "--json").out)
    assert [entry["name"] for entry in listing] == list(KNOWN_SETS)
    assert all(f" {name} " in shown for name in KNOWN_SETS)
    assert max(map(len, shown.splitlines())) <= 80
    digits = listing[0]
    assert (digits["train"], digits["test"], digits["samples_per_client"], digits["target"]) == (1437, 360, 400, 0.9)


def test_models(fedtrip):
    listing = {entry["name"]: entry for entry in json.loads(fedtrip("models", "--json").out)}
    assert listing["mlp"]["parameters"] == 79_510
    assert listing["alexnet"]["forward_macs"] == 145_922_816
    shown = fedtrip("models").out
    assert "145,922,816" in shown
    assert "…" not in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(fedtrip, command):
    shown = fedtrip(command, "--help")
    assert shown.code == 0
    assert f"Usage: fedtrip {command}" in shown.out
    assert fedtrip(command, "-h").out == shown.out


def test_every_field_is_an_option_with_its_default(fedtrip, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("run", "compare"):
        shown = fedtrip(command, "--help").out
        for name, field in Experiment.model_fields.items():
            if name not in ("schema_version", "method"):
                assert f"--{name.replace('_', '-')} " in shown
                if isinstance(field.default, (int, float, str)) and not isinstance(field.default, bool):
                    assert f"(default: {field.default})" in shown


def test_no_arguments_show_the_help_and_version_is_told(fedtrip):
    assert "Start with fedtrip compare" in fedtrip().out
    assert fedtrip().code == 0
    assert fedtrip("--version").out.startswith("fedtrip ")


def test_help_needs_no_pytorch():
    script = "import sys; from fedtrip.cli import app; assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
