"""What a result shows of itself: one line, a piece of HTML, a figure; never its weights, and never anybody's HTML."""

import base64
import html
import re
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure
from tests.comparison.test_compare import result

import fedtrip
from fedtrip import Experiment
from fedtrip.runs.history import History
from fedtrip.tasks.interface import ACCURACY

EVIL = "npz:<script>alert(1)</script>&'\"\x1b[2J.npz"


class Tags(HTMLParser):
    """The tags of a piece of HTML, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def pictures(page):
    sources = [attributes["src"] for tag, attributes in Tags(page).tags if tag == "img"]
    return [base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in sources]


def test_a_result_is_one_line():
    finished = fedtrip.run(Experiment(rounds=3, clients=4, per_round=2, target=0.1, seed=2), workers=1)
    assert repr(finished) == str(finished)
    assert re.fullmatch(
        r"<Result fedtrip on digits, mlp, dirichlet:0.5, seed 2: 3 rounds; accuracy 10% in round \d; "
        r"final accuracy \d+\.\d\d%>",
        repr(finished),
    )
    assert "tensor" not in repr([finished])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"target": 0.99}, "2 rounds; accuracy 99% not reached; final accuracy 45.00%>"),
        ({"target": None}, "seed 0: 2 rounds; final accuracy 45.00%>"),
        ({"rounds": 9, "ended": "round 3: diverged"}, "2 of 9 rounds; accuracy 50% in round 2; final accuracy 45.00%; "
         "ended early: round 3: diverged>"),
    ],
)  # fmt: skip
def test_what_came_out_is_told(changes, told):
    assert repr(result("fedavg", 0, [0.4, 0.5], **changes)).endswith(told)


def test_a_class_of_ones_own_is_called_by_its_name():
    assert repr(result("package.module:Outer.Mine", 0, [0.4])).startswith("<Result Mine on digits")


def test_a_notebook_shows_a_table_and_a_plot():
    page = result("fedavg", 0, [0.1, 0.5, 0.6])._repr_html_()
    text = Tags(page).text
    for expected in ("fedavg on digits", "rounds", "3 of 3", "rounds to 50%", "2", "final accuracy", "40.00%", "9.00"):
        assert expected in text
    (plot,) = pictures(page)
    assert plot.startswith(b"\x89PNG")
    assert {tag for tag, _ in Tags(page).tags} == {"div", "strong", "table", "tbody", "tr", "td", "img"}


def test_names_of_files_and_methods_are_text():
    run = result("fedavg", 0, [0.1])
    named = type(run)(**{**vars(run), "experiment": run.experiment.but(dataset=EVIL), "ended": EVIL})
    page = named._repr_html_()
    assert "script" not in {tag for tag, _ in Tags(page).tags}
    assert html.escape("<script>alert(1)") in page
    assert "\x1b" not in repr(named)
    assert len(repr(named).splitlines()) == 1


def test_a_run_without_an_evaluated_round_has_no_plot():
    empty = History(Experiment(), ACCURACY, (), "round 1: diverged", None, (), None)
    assert "img" not in empty._repr_html_()
    assert repr(empty).endswith("0 of 100 rounds; final accuracy none; ended early: round 1: diverged>")


def test_the_plot_is_a_figure_that_a_notebook_shows_without_pyplot():
    figure = result("fedavg", 0, [0.1, 0.5, 0.6]).plot()
    assert isinstance(figure, Figure)
    (line, *_others) = figure.axes[0].get_lines()
    assert list(line.get_xdata()) == [1, 2, 3]
    assert list(line.get_ydata()) == [0.1, 0.5, 0.6]
    assert "fedavg on digits" in figure.axes[0].get_title()
    assert figure._repr_png_().startswith(b"\x89PNG")
