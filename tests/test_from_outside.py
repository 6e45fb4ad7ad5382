"""One rule of every family, a model and data, all from outside the package and all in one experiment.

By their names in a TOML file through the command line, and as objects from Python: the same bits. Nothing of somebody
else's is run unasked.
"""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.families import FAMILIES

MODULE = "rules_of_mine"
RULES = {
    "method": {"name": "Pull", "strength": 0.2},
    "task": "TopTwo",
    "augment": {"name": "Scaled", "most": 0.1},
    "optimizer": {"name": "SignStep", "scale": 0.2},
    "lr_schedule": {"name": "Halving", "every": 3},
    "select": "InTurn",
    "upload_codec": "HalfFloat",
    "combine": "Middle",
    "server_optimizer": {"name": "Damped", "rate": 0.8},
    "attack": "LastSleeps",
    "partition": "Strided",
}
PLAIN = {
    "rounds": 4,
    "clients": 6,
    "per_round": 3,
    "batch_size": 5,
    "samples_per_client": 15,
    "lr": 0.05,
    "target": 0.5,
}


@pytest.fixture
def mine(here, blobs, monkeypatch):
    """The user's folder: rules, data, and an experiment file that names them all."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    shutil.copy(Path(__file__).parent / "outside" / "mine.py", here / f"{MODULE}.py")
    np.savez(here / "blobs.npz", **blobs)
    lines = [f"{name} = {json.dumps(value)}" for name, value in PLAIN.items()]
    lines += ['dataset = "npz:blobs.npz"', f'model = "{MODULE}:net"']
    for field, rule in RULES.items():
        table = {"name": rule} if isinstance(rule, str) else rule
        inner = ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items() if key != "name")
        name = f"{MODULE}:{table['name']}"
        lines.append(f'{field} = {{name = "{name}", {inner}}}' if inner else f'{field} = "{name}"')
    (here / "mine.toml").write_text("\n".join(lines), encoding="utf-8")
    yield here
    sys.modules.pop(MODULE, None)


def as_objects():
    """The same experiment with objects in place of names."""
    spec = importlib.util.find_spec(MODULE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    rules = {}
    for field, rule in RULES.items():
        table = {"name": rule} if isinstance(rule, str) else dict(rule)
        rules[field] = getattr(module, table.pop("name"))(**table)
    return Experiment(**PLAIN, **rules, dataset="npz:blobs.npz", model=f"{MODULE}:net")


def test_every_family_is_among_them():
    assert set(RULES) == set(FAMILIES)


def test_the_command_line_and_python_run_them_to_the_same_bits(fedtrip, mine):
    ended = fedtrip("run", "mine.toml", "--quiet", "--workers", 2, "--out", "named")
    assert ended.code == 0, ended.err
    stored = package.load_result("named")
    assert [record.clients for record in stored.records] == [(0, 1, 2), (3, 4, 5), (0, 1, 2), (3, 4, 5)]
    assert [record.dropped for record in stored.records] == [(), (5,), (), (5,)]
    assert stored.goal.score == "top2"
    assert stored.records[-1].scores["top2"] > 0.5
    sys.path.insert(0, str(mine))
    assert package.run(as_objects(), workers=1).model_sha256 == stored.model_sha256
    again = fedtrip("run", "named/experiment.toml", "--quiet", "--workers", 1, "--out", "again")
    assert again.code == 0, again.err
    assert package.load_result("again").model_sha256 == stored.model_sha256


@pytest.mark.usefixtures("mine")
def test_a_file_says_all_the_code_that_it_runs(fedtrip):
    told = fedtrip("run", "mine.toml", "--quiet", "--workers", 1, "--out", "named").err.splitlines()[0]
    assert told.startswith("runs code: ")
    assert f"model '{MODULE}:net'" in told
    for field, rule in RULES.items():
        assert f"{field} '{MODULE}:{rule if isinstance(rule, str) else rule['name']}'" in told


@pytest.mark.usefixtures("mine")
def test_what_the_command_line_replaces_is_not_run(fedtrip):
    told = fedtrip("run", "mine.toml", "--quiet", "--workers", 1, "--combine", "mean", "--out", "named").err
    assert "combine" not in told.splitlines()[0]


@pytest.mark.usefixtures("mine")
def test_looking_at_the_run_needs_the_model_and_the_task_and_asks_for_trust(fedtrip):
    assert fedtrip("run", "mine.toml", "--quiet", "--workers", 1, "--out", "named").code == 0
    refused = fedtrip("evaluate", "named")
    assert refused.code == 2
    assert f"model '{MODULE}:net', task '{MODULE}:TopTwo'" in refused.err
    assert "Strided" not in refused.err
    assert "--trust" in refused.err
    trusted = fedtrip("evaluate", "named", "--trust", "--json")
    assert trusted.code == 0, trusted.err
    assert json.loads(trusted.out)["top2"] == package.load_result("named").records[-1].scores["top2"]
    with pytest.raises(UserError, match="trust=True"):
        package.evaluate("named")


def test_a_report_on_it_runs_nothing(fedtrip, mine):
    assert fedtrip("run", "mine.toml", "--quiet", "--workers", 1, "--out", "named").code == 0
    sys.modules.pop(MODULE, None)
    (mine / f"{MODULE}.py").write_text("raise SystemExit('run unasked')", encoding="utf-8")
    assert fedtrip("report", "named").code == 0
    assert "which a report never runs" in (mine / "named" / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("field", sorted(RULES))
def test_each_alone_beside_the_built_in_ones(fedtrip, field):
    rule = RULES[field]
    name = f"{MODULE}:{rule if isinstance(rule, str) else rule['name']}"
    fields = [part for key, value in PLAIN.items() for part in (f"--{key.replace('_', '-')}", value)]
    rules = {"method": "fedavg", field: name}
    options = [part for key, value in rules.items() for part in (f"--{key.replace('_', '-')}", value)]
    ended = fedtrip("run", "--dataset", "npz:blobs.npz", *fields, *options, "--quiet", "--workers", 1, "--out", "alone")
    assert ended.code == 0, ended.err
