"""The table on a terminal: names are whole, and what does not fit is left out whole and named."""

import io
import re

import pytest
from rich.console import Console
from tests.comparison.test_tables import row

from fedtrip.cli.comparison_table import print_table
from fedtrip.statistics import Estimate

NAMES = ["fedavg", "fedtrip-auto, push = 0.75", "a-method-of-ones-own"]
OF_CLIENTS = {"mean": Estimate(0.8, 0.01, (0.8, 0.8)), "worst_tenth": Estimate(0.5, 0.01, (0.5, 0.5))}


def printed(width, names=NAMES):
    rows = [row(variant=name, client_scores={"global": OF_CLIENTS, "personal": OF_CLIENTS}) for name in names]
    console = Console(file=io.StringIO(), width=width)
    print_table(console, rows, "table.md")
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_every_name_is_whole_and_no_cell_is_cut(width):
    text = printed(width)
    assert all(name in text for name in NAMES)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_the_least_telling_columns_go_first_and_are_named():
    wide, narrow, narrowest = (" ".join(printed(width).split()) for width in (200, 95, 60))
    assert "Left out" not in wide
    assert "GFLOPs" in wide
    assert narrow.endswith("Left out for want of room, but in table.md: reached, client mean %, GFLOPs, MB.")
    assert "personal: under each client's own model." in narrow
    assert "speed-up" in narrowest.split("Mean ±")[0]
    assert "personal client mean %" in narrowest.split("Left out")[1]


@pytest.mark.parametrize("width", [80, 140])
def test_a_long_label_goes_on_in_the_next_line_and_leaves_room_for_the_numbers(width):
    label = "Ours, with the push that follows from the mean participation of a client"
    lines = printed(width, ["fedavg", label, "fedprox"]).splitlines()
    first = next(number for number, line in enumerate(lines) if "Ours, with" in line)
    assert " ".join(re.split(r"\s{2,}", line.strip())[0] for line in lines[first : first + 3]) == label
    assert "1.25× [1.10, 1.42]" in lines[first]
    assert "96.00±1.00" in lines[first]
    assert max(map(len, lines)) <= width


def test_a_name_that_is_wider_than_the_terminal_is_folded_not_cut():
    name = "x" * 70
    assert printed(50, [name]).count("x") == 70
