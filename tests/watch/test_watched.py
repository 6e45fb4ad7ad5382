"""What is known of runs while they are written: only what is new is read and told, whatever the folders hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.test_hostile_folders import DAMAGES, DEEP, NOT_UTF8, SMALL
from tests.watch.conftest import WriteRun, line

import fedtrip
from fedtrip import Experiment, UserError, compare
from fedtrip.families import METHOD
from fedtrip.figures.palette import ORDER, looks
from fedtrip.files.lock import FolderLock, is_locked
from fedtrip.report.charts import DASHES, appearance, chart_data
from fedtrip.report.folders import read_folders
from fedtrip.report.parts import make_parts
from fedtrip.watch import finding, following, watched
from fedtrip.watch.watched import Watched


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question is a look."""
    monkeypatch.setattr(watched, "SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(watched, "SECONDS_BETWEEN_SEARCHES", 0.0)
    monkeypatch.setattr(watched, "SEARCHING_PART", 1e9)


def append(run: Path, text: str | bytes) -> None:
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def only(news: dict[str, Any]) -> dict[str, Any]:
    (run,) = news["runs"]
    return run


# ---- only what is new


def test_only_new_rounds_are_told(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [0.1, None, 0.3])
    watching = Watched([tmp_path])
    first = watching.news(0)
    assert (only(first)["from"], only(first)["scores"]) == (0, [0.1, None, 0.3])
    assert only(first)["megabytes"] == [1.5, 1.5, 1.5]
    quiet = watching.news(first["tick"])
    assert (quiet["runs"], quiet["parts"], len(quiet["here"])) == ([], [], 1)
    append(run, line(4, 0.4) + line(5, 0.95))
    news = only(watching.news(quiet["tick"]))
    assert (news["from"], news["scores"], news["round"], news["reached"]) == (3, [0.4, 0.95], 5, 5)
    late = only(watching.news(first["tick"]))  # another page, which asked long ago
    assert (late["from"], late["scores"]) == (3, [0.4, 0.95])
    assert only(watching.news(0))["scores"] == [0.1, None, 0.3, 0.4, 0.95]


def test_what_was_read_is_not_read_again(tmp_path: Path, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", [0.1] * 15)
    taken = []
    honest = following.Followed._take
    monkeypatch.setattr(following.Followed, "_take", lambda self, new: (taken.append(len(new)), honest(self, new)))
    watching = Watched([tmp_path])
    for number in (16, 17):
        watching.news(0)
        append(run, line(number, 0.2))
    watching.news(0)
    assert taken == [15 * len(line(1, 0.1)) + 6, len(line(16, 0.2)), len(line(17, 0.2))]  # six rounds have two digits


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [0.1])
    watching, whole = Watched([tmp_path]), line(2, 0.2).encode()
    for cut in range(0, len(whole), 7):
        append(run, whole[cut : cut + 7])
        if cut + 7 < len(whole):
            assert only(watching.news(0))["scores"] == [0.1]
    assert only(watching.news(0))["scores"] == [0.1, 0.2]


def test_a_run_that_goes_on_from_its_checkpoint_is_read_again(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [0.1, 0.2, 0.3, 0.4])
    watching = Watched([tmp_path])
    tick = watching.news(0)["tick"]
    again = [line(number, number / 10, seconds=0.123456) for number in range(1, 7)]  # further than it was, and longer
    (run / "metrics.jsonl").write_text(line(1, 0.1) + "".join(again[1:]), encoding="utf-8")
    news = only(watching.news(tick))
    assert (news["from"], news["scores"]) == (0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def test_a_run_that_takes_the_place_of_another_is_another(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(tmp_path / "run", [0.1, 0.2])
    watching = Watched([tmp_path])
    first = watching.news(0)
    shutil.rmtree(tmp_path / "run")
    write_run(tmp_path / "run", [0.7], seed=3)
    second = watching.news(first["tick"])
    assert first["here"] != second["here"]
    assert (only(second)["seed"], only(second)["from"], only(second)["scores"]) == (3, 0, [0.7])
    shutil.rmtree(tmp_path / "run")
    assert watching.news(0)["here"] == watching.news(0)["runs"] == []


def test_a_run_that_begins_later_is_found(tmp_path: Path, write_run: WriteRun) -> None:
    watching = Watched([tmp_path])
    first = watching.news(0)
    assert first["here"] == []
    write_run(tmp_path / "deep/er/run", [0.1])
    assert only(watching.news(first["tick"]))["where"].endswith("deep/er/run")


def test_much_to_read_is_told_part_by_part(tmp_path: Path, write_run: WriteRun, monkeypatch) -> None:
    monkeypatch.setattr(following, "MOST_AT_ONCE", 3 * len(line(1, 0.1)) + 10)
    write_run(tmp_path / "run", [number / 100 for number in range(1, 11)])
    watching, told, since, answers = Watched([tmp_path]), [], 0, 0
    while True:
        news = watching.news(since)
        for run in news["runs"]:
            told[run["from"] :] = run["scores"]
        since, answers = news["tick"], answers + 1
        if not news["more"]:
            break
    assert told == [number / 100 for number in range(1, 11)]
    assert answers == 4


def test_a_slow_look_ends_and_the_next_one_goes_on_with_the_others(tmp_path: Path, write_run, monkeypatch) -> None:
    monkeypatch.setattr(watched, "SECONDS_OF_A_LOOK", -1.0)  # one run, and the time is up
    for seed in range(3):
        write_run(tmp_path / f"run-{seed}", [0.1], seed=seed)
    watching = Watched([tmp_path])
    answers = [watching.news(0) for _ in range(3)]
    assert [len(news["runs"]) for news in answers] == [1, 2, 3]
    assert [news["more"] for news in answers] == [True, True, True]


def test_several_may_ask_at_once(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [])
    watching, told = Watched([tmp_path]), [[], [], []]

    def ask(mine: list[float]) -> None:
        since = 0
        while len(mine) < 20:
            news = watching.news(since)
            since = news["tick"]
            for one in news["runs"]:
                assert one["from"] == len(mine)
                mine.extend(one["scores"])

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in told]
    for thread in threads:
        thread.start()
    for number in range(1, 21):
        append(run, line(number, number / 20))
    for thread in threads:
        thread.join(timeout=30)
    assert told == [[number / 20 for number in range(1, 21)]] * 3


# ---- states, pace, places


@pytest.mark.parametrize(
    ("summary", "state", "note"),
    [
        ({}, "finished", ""),
        ({"ended": "the model is not finite"}, "ended early", "the model is not finite"),
        ({"stopped": "by its patience after round 2"}, "stopped", "by its patience after round 2"),
        (None, "interrupted", ""),
    ],
)
def test_states_of_runs_that_nobody_writes(tmp_path, write_run, summary, state, note) -> None:
    write_run(tmp_path / "run", [0.1, 0.2], summary)
    run = only(Watched([tmp_path]).news(0))
    assert (run["state"], run["note"]) == (state, note)


def test_a_run_is_running_while_its_folder_is_locked(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run(tmp_path / "run", [0.1, 0.2])
    watching = Watched([tmp_path])
    assert is_locked(folder) is False
    with FolderLock(folder):
        assert is_locked(folder) is True
        first = watching.news(0)
        assert only(first)["state"] == "running"
        assert only(first)["pace"] == 0.5
        assert 0 <= only(first)["quiet"] < 60
    assert only(watching.news(first["tick"]))["state"] == "interrupted"
    assert is_locked(folder) is False, "asking leaves no lock"


def test_where_locks_cannot_tell_the_time_does(tmp_path: Path, write_run: WriteRun, monkeypatch) -> None:
    monkeypatch.setattr(following, "is_locked", lambda _: None)
    folder = write_run(tmp_path / "run", [0.1])
    watching = Watched([tmp_path])
    assert only(watching.news(0))["state"] == "running"
    os.utime(folder / "metrics.jsonl", (1, 1))
    assert only(watching.news(0))["state"] == "interrupted"


def test_the_pace_is_that_of_the_last_ten_rounds(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [])
    append(run, "".join(line(number, 0.1, seconds=100.0 if number <= 5 else 2.0) for number in range(1, 16)))
    assert only(Watched([tmp_path]).news(0))["pace"] == 2.0


def test_a_target_from_above_is_reached_by_a_low_score(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [], task="regression", target=0.5)
    append(run, "".join(line(n, None, scores={"rmse": 1 / n, "loss": 1.0}) for n in (1, 2, 3)))
    news = Watched([tmp_path]).news(0)
    assert news["parts"][0]["goal"] == {"score": "rmse", "share": False}
    assert only(news)["reached"] == 2


def test_a_task_of_ones_own_is_not_imported(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [], task="not_here:Mine", target=None)
    watching = Watched([tmp_path])
    assert watching.news(0)["runs"] == []
    append(run, line(1, None, scores={"loss": 1.0, "dice": 0.4}))
    news = watching.news(0)
    assert news["parts"][0]["goal"]["score"] == "dice"
    assert only(news)["scores"] == [0.4]


def test_trials_are_one_variant_and_other_experiments_get_their_folders_name(tmp_path, write_run) -> None:
    write_run(tmp_path / "a", [0.1], seed=0)
    write_run(tmp_path / "b", [0.1], seed=1)
    write_run(tmp_path / "c", [0.1], lr=0.5)
    write_run(tmp_path / "d/c", [0.1], lr=0.6)
    write_run(tmp_path / "e", [0.1], dataset="mnist", model="cnn")
    news = Watched([tmp_path]).news(0)
    assert [(run["part"], run["variant"]) for run in news["runs"]] == [(0, 0), (0, 0), (0, 1), (0, 2), (1, 0)]
    assert [v["label"] for v in news["parts"][0]["variants"]] == ["fedtrip", "fedtrip (c)", "fedtrip (c, 2)"]
    assert [part["title"] for part in news["parts"]] == ["digits, mlp, dirichlet:0.5", "mnist, cnn, dirichlet:0.5"]


def test_runs_come_as_one_counts_and_each_once(tmp_path, write_run) -> None:
    for seed in (10, 2, 1):
        write_run(tmp_path / f"run-{seed}", [0.1], seed=seed)
    news = Watched([tmp_path, tmp_path / "run-2", tmp_path]).news(0)
    assert [run["seed"] for run in news["runs"]] == [1, 2, 10]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compared") / "cmp"
    compare(Experiment(**SMALL), methods=["slowmo", "fedavg", "fedtrip"], trials=2, workers=1, out=out)
    return out


def test_a_comparison_looks_as_in_its_report(compared: Path, tmp_path: Path) -> None:
    (part,) = make_parts(read_folders([compared]).histories)
    report = chart_data(part, None)
    shutil.copytree(compared, tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut/runs/slowmo")  # whichever begin first, they have the report's colours
    (shown,) = Watched([tmp_path / "cut"]).news(0)["parts"]
    look = ("label", "colour", "dark", "dash")
    assert [[v[k] for k in look] for v in shown["variants"]] == [[v[k] for k in look] for v in report["variants"]]
    assert (shown["goal"], shown["target"], shown["title"]) == (report["goal"], report["target"], part.title)


def test_the_variants_of_a_comparison_have_its_labels_and_of_one_folder_the_first(compared, tmp_path) -> None:
    shutil.copytree(compared, tmp_path / "cmp")
    file = tmp_path / "cmp/comparison.json"
    manifest = json.loads(file.read_text())
    manifest["variants"] = {**manifest["variants"], "fedavg tuned": "fedavg"}  # as a tuning that kept the defaults
    manifest["labels"] = {"slowmo": "Slow", "fedavg": "Mean", "fedtrip": "Ours", "fedavg tuned": "Mean tuned"}
    manifest["experiments"].append(manifest["experiments"][1])
    file.write_text(json.dumps(manifest))
    news = Watched([tmp_path / "cmp"]).news(0)
    (part,) = news["parts"]
    assert [variant["label"] for variant in part["variants"]] == ["Slow", "Mean", "Ours"]
    assert sorted(run["variant"] for run in news["runs"]) == [0, 0, 1, 1, 2, 2]


def test_a_method_has_its_look_whichever_runs_come_first(tmp_path: Path, write_run: WriteRun) -> None:
    """Twenty methods and a class of the user's own, one after the other: no two alike, and each as it always looks."""
    watching, names = Watched([tmp_path]), [*reversed(METHOD.names()[:20]), "package.module:Mine"]
    for number, name in enumerate(names):
        write_run(tmp_path / f"run-{number}", [0.1], method=name, momentum=0.5)
        (part,) = watching.news(0)["parts"]
        seen = {variant["label"]: (variant["colour"], variant["dash"]) for variant in part["variants"]}
        assert len(set(seen.values())) == number + 1
        alone = looks({name: name})[name]
        assert seen[name.rpartition(":")[2]] == (alone.colour, DASHES[alone.style])


def test_a_second_variant_of_a_method_gives_way_to_a_method_whose_look_it_had(tmp_path, write_run) -> None:
    watching = Watched([tmp_path])
    write_run(tmp_path / "a", [0.1], method="fedavg")
    write_run(tmp_path / "b", [0.1], method="fedavg", lr=0.5)
    first = watching.news(0)
    second = first["parts"][0]["variants"][1]
    taken = next(name for name in ORDER if appearance(looks({name: name})[name]).items() <= second.items())
    write_run(tmp_path / "c", [0.1], method=taken)
    (part,) = watching.news(first["tick"])["parts"]  # told again, so that the page draws it anew
    assert [variant["label"] for variant in part["variants"]] == ["fedavg", "fedavg (b)", taken]
    assert part["variants"][2]["colour"] == second["colour"]
    assert len({(variant["colour"], variant["dash"]) for variant in part["variants"]}) == 3


def test_runs_of_a_comparison_that_have_not_begun_wait_while_it_runs(compared: Path, tmp_path: Path) -> None:
    shutil.copytree(compared, tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut/runs/slowmo/1")
    watching = Watched([tmp_path])
    assert watching.news(0)["waiting"] == 0
    with FolderLock(tmp_path / "cut"):
        assert watching.news(0)["waiting"] == 1


def test_a_real_run_is_followed_to_its_end(tmp_path: Path) -> None:
    states, rounds = [], []

    def look(record: fedtrip.RoundRecord) -> None:
        run = only(watching.news(0))
        states.append(run["state"])
        rounds.append((record.round, run["round"], run["score"] == pytest.approx(record.accuracy, rel=1e-5)))

    watching = Watched([tmp_path])
    result = fedtrip.run(Experiment(**SMALL), workers=1, out=tmp_path / "run", on_round=look)
    assert states == ["running", "running"]
    assert rounds == [(1, 1, True), (2, 2, True)]
    end = only(watching.news(0))
    assert (end["state"], end["gflops"]) == ("finished", pytest.approx(result.gflops_per_round, rel=1e-5))


# ---- folders of anybody

CONTENTS = {
    (name, damage): content
    for name, damages in DAMAGES.items()
    for damage, content in damages.items()
    if name != "model.safetensors"
}


@pytest.mark.parametrize(("name", "damage"), CONTENTS)
def test_a_damaged_run_is_told_and_the_others_are_shown(tmp_path, write_run, name, damage) -> None:
    bad = write_run(tmp_path / "bad", [0.1, 0.2], {})
    write_run(tmp_path / "good", [0.3], {})
    content = CONTENTS[name, damage]
    if callable(content):
        content = content((bad / name).read_text())
    (bad / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    news = Watched([tmp_path]).news(0)
    json.dumps(news, allow_nan=False).encode("ascii")
    told = {Path(run["where"]).name: run for run in news["runs"]}
    assert (told["good"]["state"], told["good"]["scores"]) == ("finished", [0.3])
    if name == "experiment.toml":
        assert "bad" not in told
        assert "experiment.toml" in news["remarks"][0]
    elif name == "metrics.jsonl" and damage in ("not UTF-8", "deep"):  # without an end: a line that is being written
        assert told["bad"]["scores"] == []
    else:
        assert told["bad"]["state"] == "damaged", told["bad"]
        assert name in told["bad"]["note"]
        assert len(told["bad"]["note"]) < 500


@pytest.mark.parametrize("text", [DEEP + "\n", NOT_UTF8 + b"\n", b"\n", b"\0\n", b"{}\n", b"NaN\n", line(4, 0.1)])
def test_what_comes_before_a_broken_line_is_shown(tmp_path, write_run, text) -> None:
    run = write_run(tmp_path / "run", [0.1, 0.2])
    append(run, text)
    append(run, line(3, 0.3))
    news = only(Watched([tmp_path]).news(0))
    assert (news["state"], news["scores"]) == ("damaged", [0.1, 0.2])
    assert "metrics.jsonl is damaged at line 3" in news["note"]


def test_a_damaged_line_that_is_mended_is_read(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [0.1])
    append(run, "half a line of a process that was killed\n")
    watching = Watched([tmp_path])
    assert only(watching.news(0))["state"] == "damaged"
    (run / "metrics.jsonl").write_text(line(1, 0.1) + line(2, 0.2))
    assert only(watching.news(0))["scores"] == [0.1, 0.2]


def test_numbers_that_are_none_do_not_reach_the_page(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", [])
    odd = [("NaN", "1"), ("1e999", "NaN"), ("-Infinity", "-5"), ("1" + "0" * 400, "1" + "0" * 400)]
    for number, (score, seconds) in enumerate(odd, 1):
        text = line(number, 0.5).replace("0.5,", f"{score},", 1)
        append(run, re.sub(r'"seconds": [^,]+', f'"seconds": {seconds}', text))
    news = Watched([tmp_path]).news(0)
    json.dumps(news, allow_nan=False)
    assert only(news)["scores"] == [None] * 4
    assert only(news)["pace"] == 1.0


def test_lines_and_rounds_have_an_end(tmp_path: Path, write_run: WriteRun, monkeypatch) -> None:
    monkeypatch.setattr(following, "MOST_AT_ONCE", 5000)
    monkeypatch.setattr(following, "MOST_ROUNDS", 3)
    append(write_run(tmp_path / "long", [0.1]), "9" * 6000)
    write_run(tmp_path / "many", [0.1, 0.2, 0.3, 0.4])
    watching = Watched([tmp_path])
    assert watching.news(0)["more"]
    long, many = watching.news(0)["runs"]
    assert not watching.news(0)["more"]
    assert "a line of more than 5,000 bytes" in long["note"]
    assert (many["scores"], many["note"]) == ([0.1, 0.2, 0.3], "only the first 3 rounds are shown")
    assert many["state"] == "interrupted"


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path, write_run: WriteRun) -> None:
    secret = write_run(tmp_path / "secret/run", [0.9, 0.9], {})
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(secret)
    (inside / "up").symlink_to("..")
    for name in ("experiment.toml", "metrics.jsonl"):
        run = write_run(inside / f"by-{name}", [0.1])
        (run / name).unlink()
        (run / name).symlink_to(secret / name)
    run = write_run(inside / "by-summary", [0.1])
    (run / "summary.json").symlink_to(secret / "summary.json")
    news = Watched([inside]).news(0)
    assert [Path(one["where"]).name for one in news["runs"]] == ["by-summary"]
    assert (only(news)["state"], only(news)["scores"]) == ("interrupted", [0.1])


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path, write_run: WriteRun) -> None:
    secret = write_run(tmp_path / "secret/run", [0.9, 0.9], {})
    run = write_run(tmp_path / "inside/run", [0.1])
    watching = Watched([tmp_path / "inside"])
    watching.news(0)
    shutil.rmtree(run)
    run.symlink_to(secret)
    assert watching.news(0)["runs"] == []


def test_pipes_and_folders_in_place_of_files_do_not_hold_it_up(tmp_path: Path, write_run: WriteRun) -> None:
    for name in ("experiment.toml", "metrics.jsonl", "summary.json", "comparison.json"):
        for kind, make in (("pipe", os.mkfifo), ("folder", os.mkdir)):
            run = write_run(tmp_path / f"{kind}-{name}", [0.1])
            (run / name).unlink(missing_ok=True)
            make(run / name)
    os.mkfifo(tmp_path / "comparison.json")
    news = Watched([tmp_path]).news(0)
    assert {Path(run["where"]).name.partition("-")[2] for run in news["runs"]} == {"summary.json", "comparison.json"}


@pytest.mark.parametrize("content", [b"[]", DEEP.encode(), NOT_UTF8, b'{"variants": {"a": "../.."}, "seeds": [0]}'])
def test_a_manifest_that_makes_no_sense_is_told(compared: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(compared, tmp_path / "cmp")
    (tmp_path / "cmp/comparison.json").write_bytes(content)
    news = Watched([tmp_path]).news(0)
    assert "comparison.json" in news["remarks"][0]
    assert len(news["runs"]) == 6, "the runs are there all the same"


def test_experiments_of_a_manifest_that_make_no_sense_are_left_out(compared: Path, tmp_path: Path) -> None:
    shutil.copytree(compared, tmp_path / "cmp")
    for odd in (7, [7], ["["], [None, "method = 3"], [DEEP]):
        manifest = json.loads((compared / "comparison.json").read_text())
        (tmp_path / "cmp/comparison.json").write_text(json.dumps({**manifest, "experiments": odd}))
        assert len(Watched([tmp_path]).news(0)["runs"]) == 6


def test_there_is_an_end_to_what_is_looked_at(tmp_path: Path, write_run: WriteRun, monkeypatch) -> None:
    for seed in range(5):
        write_run(tmp_path / f"run-{seed}", [0.1], seed=seed)
    monkeypatch.setattr(finding, "MOST_RUNS", 3)
    news = Watched([tmp_path]).news(0)
    assert (len(news["runs"]), news["remarks"]) == (3, ["Only the first 3 runs are shown."])
    monkeypatch.setattr(finding, "MOST_FOLDERS", 3)
    assert Watched([tmp_path]).news(0)["remarks"] == ["Only the first 3 folders were looked at."]
    deep = tmp_path / "0" / "/".join("12345678")
    write_run(deep, [0.1], seed=9)
    monkeypatch.undo()
    assert 9 not in [run["seed"] for run in Watched([tmp_path]).news(0)["runs"]]
    assert [run["seed"] for run in Watched([tmp_path / "0"]).news(0)["runs"]] == [9]


def test_names_that_are_no_text_are_shown_as_such(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(tmp_path / "a\x1b[31m\u202eb", [0.1])
    write_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/not-\xff")), [0.1], seed=1)
    write_run(tmp_path / ("z" * 250), [0.1], seed=2)
    news = Watched([tmp_path]).news(0)
    json.dumps(news).encode("ascii")
    shown = [run["where"] for run in news["runs"]]
    assert len(shown) == 3
    assert all(text.isprintable() and len(text) < 260 for text in shown)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'nowhere' is not a folder; accepted: "):
        Watched([tmp_path, Path("nowhere")])
