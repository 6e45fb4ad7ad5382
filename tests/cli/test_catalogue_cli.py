"""`fedtrip list` and its short words `methods`, `datasets`, `models`; `--help`: what a newcomer reads."""

import json
import subprocess
import sys

import pytest
from rich.cells import cell_len

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.data.sources import FORMS
from fedtrip.experiment.description import Experiment
from fedtrip.families import FAMILIES, METHOD
from fedtrip.registry import Choice
from fedtrip.registry.explanation import explain_rule

MODELS = [
    "mlp", "alexnet", "cnn", "cnn-mcmahan", "logistic", "lstm", "resnet18", "resnet18-bn", "resnet8", "resnet8-bn",
    "transformer",
]  # fmt: skip
COMMANDS = ["run", "compare", "evaluate", "partition", "list", "methods", "datasets", "models", "data"]


def test_every_family_is_listed_with_what_a_rule_says_and_its_rules(fedtrip):
    shown = fedtrip("list").out
    listing = json.loads(fedtrip("list", "--json").out)
    assert set(listing) == {*FAMILIES, "dataset", "model"}
    for field, family in FAMILIES.items():
        entry = listing[field]
        assert entry["folder"] == family.folder
        assert entry["says"] == family.says
        assert entry["default"] == family.default
        assert entry["rules"] == family.forms()
        assert all(word in shown for word in (field, family.folder, *family.forms()))
    assert listing["dataset"]["rules"] == [*KNOWN_SETS, *FORMS.values()]
    assert listing["model"]["rules"] == MODELS
    assert max(map(cell_len, shown.splitlines())) <= 80


@pytest.mark.parametrize("field", sorted(FAMILIES))
def test_the_rules_of_a_family_are_explained_from_their_classes(fedtrip, field):
    family = FAMILIES[field]
    shown = fedtrip("list", field)
    assert shown.code == 0
    assert fedtrip("list", family.folder).out == shown.out
    listing = json.loads(fedtrip("list", field, "--json").out)
    assert list(listing) == family.names()
    text = " ".join(shown.out.split())
    for name, entry in listing.items():
        explained = explain_rule(family, name)
        assert (entry["title"], entry["formula"]) == (explained.title, explained.formula)
        assert entry["form"] in family.forms()
        assert " ".join(explained.formula.split()) in text
        for option in explained.options:
            assert option.help in text
            if field == "partition":  # its options stand behind the colon, and --set refuses them
                assert f" {option.name} = " in text
            else:
                assert f"--set {field}.{option.name}=" in text or f"--set {name}.{option.name}=" in text
    assert max(map(cell_len, shown.out.splitlines())) <= 80


def test_one_rule_alone(fedtrip):
    shown = fedtrip("list", "codecs", "topk").out
    assert "topk:SHARE  only the largest numbers" in shown
    assert "int8" not in shown
    assert json.loads(fedtrip("list", "upload_codec", "topk", "--json").out) == {
        "topk": json.loads(fedtrip("list", "codecs", "--json").out)["topk"]
    }
    accepted = {
        option["name"]: option["accepted"]
        for option in json.loads(fedtrip("list", "codecs", "topk", "--json").out)["topk"]["options"]
    }
    assert accepted == {"share": "float > 0, ≤ 1", "feedback": "bool"}
    assert "cnn" in fedtrip("list", "models", "cnn").out
    assert "alexnet" not in fedtrip("list", "models", "cnn").out
    assert "cifar-10" not in fedtrip("list", "dataset", "mnist").out


