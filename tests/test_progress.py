"""`progress=True`: a bar on a terminal, one in a notebook, lines elsewhere; the run is the same."""

import html
import io
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

import fedtrip
from fedtrip import Experiment
from fedtrip.api import progress

SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 20, "batch_size": 10}


class Notebook(ModuleType):
    """What a kernel has of IPython: `display` with a handle whose output can be replaced."""

    def __init__(self, kernel=True):
        super().__init__("IPython")
        self.shown = []
        shell = SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()
        self.get_ipython = lambda: shell
        self.display = SimpleNamespace(display=self._display, HTML=str)

    def _display(self, content, display_id):
        assert display_id
        self.shown.append(content)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", found)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_UPDATES", 0)
    return found


def test_lines_where_there_is_no_terminal(blobs, capsys):
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3/3  accuracy" in shown.err
    assert "fedtrip on python:" in shown.err


def test_nothing_is_shown_unless_asked(blobs, capsys, tmp_path):
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1)
    fedtrip.compare(Experiment(**SMALL), methods=["fedavg"], data=blobs, workers=1, trials=1, out=tmp_path / "c")
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal(blobs, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(progress, "err", console)
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, progress=True)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    assert "3/3" in text
    assert "━" in text


def test_a_bar_in_a_notebook_without_widgets(blobs, notebook, capsys):
    evil = Experiment(**SMALL, method="fedavg")
    fedtrip.run(evil, data=blobs, workers=1, progress=True)
    first, *_, last = notebook.shown
    assert '<progress value="0" max="3">' in first
    assert any('<progress value="2" max="3">' in shown for shown in notebook.shown)
    assert "<progress" not in last
    assert "3/3" in last
    assert "accuracy" in last
    assert capsys.readouterr() == ("", "")
    assert "ipywidgets" not in sys.modules


def test_what_a_notebook_shows_is_text(notebook):
    evil = "<img src=x onerror=alert(1)>"
    with progress.Live(evil, 1) as live:
        live.advance(evil)
    assert all("<img" not in shown for shown in notebook.shown)
    assert any(html.escape(evil) in shown for shown in notebook.shown)


def test_a_shell_that_is_no_notebook_gets_lines(monkeypatch, blobs, capsys):
    found = Notebook(kernel=False)
    monkeypatch.setitem(sys.modules, "IPython", found)
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, progress=True)
    assert not found.shown
    assert "3/3" in capsys.readouterr().err


def test_a_comparison_shows_all_rounds_of_all_trials(notebook, blobs, tmp_path):
    fedtrip.compare(
        Experiment(**SMALL), methods=["fedavg", "fedprox"], data=blobs, workers=1, trials=2, out=tmp_path / "c",
        progress=True,
    )  # fmt: skip
    assert '<progress value="0" max="12">' in notebook.shown[0]
    assert notebook.shown[-1].startswith("2 variants × 2 trials · 12/12")


def test_progress_and_on_round_of_both_kinds_go_together(blobs, capsys):
    one, two = [], []
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, progress=True, on_round=one.append)
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, progress=True, on_round=lambda _, model: two.append(model))
    assert [record.round for record in one] == [1, 2, 3]
    assert all(isinstance(view, fedtrip.ModelView) for view in two)
    assert len(two) == 3
    assert capsys.readouterr().err.count("3/3") == 2


def test_the_bits_are_the_same(blobs):
    shas = {
        fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, progress=shown).model_sha256 for shown in (True, False)
    }
    assert len(shas) == 1
