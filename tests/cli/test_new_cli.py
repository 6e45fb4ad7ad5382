"""`fedtrip new KIND NAME`: what it writes passes as it is, can fail, and can be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedtrip.cli.new import USED
from fedtrip.families import FAMILIES

FIELDS = {"method": "method", "task": "task", "partition": "partition", "codec": "upload_codec"}
MISTAKES = {
    "method": [("c=-self.strength", "c=self.strength"), ("a=self.strength, ", "a=0.0, ")],
    "task": [("topk(2,", "topk(1,"), ('reduction="sum"', 'reduction="mean"')],
    "partition": [("order[np.sort(moved)] = order[moved]", "pass"), ('stable")', 'stable")[::-1]')],
    "codec": [("return self.feedback", "return False"), (".clamp(-LARGEST, LARGEST)", "")],
}
"""Of each kind, what a slip of the pen may do to it."""


def pytest_in(folder: Path) -> subprocess.CompletedProcess[str]:
    """`pytest` as somebody would type it, with nothing of this project around it."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error::pytest.PytestWarning"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("kind", USED)
def test_what_is_written_passes_as_it_is(fedtrip, here, kind):
    ended = fedtrip("new", kind, f"my-{kind}")
    assert ended.code == 0, ended.err
    assert {path.name for path in here.iterdir()} == {f"my_{kind}.py", f"test_my_{kind}.py"}
    named = f"my_{kind}:My{kind.capitalize()}"
    assert f"next: pytest test_my_{kind}.py" in ended.out
    assert USED[kind].format(named) in ended.out
    done = pytest_in(here)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize(("kind", "slip"), [(kind, slip) for kind, slips in MISTAKES.items() for slip in slips])
def test_its_tests_find_a_mistake(fedtrip, here, kind, slip):
    fedtrip("new", kind, "mine-too")
    file = here / "mine_too.py"
    right, wrong = slip
    assert file.read_text(encoding="utf-8").count(right) == 1
    file.write_text(file.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")
    done = pytest_in(here)
    assert done.returncode == 1, done.stdout
    assert "FAILED test_mine_too.py::" in done.stdout


@pytest.mark.parametrize("kind", USED)
def test_it_is_used_and_explained_by_its_name(fedtrip, here, kind, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    fedtrip("new", kind, f"one-{kind}")
    name = f"one_{kind}:One{kind.capitalize()}"
    shown = fedtrip("list", FIELDS[kind], name)
    assert shown.code == 0, shown.err
    assert "in one line, " in " ".join(shown.out.split())
    option = USED[kind].format(name).split()
    small = ["--rounds", 1, "--clients", 3, "--per-round", 2, "--samples-per-client", 30, "--workers", 1, "--quiet"]
    ended = fedtrip("run", *option, *small, "--out", here / "run")
    assert ended.code == 0, ended.err
    sys.modules.pop(f"one_{kind}", None)


def test_every_kind_is_a_family():
    assert set(FIELDS.values()) <= set(FAMILIES)


@pytest.mark.parametrize("name", ["My", "1st", "a b", "../x", "a--b", "-a", "a-", "for", "é", ""])
def test_names_that_are_none_are_refused(fedtrip, here, name):
    ended = fedtrip("new", "method", "--", name)
    assert ended.code == 2
    assert f"name '{name}' is not accepted" in ended.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["torch", "json", "fedtrip"])
def test_a_module_that_is_there_is_not_hidden(fedtrip, here, name):
    ended = fedtrip("new", "method", name)
    assert ended.code == 2
    assert "a module that Python has already" in ended.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("taken", ["mine_or_not.py", "test_mine_or_not.py"])
def test_nothing_is_overwritten(fedtrip, here, taken):
    (here / taken).write_text("mine")
    ended = fedtrip("new", "codec", "mine-or-not")
    assert ended.code == 2
    assert f"'{taken}' is there already" in ended.err
    assert [path.name for path in here.iterdir()] == [taken]
    assert (here / taken).read_text() == "mine"


def test_help_without_a_kind(fedtrip):
    ended = fedtrip("new")
    assert ended.code == 0
    for kind in USED:
        assert kind in ended.out
