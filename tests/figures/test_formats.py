"""Every figure can be written as PNG, PDF and SVG: whole, without a date, and with fonts that publishers take."""

import itertools
import re

import pytest
from tests.comparison.test_compare import result

from fedtrip.figures.boxes import boxes
from fedtrip.figures.convergence import convergence
from fedtrip.figures.drawing import FORMATS, save_figure, save_figures

BEGINS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def results(names=("fedtrip", "fedavg"), **options):
    return {name: [result(name, seed, [0.1, 0.4 + 0.1 * seed, 0.6], **options) for seed in range(3)] for name in names}


@pytest.mark.parametrize("drawn", [convergence, boxes])
def test_each_format_is_what_it_says_and_the_same_again(drawn, tmp_path):
    for folder in ("a", "b"):
        save_figures(drawn(results(), "digits"), tmp_path / folder / "figure.png")
    for suffix in FORMATS:
        first, second = ((tmp_path / folder / f"figure{suffix}").read_bytes() for folder in ("a", "b"))
        assert first.startswith(BEGINS[suffix])
        assert first == second
    assert {path.suffix for path in (tmp_path / "a").iterdir()} == set(FORMATS)


def test_the_fonts_of_a_pdf_are_no_type_3(tmp_path):
    save_figure(convergence(results()), tmp_path / "figure.pdf")
    content = (tmp_path / "figure.pdf").read_bytes()
    assert b"/Type3" not in content
    assert b"/CIDFontType2" in content
    assert b"CreationDate" not in content


def test_boxes_show_every_trial_and_who_missed_the_target():
    figure = boxes({"fedavg": [result("fedavg", 0, [0.1, 0.6]), result("fedavg", 1, [0.1, 0.2], rounds=9)]})
    rounds, score = figure.axes
    points = {
        line.get_marker(): list(line.get_xdata()) for line in rounds.get_lines() if line.get_marker() in ("o", "x")
    }
    assert points == {"o": [2], "x": [9]}
    assert rounds.get_xlabel() == "rounds to 50%"
    assert score.get_xlabel() == "final accuracy"
    finals = next(list(line.get_xdata()) for line in score.get_lines() if line.get_marker() == "o")
    assert finals == pytest.approx([0.35, 0.15])


def test_boxes_without_a_target_have_one_panel_and_labels_are_whole():
    names = ["_one", "a label of more than thirty characters, which goes on"]
    figure = boxes({name: [result("fedavg", 0, [0.1, 0.6], target=None)] for name in names})
    (panel,) = figure.axes
    assert [re.sub(r"\s+", " ", text.get_text()) for text in panel.get_yticklabels()] == names


def test_twenty_variants_have_room():
    figure = boxes(results([f"package.module:M{number}" for number in range(20)]))
    figure.draw_without_rendering()
    heights = sorted(text.get_window_extent().y0 for text in figure.axes[0].get_yticklabels())
    assert min(b - a for a, b in itertools.pairwise(heights)) > 12
