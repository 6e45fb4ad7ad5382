"""Somebody else's run folder or experiment file: looking at it runs no code, and what runs code says which."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.paper.archive import Archive

SMALL = ("--rounds", "2", "--clients", "3", "--per-round", "2", "--workers", "1", "--quiet")
CODE = """
from dataclasses import dataclass
from pathlib import Path
from torch import nn
import fedtrip

with open(Path(__file__).with_name("imported.txt"), "a") as file:
    file.write("x")

def net(sample_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))

@dataclass(frozen=True)
class Mine(fedtrip.Method):
    def client(self, received, memory, local):
        return fedtrip.Reply(upload=local.train(received))
"""


class Foreign:
    """A folder with code in it, which tells how often it was imported."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "foreign_code.py").write_text(CODE)

    def imports(self):
        marks = self.folder / "imported.txt"
        return len(marks.read_text()) if marks.exists() else 0

    def forget(self):
        sys.modules.pop("foreign_code", None)


@pytest.fixture
def foreign(here, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    made = Foreign(here)
    yield made
    made.forget()


@pytest.fixture
def with_model(fedtrip, foreign, monkeypatch):
    """A run with a model of its author's own, in the working folder together with the code."""
    assert fedtrip("run", "--model", "foreign_code:net", *SMALL, "--out", "run").code == 0
    foreign.forget()
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(foreign.folder)])
    return Path("run").absolute()


@pytest.fixture
def with_method(fedtrip, foreign, monkeypatch):
    assert fedtrip("run", "--method", "foreign_code:Mine", *SMALL, "--out", "run").code == 0
    foreign.forget()
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(foreign.folder)])
    return Path("run").absolute()


def test_a_report_never_runs_a_models_code_and_says_what_is_missing(fedtrip, foreign, with_model):
    before, path = foreign.imports(), list(sys.path)
    ended = fedtrip("report", with_model)
    assert ended.code == 0
    assert foreign.imports() == before
    assert sys.path == path
    page = (with_model / "report.html").read_text(encoding="utf-8")
    assert "code of its own, &#39;foreign_code:net&#39;, which a report never runs" in page


def test_a_report_on_a_method_of_ones_own_has_everything_without_its_code(fedtrip, foreign, with_method):
    before = foreign.imports()
    assert fedtrip("report", with_method).code == 0
    assert foreign.imports() == before
    page = (with_method / "report.html").read_text(encoding="utf-8")
    assert "never runs" not in page
    assert "worst-served client" in page


def test_evaluating_runs_a_models_code_only_if_it_is_trusted(fedtrip, foreign, with_model):
    before = foreign.imports()
    refused = fedtrip("evaluate", with_model)
    assert refused.code == 2
    assert "model 'foreign_code:net'" in refused.err
    assert "--trust" in refused.err
    assert foreign.imports() == before
    trusted = fedtrip("evaluate", with_model, "--trust")
    assert trusted.code == 0
    assert "runs code: model 'foreign_code:net'" in trusted.err
    assert foreign.imports() == before + 1


def test_evaluating_needs_no_code_of_a_method(fedtrip, foreign, with_method):
    before = foreign.imports()
    assert fedtrip("evaluate", with_method).code == 0
    assert foreign.imports() == before


def test_loading_runs_a_models_code_only_if_it_is_trusted(foreign, with_model, capsys):
    before = foreign.imports()
    result = package.load_result(with_model)
    assert result.records
    for asked in (lambda: package.load(with_model), lambda: result.module, lambda: package.evaluate(with_model)):
        with pytest.raises(UserError, match=r"model 'foreign_code:net'.*accepted: .*trust=True"):
            asked()
    assert foreign.imports() == before
    assert capsys.readouterr().err == ""
    assert package.load(with_model, trust=True)[1].in_features == 64
    assert "model 'foreign_code:net'" in capsys.readouterr().err


def test_a_model_that_is_given_needs_no_trust(foreign, with_model):
    before = foreign.imports()
    from torch import nn

    package.load(with_model, model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    assert foreign.imports() == before


@pytest.mark.parametrize("again", ["file", "resume", "compare"])
def test_running_an_experiment_file_says_which_code_it_runs(fedtrip, with_model, again):
    arguments = {
        "file": ("run", with_model / "experiment.toml", "--quiet", "--workers", 1, "--out", "again"),
        "resume": ("run", "--resume", with_model, "--quiet"),
        "compare": ("compare", with_model / "experiment.toml", "--methods", "fedavg", "--trials", 1, "--quiet",
                    "--workers", 1, "--out", "again"),
    }[again]  # fmt: skip
    ended = fedtrip(*arguments)
    assert ended.code == 0
    assert ended.err.splitlines()[0] == "runs code: model 'foreign_code:net'"


def test_what_is_named_on_the_command_line_need_not_be_said(fedtrip, foreign):
    assert fedtrip("run", "--model", "foreign_code:net", *SMALL, "--out", "run").err == ""
    assert foreign.imports() == 1


def test_reading_an_experiment_file_runs_nothing(foreign, with_model):
    before, path = foreign.imports(), list(sys.path)
    text = (with_model / "experiment.toml").read_text().replace('name = "fedtrip"', 'name = "foreign_code:Mine"')
    assert Experiment.from_text(text).method.name == "foreign_code:Mine"
    Experiment.from_toml(with_model / "experiment.toml")
    assert (foreign.imports(), sys.path) == (before, path)


def test_an_archive_of_runs_that_names_code_is_refused(foreign, tmp_path):
    small = Experiment(rounds=1, clients=3, per_round=2, method="fedavg")
    Archive(tmp_path / "archive").add(package.run(small, workers=1))
    (stored,) = (tmp_path / "archive").rglob("*.jsonl")
    for old, new in (
        ('"method":"fedavg"', '"method":"foreign_code:Mine"'),
        ('"model":"mlp"', '"model":"foreign_code:net"'),
    ):
        text = stored.read_text()
        assert old in text
        stored.write_text(text.replace(old, new))
        with pytest.raises(UserError, match=r"damaged at line 1: it names code, .*'foreign_code:.*'"):
            Archive(tmp_path / "archive")
        stored.write_text(text)
    assert foreign.imports() == 0


@pytest.mark.parametrize("arguments", [("report", "run"), ("run", "--rounds", "1", "--workers", "2", "--quiet")])
def test_files_in_the_working_folder_are_no_libraries(fedtrip, here, arguments):
    """Python puts the working folder first on its path for `-m` and `-c`: there a file may be called like a library."""
    assert fedtrip("run", *SMALL, "--out", "run").code == 0
    for name in ("jinja2", "cloudpickle", "safetensors", "fedtrip"):
        (here / f"{name}.py").write_text(f"open({str(here / 'imported.txt')!r}, 'a').write(__name__)\n")
    command = [sys.executable, "-m", "fedtrip", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    if arguments[0] == "run":  # as the installed command does; its workers are on their own
        command[1:3] = ["-c", "import sys; del sys.path[0]; from fedtrip.cli import main; main()"]
    else:
        (here / "fedtrip.py").unlink()  # that would be what `-m fedtrip` means
    ended = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not (here / "imported.txt").exists()
