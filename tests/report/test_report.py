"""The page as a file: complete, self-contained, safe, and made from any finished runs."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import pytest

import fedtrip
from fedtrip import Experiment, UserError, compare
from fedtrip.report import read_folders, write_report

SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 30, "target": 0.05}


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def data_of(page: str) -> list[dict[str, object]]:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def read(path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("machine-folder") / "cmp"
    compare(Experiment(**SMALL), methods=["fedtrip", "fedavg"], trials=2, workers=1, out=out)
    return out


def test_a_comparison_leaves_its_report(comparison):
    page = read(comparison / "report.html")
    text = html.unescape(re.sub(r"<[^>]+>", " ", without_scripts(page)))
    for expected in (
        "fedtrip",
        "fedavg",
        "digits, mlp, dirichlet:0.5",
        "rounds to 5%",
        "2/2",
        "worst client",
        "torch",
    ):
        assert expected in text
    (part,) = data_of(page)
    assert [variant["label"] for variant in part["variants"]] == ["fedtrip", "fedavg"]
    assert len(part["variants"][0]["clients"]) == 2 * 4
    assert part["variants"][0]["x"]["rounds"] == [1, 2, 3]
    assert sum(map(sum, part["labels"]["0"])) == 4 * 30


def test_the_same_runs_give_the_same_page_again(comparison, here, fedtrip):
    ended = fedtrip("report", comparison, "--out", "again.html")
    assert ended.code == 0, ended.err
    assert "again.html" in ended.out
    again, first = read(here / "again.html"), read(comparison / "report.html")
    assert data_of(again) == data_of(first)
    assert f'for run in {comparison}/runs/*/*/experiment.toml; do fedtrip run "$run"; done' in html.unescape(again)
    assert fedtrip("report", comparison, "--out", "again.html").code == 0  # replaced without asking, as figures are


def test_no_request_and_no_path_of_the_machine(comparison):
    page = read(comparison / "report.html")
    assert re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", without_scripts(page)) == ["data:,"]
    assert "@import" not in page
    assert "url(" not in page
    assert "machine-folder" not in page


def test_the_typed_command_is_stored_and_shown(here, fedtrip):
    options = ["--methods", "fedavg", "--trials", 1, "--rounds", 2, "--out", "a b", "-q", "--workers", 1]
    ended = fedtrip("compare", *options)
    assert ended.code == 0, ended.err
    assert "report  " in ended.out
    assert "fedtrip compare --methods fedavg --trials 1 --rounds 2 --out 'a b'" in html.unescape(
        read(here / "a b/report.html")
    )
    fedtrip("report", "a b")
    assert "--out 'a b' -q --workers 1" in html.unescape(read(here / "a b/report.html"))


def test_everything_a_user_names_is_text(make_runs, tmp_path):
    evil = "<img src=x onerror=alert(1)></script>&amp;'\""
    write_report({evil: make_runs("fedavg", [3])}, tmp_path / "p.html", title=evil, commands=[evil], remarks=[evil])
    page = read(tmp_path / "p.html")
    assert evil not in page
    assert "<img" not in page
    assert data_of(page)[0]["variants"][0]["label"] == evil
    assert page.count("</script>") == 3


def test_runs_are_trials_wherever_they_lie_and_other_experiments_get_their_folders_name(here):
    for folder, fields in {"a": {"seed": 1}, "b": {"seed": 0}, "c": {"lr": 0.5}}.items():
        fedtrip.run(Experiment(method="fedavg", **SMALL, **fields), out=here / folder, workers=1)
    collected = read_folders([here / "a", here / "b", here / "b", here / "c"])
    found = {label: [run.experiment.seed for run in runs] for label, runs in collected.histories.items()}
    assert found == {"fedavg": [0, 1], "fedavg (c)": [0]}
    assert collected.commands[0] == f"fedtrip run {here / 'a' / 'experiment.toml'} --out again"
    assert len(collected.versions) == 1


def test_unfinished_runs_are_left_out_and_told(comparison, here, fedtrip):
    import shutil

    shutil.copytree(comparison, "cut")
    (here / "cut/runs/fedtrip/1/summary.json").unlink()
    fedtrip("report", "cut")
    page = read(here / "cut/report.html")
    assert "1 run is not finished in &#39;cut&#39;" in page
    assert [len(v["trials"]) for v in data_of(page)[0]["variants"]] == [1, 2]


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda: Path("empty").rmdir(), "'empty' is not a folder"),
        (lambda: None, "holds neither a run nor a comparison"),
        (lambda: open("empty/comparison.json", "w").write("[]"), "comparison.json' cannot be read"),  # noqa: SIM115
        (
            lambda: open("empty/comparison.json", "w").write('{"variants": {"a": "a"}, "seeds": [0]}'),  # noqa: SIM115
            "no finished run in 'empty'",
        ),
    ],
)
def test_folders_without_a_finished_run_are_refused(here, fedtrip, prepare, told):
    (here / "empty").mkdir()
    prepare()
    ended = fedtrip("report", "empty")
    assert ended.code == 2
    assert told in ended.err
    assert not (here / "empty/report.html").exists()


def test_a_page_must_be_html(comparison, fedtrip):
    ended = fedtrip("report", comparison, "--out", "page.pdf")
    assert ended.code == 2
    assert "accepted: .html, .htm" in ended.err


def test_histories_without_models_or_data_say_what_is_missing(make_runs, tmp_path):
    write_report({"a": make_runs("fedavg", [3], clients=4, samples_per_client=30)}, tmp_path / "a.html")
    assert "Accuracy by client needs the final models" in read(tmp_path / "a.html")

    def nothing_here(_experiment):
        raise UserError("data set 'digits' is not on this machine")

    write_report({"a": make_runs("fedavg", [3])}, tmp_path / "b.html", prepare=nothing_here)
    page = read(tmp_path / "b.html")
    assert "Nothing about the clients is shown" in page
    assert data_of(page)[0]["labels"] == {}


def test_a_report_downloads_nothing(make_runs, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDTRIP_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("fedtrip.data.acquire.obtain", lambda *_, **__: pytest.fail("a download"))
    write_report({"a": make_runs("fedavg", [3], dataset="cifar-10", model="cnn")}, tmp_path / "a.html")
    assert "is not on this machine" in read(tmp_path / "a.html")


def test_a_users_own_files_are_shown_without_their_folders(make_runs, tmp_path):
    write_report({"a": make_runs("fedavg", [3], dataset="npz:/secret/place/mine.npz")}, tmp_path / "a.html")
    shown = without_scripts(read(tmp_path / "a.html"))
    assert "npz:mine.npz, mlp" in shown
    assert shown.count("/secret/place") <= 1  # only in what could not be read


def test_nothing_to_report_is_bad_input(tmp_path):
    with pytest.raises(UserError, match="at least one finished run"):
        write_report({}, tmp_path / "a.html")


def test_open_shows_the_page(comparison, fedtrip, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    fedtrip("report", comparison, "--open")
    assert shown == [(comparison / "report.html").as_uri()]


def test_the_page_has_a_policy_with_the_digests_of_its_scripts(make_runs, tmp_path):
    write_report({"fedavg": make_runs("fedavg", [4])}, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert "unsafe" not in parts["script-src"]
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in parts["script-src"]
    assert page.index("Content-Security-Policy") < page.index("<style>") < page.index("<script")