def test_a_rule_of_ones_own_is_explained_by_its_place(fedtrip, here):
    (here / "own_rule.py").write_text(
        "from dataclasses import dataclass\nfrom fedtrip.schedules.interface import Schedule\n"
        "@dataclass(frozen=True)\nclass Mine(Schedule):\n    'η_t = η'\n    title = 'my own'\n"
    )
    shown = fedtrip("list", "lr_schedule", "own_rule:Mine")
    assert shown.code == 0
    assert "own_rule:Mine  my own" in shown.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["codec"], "family 'codec' is unknown; did you mean 'codecs'?"),
        (["upload_codec", "tpk"], "upload_codec 'tpk' is unknown; did you mean 'topk:SHARE'?"),
        (["model", "cn"], "model 'cn' is unknown; did you mean 'cnn'?"),
        (["dataset", "digts"], "data set 'digts' is unknown; did you mean 'digits'?"),
    ],
)
def test_what_is_not_there_is_told_with_a_suggestion(fedtrip, words, told):
    ended = fedtrip("list", *words)
    assert ended.code == 2
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


def test_the_short_words_are_the_same_list(fedtrip):
    for word, field in (("methods", "method"), ("datasets", "dataset"), ("models", "model")):
        assert fedtrip(word).out == fedtrip("list", field).out
        assert fedtrip(word, "--json").out == fedtrip("list", field, "--json").out


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
            default = json.dumps(option["default"]).strip('"')  # as it is typed: false, not False
            assert f"--set {name}.{option['name']}={default}" in shown
    assert {option["name"] for option in listing["fedtrip"]["options"]} == {"mu"}
    assert listing["slowmo"]["momentum"] == 0.0
    assert max(map(cell_len, shown.splitlines())) <= 80


def test_a_method_says_what_its_options_are_tuned_over(fedtrip):
    shown = " ".join(fedtrip("list", "method", "fedprox").out.split())
    assert "accepted: float ≥ 0; tuned over 0.001..1:log" in shown
    listing = json.loads(fedtrip("methods", "--json").out)
    assert listing["fedprox"]["ranges"] == {"mu": "0.001..1:log"}
    for name, entry in listing.items():
        declared = METHOD.find(name).ranges
        assert entry["ranges"] == {option: str(values) for option, values in declared.items()}
        assert set(declared) <= {option["name"] for option in entry["options"]}, f"{name}: not all are shown"
    assert listing["fedavg"]["ranges"] == {}
    assert "tuned over" not in fedtrip("list", "method", "fedavg").out
    assert "tuned over" not in fedtrip("list", "optimizer").out


def test_data_sets(fedtrip):
    shown = fedtrip("datasets").out
    listing = json.loads(fedtrip("datasets", "--json").out)
    assert list(listing) == list(KNOWN_SETS)
    assert all(f" {name} " in shown for name in KNOWN_SETS)
    assert max(map(len, shown.splitlines())) <= 80
    digits = listing["digits"]
    assert (digits["train"], digits["test"], digits["samples_per_client"], digits["target"]) == (1437, 360, 400, 0.9)


def test_models(fedtrip):
    listing = json.loads(fedtrip("models", "--json").out)
    assert listing["mlp"]["parameters"] == 79_510
    assert listing["alexnet"]["forward_macs"] == 145_922_816
    assert listing["lstm"] == {
        "title": "character LSTM: embedding 8, two layers of 256; token ids",
        "input": [80],
        "parameters": 822_570,
        "megabytes": 3.29028,
        "forward_macs": 80 * 1024 * (8 + 256 + 256 + 256) + 256 * 90,
        "training_macs": 190_254_592,
    }
    assert list(listing) == MODELS
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
                if isinstance(field.default, (int, float, str, Choice)) and not isinstance(field.default, bool):
                    assert f"(default: {field.default})" in shown


def test_no_arguments_show_the_help_and_version_is_told(fedtrip):
    assert "Start with fedtrip compare" in fedtrip().out
    assert fedtrip().code == 0
    assert fedtrip("--version").out.startswith("fedtrip ")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["compare", "--help"], ["list"], ["list", "--json"]])
def test_help_and_the_list_of_families_need_no_pytorch(words):
    script = (
        "import sys; from fedtrip.cli import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code, ended.code\n"
        "heavy = {'torch', 'numpy', 'matplotlib'} & set(sys.modules)\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script, *words], check=True, capture_output=True)
