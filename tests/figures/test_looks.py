"""Every line can be told from every other, and a method looks the same in every figure."""

import itertools
import json
import re

import pytest
from tests.comparison.test_compare import result

from fedtrip.families import METHOD
from fedtrip.figures.convergence import FEW, convergence
from fedtrip.figures.palette import COLOURS, ON_DARK, ORDER, PLACES, STYLES, look, looks, looks_of
from fedtrip.report import write_report
from fedtrip.report.charts import DASHES

OWN = [f"package.module:Mine{number}" for number in range(20)]


def themselves(names):
    return {name: name for name in names}


def test_every_place_has_a_pair_of_its_own():
    assert len({look(number) for number in range(PLACES)}) == PLACES == 72
    assert look(PLACES) == look(0)
    assert [look(number) for number in range(4)] == list(zip(COLOURS, STYLES, strict=False))


@pytest.mark.parametrize("names", [METHOD.names()[:20], METHOD.names(), OWN, [*METHOD.names()[5:20], *OWN[:5]]])
def test_twenty_methods_and_more_have_twenty_looks(names):
    assert len(set(looks(themselves(names)).values())) == len(names)


def test_twenty_variants_of_one_method_have_twenty_looks_and_as_many_colours_as_there_are():
    found = looks({f"fedtrip mu={number}": "fedtrip" for number in range(20)})
    assert len(set(found.values())) == 20
    assert len({one.colour for one in list(found.values())[: len(COLOURS)]}) == len(COLOURS)
    assert found["fedtrip mu=0"] == look(0)


def test_a_built_in_method_looks_the_same_whoever_is_there():
    alone = {name: looks({name: name})[name] for name in ORDER}
    assert len(set(alone.values())) == len(ORDER) <= len(COLOURS) * len(STYLES)
    for some in (ORDER, reversed(ORDER), ORDER[7:20], (*OWN, *ORDER)):
        found = looks(themselves(some))
        assert all(found[name] == alone[name] for name in ORDER if name in found)


def test_a_method_that_has_no_place_yet_looks_like_a_class_of_ones_own():
    assert len(set(looks(themselves([*ORDER, "brand-new", *OWN[:3]])).values())) == len(ORDER) + 4
    assert looks(themselves(["fedavg", "brand-new"]))["brand-new"] == looks({"brand-new": "brand-new"})["brand-new"]


def test_a_class_of_ones_own_looks_the_same_beside_any_built_in_methods():
    alone = {name: looks({name: name})[name] for name in OWN}
    for name, built_in in itertools.product(OWN, (ORDER[:3], ORDER)):
        assert looks(themselves((*built_in, name)))[name] == alone[name]
    assert len(set(alone.values())) > 4


def test_a_label_changes_nothing():
    assert looks({"Ours": "fedtrip", "Theirs": "fedavg"}) == {
        "Ours": looks({"fedtrip": "fedtrip"})["fedtrip"],
        "Theirs": looks({"fedavg": "fedavg"})["fedavg"],
    }


def test_more_variants_than_looks_still_have_one_each():
    assert len(looks({str(number): "fedavg" for number in range(PLACES + 9)})) == PLACES + 9


def test_a_dark_page_has_as_many_colours():
    assert len({ON_DARK.get(colour, colour) for colour in COLOURS}) == len(COLOURS)
    assert set(ON_DARK) <= set(COLOURS)


def test_plot_and_report_show_the_same_looks(tmp_path):
    names = ["fedavg", "scaffold", "package.module:Mine", "fedtrip"]
    results = {name: [result(name, 0, [0.1, 0.5])] for name in names}
    expected = looks_of(results)
    lines = convergence(results).axes[0].get_lines()[: len(names)]
    assert [line.get_color() for line in lines] == [expected[name].colour for name in names]
    assert all(line.get_linestyle() == expected[name].style for line, name in zip(lines, names, strict=True) if "." not
               in name)  # fmt: skip
    write_report(results, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (data,) = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    shown = {variant["label"]: (variant["colour"], variant["dash"]) for variant in data["variants"]}
    assert shown == {name: (expected[name].colour, DASHES[expected[name].style]) for name in names}


def test_many_methods_have_their_legend_beside_the_plot():
    few, many = (
        convergence({name: [result(name, 0, [0.1, 0.5])] for name in METHOD.names()[:count]}) for count in (FEW, 20)
    )
    assert few.axes[0].get_legend() is not None
    assert not few.legends
    (legend,) = many.legends
    assert many.axes[0].get_legend() is None
    assert [text.get_text() for text in legend.get_texts()] == METHOD.names()[:20]
    many.draw_without_rendering()
    assert legend.get_window_extent().x0 >= many.axes[0].get_window_extent().x1
    assert legend.get_window_extent().y0 >= 0
