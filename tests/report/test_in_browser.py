"""The page in a real browser: Debian's Chromium without a window, driven by Selenium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser import Browser, needs_chromium

from fedtrip import Experiment, compare

pytestmark = needs_chromium
CHARTS = ("convergence", "rounds", "final", "fairness", "labels", "confusion")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser") / "cmp"
    experiment = Experiment(rounds=6, clients=4, per_round=2, samples_per_client=40, target=0.3)
    compare(experiment, methods=["fedtrip", "fedavg", "slowmo"], trials=2, workers=1, out=out)
    return out / "report.html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.driver.quit()


def test_every_chart_is_drawn_without_an_error_or_a_request(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    for name in CHARTS:
        assert chromium.run(f"return document.querySelectorAll('#{name}-0 svg.main-svg').length") > 0, name
    assert chromium.curves() == ["fedtrip", "fedavg", "slowmo"]
    assert chromium.run("return document.querySelectorAll('#rounds-0 .boxlayer .trace').length") == 3
    assert chromium.run("return document.querySelectorAll('#labels-0 .hm image').length") == 1
    assert chromium.driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in chromium.driver.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [page.as_uri()]


def test_no_button_sends_anything(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    titles = chromium.run("return [...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)")
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Reset axes"]


def test_a_toggled_method_vanishes_from_all_charts_and_comes_back(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    chromium.click(".chips button:nth-child(2)")
    assert chromium.curves() == ["fedtrip", "slowmo"]
    assert chromium.run("return document.querySelector('.chips button:nth-child(2)').ariaPressed") == "false"
    assert "fedavg" not in chromium.run("return document.querySelector('#fairness-0 .yaxislayer-above').textContent")
    chromium.click(".chips button:nth-child(2)")
    assert chromium.curves() == ["fedtrip", "fedavg", "slowmo"]


def test_the_table_sorts_both_ways(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    rows = "return [...document.querySelectorAll('#table-0 tbody tr')].map((r) => +r.cells[{}].dataset.value)"
    megabytes = chromium.run(rows.format(7))
    chromium.click("#table-0 thead th:nth-child(8) button")
    assert chromium.run(rows.format(7)) == sorted(megabytes)
    chromium.click("#table-0 thead th:nth-child(8) button")
    assert chromium.run(rows.format(7)) == sorted(megabytes, reverse=True)
    names = "return [...document.querySelectorAll('#table-0 tbody th')].map((h) => h.textContent)"
    chromium.click("#table-0 thead th:nth-child(1) button")
    assert chromium.run(names) == ["fedavg", "fedtrip", "slowmo"]


def test_the_x_axis_switches(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    title = "return document.querySelector('#convergence-0 .xtitle').textContent"
    assert chromium.run(title) == "communication round"
    for unit, expected in (("megabytes", "MB sent"), ("gflops", "GFLOPs of one client")):
        chromium.click(f"[data-x={unit}]")
        assert expected in chromium.run(title)
        drawn = chromium.run("return document.getElementById('convergence-0').data.at(-1).x")
        assert drawn == chromium.run(f"return JSON.parse(data.textContent)[0].variants[2].x.{unit}")


def test_light_and_dark_by_the_system_and_by_the_switch(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri(), scheme="light")
    light = chromium.ink()
    chromium.show(page.as_uri(), scheme="dark")
    dark = chromium.ink()
    assert dark != light
    tick = "return getComputedStyle(document.querySelector('#rounds-0 .ytick text')).fill"
    assert chromium.run(tick) == dark
    chromium.click("#theme")
    assert chromium.ink() == chromium.run(tick) == light


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(chromium: Browser, page: Path, width: int) -> None:
    chromium.show(page.as_uri(), width)
    assert chromium.run("return document.documentElement.scrollWidth") <= width
    for name in CHARTS:
        inside = chromium.run(f"return document.querySelector('#{name}-0 svg').getBoundingClientRect().right")
        assert inside <= width, name


def test_another_seed_shows_its_own_partition(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    shown = "return document.getElementById('labels-0').data[0].z"
    first = chromium.run(shown)
    chromium.run("const s = document.querySelector('.seed'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    assert chromium.run(shown) == chromium.run("return JSON.parse(data.textContent)[0].labels['1']") != first


def test_another_variant_shows_its_own_confusion_matrix(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri())
    shown = "return document.getElementById('confusion-0').data[0].text"
    first = chromium.run(shown)
    assert sum(map(sum, first)) == 360, "the test set of digits"
    chromium.run(
        "const s = document.querySelector('.confused'); s.value = 'slowmo'; s.dispatchEvent(new Event('change'))"
    )
    assert chromium.run(shown) == chromium.run("return JSON.parse(data.textContent)[0].variants[2].confusion") != first


def test_it_prints_in_light_colours(chromium: Browser, page: Path) -> None:
    chromium.show(page.as_uri(), scheme="dark")
    chromium.run("window.dispatchEvent(new Event('beforeprint'))")
    assert chromium.run("return document.documentElement.dataset.theme") == "light"
    chromium.run("window.dispatchEvent(new Event('afterprint'))")
    assert chromium.run("return 'theme' in document.documentElement.dataset") is False


# ---- what the page may do


def violations(chromium: Browser) -> list[str]:
    return [entry["message"] for entry in chromium.driver.get_log("browser") if "Security Policy" in entry["message"]]


def test_all_charts_are_drawn_under_a_policy_that_forbids_everything_else(chromium, page):
    policy = "document.querySelector('meta[http-equiv=Content-Security-Policy]').content"
    chromium.show(page.as_uri())
    assert "default-src 'none'" in chromium.run(f"return {policy}")
    for name in CHARTS:
        assert chromium.run(f"return document.querySelectorAll('.chart.{name} .main-svg').length") > 0, name
    chromium.click("#theme")
    chromium.run("return Plotly.toImage(document.querySelector('#convergence-0'), {format: 'png'})")
    assert violations(chromium) == []


def test_a_script_that_somebody_brings_into_the_page_does_not_run(chromium, page, tmp_path):
    spoilt = page.read_text(encoding="utf-8").replace("<main>", "<main><script>window.owned = 1</script>", 1)
    (tmp_path / "spoilt.html").write_text(spoilt, encoding="utf-8")
    chromium.show((tmp_path / "spoilt.html").as_uri())
    chromium.run(
        "const s = document.createElement('script'); s.textContent = 'window.owned = 2'; document.body.append(s)"
    )
    assert chromium.run("return window.owned ?? null") is None
    assert violations(chromium)
