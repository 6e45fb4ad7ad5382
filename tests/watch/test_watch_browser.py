"""The page in a real browser: points appear while a run goes on, zoom is kept, a hundred runs are fine."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.browser import Browser, needs_chromium
from tests.watch.conftest import WriteRun, line, started

from fedtrip import Experiment, compare
from fedtrip.files.lock import FolderLock
from fedtrip.report.charts import chart_data
from fedtrip.report.folders import read_folders
from fedtrip.report.parts import make_parts
from fedtrip.watch.server import WatchServer
from fedtrip.watch.watched import Watched

pytestmark = needs_chromium
DATA = "return document.querySelector('.chart')?.data"
SMALL = ["--rounds", "100000", "--clients", "4", "--per-round", "2", "--samples-per-client", "40"]
RANGE = "return document.querySelector('.chart').layout.xaxis.range"
STATES = "return [...document.querySelectorAll('tbody .state')].map((s) => s.textContent)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.driver.quit()


@contextmanager
def watching(*folders: Path) -> Iterator[WatchServer]:
    with WatchServer(Watched(folders)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def until(is_so: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
    return found


def drawn(chromium: Browser) -> list[int]:
    """How many points each curve has."""
    return [len(trace["x"]) for trace in chromium.run(DATA) or []]


def append(run: Path, *lines: str) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write("".join(lines))


def test_points_appear_while_a_real_run_goes_on(chromium: Browser, tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        chromium.show(server.address)
        assert chromium.run("return document.getElementById('empty').hidden") is False
        seen = set[int]()
        with started("run", "--out", tmp_path / "run", "-q", "--workers", 1, *SMALL) as run:
            until(lambda: sum(drawn(chromium)) > 1, 120)
            assert chromium.run(STATES) == ["running"]
            assert chromium.run("return document.getElementById('empty').hidden") is True
            until(lambda: seen.update(drawn(chromium)) or len(seen) > 3)  # one after the other
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130
        until(lambda: chromium.run(STATES) == ["interrupted"])
        lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
        stored = [json.loads(one)["scores"]["accuracy"] for one in lines]
        until(lambda: drawn(chromium) == [len(stored)])
        (curve,) = chromium.run(DATA)
        assert curve["x"] == list(range(1, len(stored) + 1))
        assert curve["y"] == pytest.approx(stored, rel=1e-5)
        assert chromium.driver.get_log("browser") == []


def test_zoom_and_what_is_hidden_stay_when_points_come(chromium: Browser, tmp_path: Path, write_run: WriteRun) -> None:
    runs = [write_run(tmp_path / method, [0.1, 0.2, 0.3, 0.4], method=method) for method in ("fedavg", "fedprox")]
    with watching(tmp_path) as server:
        chromium.show(server.address)
        chromium.click(".chips button:nth-child(2)")
        until(lambda: chromium.curves() == ["fedavg, seed 0"])
        chromium.driver.execute_script(
            "const box = document.querySelector('.chart .nsewdrag').getBoundingClientRect();"
            "const at = (x, y) => ("
            "  { bubbles: true, clientX: box.left + x * box.width, clientY: box.top + y * box.height });"
            "const drag = document.querySelector('.chart .nsewdrag');"
            "drag.dispatchEvent(new MouseEvent('mousedown', at(0.3, 0.3)));"
            "document.dispatchEvent(new MouseEvent('mousemove', at(0.7, 0.7)));"
            "document.dispatchEvent(new MouseEvent('mouseup', at(0.7, 0.7)));"
        )
        zoomed = until(lambda: (found := chromium.run(RANGE))[0] > 0.5 and found)
        assert zoomed[1] < 4
        append(runs[0], line(5, 0.5), line(6, 0.6))
        until(lambda: 6 in drawn(chromium))
        assert chromium.run(RANGE) == zoomed
        assert chromium.curves() == ["fedavg, seed 0"]
        chromium.click("[data-x=megabytes]")
        assert chromium.run(RANGE) != zoomed, "another axis begins anew"


def test_what_was_not_zoomed_into_grows_with_the_points(chromium: Browser, tmp_path, write_run) -> None:
    run = write_run(tmp_path / "run", [0.1, 0.2])
    with watching(tmp_path) as server:
        chromium.show(server.address)
        before = chromium.run(RANGE)
        append(run, *(line(number, 0.5) for number in range(3, 16)))
        until(lambda: 15 in drawn(chromium))
        assert chromium.run(RANGE)[1] > 2 * before[1]


def test_the_means_are_those_of_the_report(chromium: Browser, tmp_path: Path) -> None:
    out = tmp_path / "cmp"
    experiment = Experiment(rounds=16, clients=4, per_round=2, target=0.6, stop_at_target=True, eval_every=2)
    compare(experiment, methods=["fedtrip", "fedavg"], trials=3, workers=1, out=out)
    (part,) = make_parts(read_folders([out]).histories)
    report = chart_data(part, None)["variants"]
    assert len({len(run.records) for runs in part.histories.values() for run in runs}) > 1, "some ended earlier"
    with watching(out) as server:
        chromium.show(server.address)
        chromium.click("[data-lines=means]")
        for unit in ("rounds", "megabytes", "gflops"):
            chromium.click(f"[data-x={unit}]")
            traces = chromium.run(DATA)
            for variant, curve in zip(report, traces[len(report) :], strict=True):
                assert curve["name"] == variant["label"]
                assert curve["x"] == pytest.approx(variant["x"][unit], rel=1e-5)
                assert curve["y"] == pytest.approx(variant["mean"], abs=2e-5)
                assert [point[1] for point in curve["customdata"]] == pytest.approx(variant["low"], abs=2e-5)
                assert [point[2] for point in curve["customdata"]] == pytest.approx(variant["high"], abs=2e-5)
                assert curve["line"]["color"] == variant["colour"]
                assert curve["line"]["dash"] == variant["dash"]


def test_the_chips_have_the_looks_of_the_curves_also_when_these_change(chromium: Browser, tmp_path, write_run) -> None:
    chips = "return [...document.querySelectorAll('.chips line')].map((l) => l.getAttribute('stroke'))"
    dashes = "return [...document.querySelectorAll('.chips line')].map((l) => l.getAttribute('stroke-dasharray'))"

    def looks() -> list[str]:
        return [curve["line"]["color"] for curve in chromium.run(DATA)]

    write_run(tmp_path / "a", [0.1, 0.2], {}, method="fedavg")
    write_run(tmp_path / "b", [0.1, 0.2], {}, method="fedavg", lr=0.5)
    with watching(tmp_path) as server:
        chromium.show(server.address)
        before = looks()
        assert chromium.run(chips) == before
        write_run(tmp_path / "c", [0.1, 0.2], {}, method="fedtrip")  # the second FedAvg had its look
        until(lambda: len(looks()) == 3)
        assert looks()[1] != before[1] == looks()[2]
        assert chromium.run(chips) == looks()
        assert len(set(chromium.run(dashes))) > 1


def test_a_run_under_way_counts_for_the_mean_up_to_its_last_round(chromium: Browser, tmp_path, write_run) -> None:
    write_run(tmp_path / "a", [0.2, 0.4, 0.6], {}, seed=0, rounds=3)
    write_run(tmp_path / "b", [0.4, 0.8], seed=1, rounds=3)
    with watching(tmp_path) as server:
        chromium.show(server.address)
        chromium.click("[data-lines=means]")
        _, mean = chromium.run(DATA)
        assert mean["y"] == pytest.approx([0.3, 0.6, 0.6])


def test_the_table_tells_round_score_state_and_time_left(chromium: Browser, tmp_path, write_run) -> None:
    running = write_run(tmp_path / "running", [0.1, 0.95], rounds=122)
    write_run(tmp_path / "done", [0.5, 0.625], {}, rounds=122, seed=1)
    write_run(tmp_path / "ended", [0.5], {"ended": "the model is <b>not</b> finite"}, rounds=122, seed=2)
    append(running, line(3, None, seconds=90.5))
    cells = "return [...document.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => c.innerText.trim()))"
    with FolderLock(running), watching(tmp_path) as server:
        chromium.show(server.address)
        rows = {row[1]: row for row in chromium.run(cells)}
        assert rows["0"][:6] == ["fedtrip", "0", "3 / 122", "95.00%", "2", "running"]
        hours = rows["0"][6]
        assert hours in ("1 h 0 min", "1 h 1 min"), "119 rounds of (0.5 + 0.5 + 90.5) / 3 seconds"
        assert rows["1"][2:7] == ["2 / 122", "62.50%", "", "finished", ""]
        assert rows["2"][5].split("\n") == ["ended early", "the model is <b>not</b> finite"]
        assert rows["2"][7].endswith("/ended")
        status = chromium.run("return document.getElementById('status').textContent")
        assert status == f"1 running, 1 finished, 1 ended early; about {hours} left"
        chromium.click("thead th:nth-child(4) button")
        assert [row[1] for row in chromium.run(cells)] == ["2", "1", "0"]
        append(running, line(4, 0.1))
        until(lambda: [row[1] for row in chromium.run(cells)] == ["0", "2", "1"])  # sorted again


def test_a_hundred_runs_are_fine(chromium: Browser, tmp_path: Path, write_run: WriteRun) -> None:
    for number in range(100):
        curve = [1 - 1 / (1 + 0.1 * t * (1 + number % 10)) for t in range(1, 201)]
        method = {"name": "fedprox", "mu": 0.1 * (number % 10)}
        write_run(tmp_path / f"run-{number}", curve, rounds=400, method=method, seed=number // 10)
    with watching(tmp_path) as server:
        began = time.monotonic()
        chromium.show(server.address)
        until(lambda: sum(drawn(chromium)) == 100 * 200)
        assert time.monotonic() - began < 60
        assert len(chromium.run(STATES)) == 100
        assert chromium.run("return document.querySelectorAll('.chips button').length") == 10
        began = time.monotonic()
        append(tmp_path / "run-42", line(201, 0.99))
        until(lambda: 201 in drawn(chromium))
        assert time.monotonic() - began < 30
        sizes = chromium.run(
            "return performance.getEntriesByType('resource').filter((e) => e.name.includes('news'))"
            ".map((e) => e.decodedBodySize)"
        )
        assert max(sizes) > 100_000
        assert min(sizes) < 2000, "what is not new is not sent again"
        assert chromium.driver.get_log("browser") == []


def test_a_run_that_is_removed_leaves_the_page(chromium: Browser, tmp_path: Path, write_run: WriteRun) -> None:
    write_run(tmp_path / "a", [0.1, 0.2])
    gone = write_run(tmp_path / "b", [0.1, 0.2], dataset="mnist", model="cnn")
    with watching(tmp_path) as server:
        chromium.show(server.address)
        parts = "return [...document.querySelectorAll('.part')].filter((p) => !p.hidden).length"
        assert chromium.run(parts) == 2
        shutil.rmtree(gone)
        until(lambda: chromium.run(parts) == 1)
        assert len(chromium.run(STATES)) == 1


def test_names_from_files_are_text(chromium: Browser, tmp_path: Path, write_run: WriteRun) -> None:
    evil = "<img src=x onerror=window.owned=1>"
    write_run(tmp_path / "<b>bold<" / evil.replace("/", ""), [0.1, 0.2], method=f"x:{evil}", model=f"y:{evil}")
    broken = write_run(tmp_path / f"broken{evil}", [0.1])
    (broken / "experiment.toml").write_text(f'dataset = "<i>{evil}"\nrounds = 0\n')
    with watching(tmp_path) as server:
        chromium.show(server.address)
        assert chromium.run("return document.querySelectorAll('main img, main b, main i').length") == 0
        assert evil in chromium.run("return document.querySelector('tbody th').textContent")
        assert evil in chromium.run("return document.querySelector('.chips').textContent")
        assert evil in chromium.run("return document.querySelector('.part-title').textContent")
        assert "<b>bold<" in chromium.run("return document.querySelector('td.folder').textContent")
        assert "broken<img" in chromium.run("return document.getElementById('remarks').textContent")
        assert chromium.curves() == [f"x:{evil}, seed 0".replace("<", "&lt;").replace(">", "&gt;")]
        assert chromium.run("return window.owned ?? null") is None


def test_the_policy_holds_and_nothing_else_is_asked(chromium: Browser, tmp_path: Path, write_run: WriteRun) -> None:
    write_run(tmp_path / "a", [0.1, 0.2])
    with watching(tmp_path) as server:
        chromium.show(server.address)
        chromium.click("#theme")
        chromium.run("return Plotly.toImage(document.querySelector('.chart'), {format: 'png'})")
        assert chromium.driver.get_log("browser") == []
        events = [json.loads(entry["message"])["message"] for entry in chromium.driver.get_log("performance")]
        asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
        outside = {url for url in asked if not url.startswith(("data:", "blob:", f"{server.address}news?since="))}
        assert outside == {server.address}
        chromium.run(
            "const s = document.createElement('script'); s.textContent = 'window.owned = 2'; document.body.append(s);"
            "fetch('http://127.0.0.1:1/').catch(() => {})"
        )
        told = until(lambda: [entry["message"] for entry in chromium.driver.get_log("browser")])
        assert all("Security Policy" in message for message in told)
        assert chromium.run("return window.owned ?? null") is None


def test_it_says_when_the_server_has_ended(chromium: Browser, tmp_path: Path, write_run: WriteRun) -> None:
    write_run(tmp_path / "a", [0.1, 0.2])
    lost = "return !document.getElementById('lost').hidden"
    with started("watch", tmp_path) as process:
        assert process.stdout is not None
        chromium.show(process.stdout.readline().split()[2])
        assert chromium.run(lost) is False
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        until(lambda: chromium.run(lost))
    assert drawn(chromium) == [2], "what was shown stays"


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(chromium: Browser, tmp_path, write_run, width: int, scheme: str) -> None:
    for seed in range(3):
        write_run(tmp_path / "a-name-that-is-rather-long-for-a-folder" / f"run-{seed}", [0.1, 0.2], seed=seed)
    with watching(tmp_path) as server:
        chromium.show(server.address, width, scheme)
        assert chromium.run("return document.documentElement.scrollWidth") <= width
        assert chromium.run("return document.querySelector('.chart svg').getBoundingClientRect().right") <= width
        tick = chromium.run("return getComputedStyle(document.querySelector('.xtick text')).fill")
        quiet = chromium.run("return getComputedStyle(document.querySelector('.eyebrow')).color")
        assert tick == quiet, "the chart has the page's colours"
