"""Runs that kill themselves with SIGKILL, started as a process of its own: `python crashes.py FOLDER < cases.json`.

A life is a fork of this process (which has imported everything and run nothing), so that hundreds of real deaths are
cheap. In a life, every renaming (before and after), every removal of a file, every half-written file and every line of
metrics counts as one moment; the life ends at the moment it is told, by `os.kill(os.getpid(), SIGKILL)`. Or it is left
alone, and its process group killed from outside after a random time.
"""

import builtins
import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from torch import nn

import fedtrip
from fedtrip.engines.pool import PoolEngine
from fedtrip.rounds import memories as store
from fedtrip.runs import checkpoint
from fedtrip.runs import folder as runs
from fedtrip.runs import writer as run_writer


def blobs():
    random_ = np.random.default_rng(0)
    centres = random_.normal(size=(3, 6)) * 2
    labels = np.arange(120) % 3
    inputs = (centres[labels] + random_.normal(size=(120, 6))).astype(np.float32)
    return {"x_train": inputs[:90], "y_train": labels[:90], "x_test": inputs[90:], "y_test": labels[90:]}


def normalised():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


class Moments:
    """Counts the moments at which a life may end, and ends it at one of them."""

    def __init__(self, last):
        self.count, self._last, self.names = 0, last, []

    def pass_by(self, name):
        self.count += 1
        self.names.append(name)
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self):
        replace, unlink, note = os.replace, os.unlink, run_writer.RunWriter.note

        def replaced(source, target, **keywords):
            self.pass_by(f"before {Path(target).name}")
            replace(source, target, **keywords)
            self.pass_by(f"after {Path(target).name}")

        def unlinked(path, **keywords):
            self.pass_by("unlink")
            unlink(path, **keywords)

        def in_halves(save):
            def saved(vectors, path, *others):
                save(vectors, path, *others)
                whole = Path(path).read_bytes()
                Path(path).write_bytes(whole[: len(whole) // 2])
                self.pass_by(f"half {Path(path).name}")
                Path(path).write_bytes(whole)

            return saved

        def noted(writer, record):
            line = run_writer._line(record)
            with builtins.open(writer.out / "metrics.jsonl", "a") as file:
                file.write(line[: len(line) // 2])
            self.pass_by("half a line")
            with builtins.open(writer.out / "metrics.jsonl", "r+") as file:
                file.truncate(len(file.read()) - len(line) // 2)
            note(writer, record)
            self.pass_by("line")

        work = PoolEngine.work

        def by_workers(engine, jobs):
            engine.wait_until_ready()  # or this process does the work of such short runs
            outcomes = list(work(engine, jobs))
            self.pass_by("workers done")
            yield from outcomes

        PoolEngine.work = by_workers
        os.replace, os.unlink = replaced, unlinked
        store.save_file, runs.save_file = in_halves(store.save_file), in_halves(runs.save_file)
        run_writer.RunWriter.note = noted


def live(case, out, last, report):
    """One life: the run, or what is left of it; its outcome is written to `report`."""
    moments = Moments(last)
    if not case.get("random_kills"):
        moments.watch()
    if case.get("synced"):
        checkpoint.SECONDS_BETWEEN_SYNCS, checkpoint.SYNCING_PART = 0.0, 1e9
    if "seconds_between_saves" in case:
        run_writer.SECONDS_BETWEEN_SAVES, run_writer.COSTS_BETWEEN_SAVES = case["seconds_between_saves"], 0
    fields = dict(case["experiment"])
    model = normalised if case.get("normalised") else None
    experiment = fedtrip.Experiment(**fields)
    try:
        if "tune" in case:
            fedtrip.tune(experiment, data=blobs(), out=out, resume=True, workers=1, **case["tune"])
            told = hashlib.sha256((Path(out) / "tuning.json").read_bytes()).hexdigest()
            Path(report).write_text(json.dumps({"sha": told, "moments": moments.names}))
            return
        result = fedtrip.run(
            experiment,
            data=blobs(),
            model=model,
            out=out,
            resume=True,
            workers=case.get("workers", 1),
            checkpoint_every=case.get("checkpoint_every", 1),
        )
        outcome = {"sha": result.model_sha256, "moments": moments.names}
    except fedtrip.UserError as problem:
        outcome = {"refused": str(problem)}
    except BaseException:
        outcome = {"failed": traceback.format_exc()}
    Path(report).write_text(json.dumps(outcome))


def born(case, out, last, report, seconds=None):
    """Start a life and wait for its end, or kill it after so many seconds; its outcome, or None if it was killed."""
    Path(report).unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            live(case, out, last, report)
        finally:
            os._exit(0)
    os.setpgid(child, child)  # before it can start a process of its own: that takes longer
    until = time.monotonic() + (seconds if seconds is not None else 1e9)
    ended, status = 0, 0
    while not ended and time.monotonic() < until:
        time.sleep(0.0005)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    return json.loads(Path(report).read_text())


def left_in(out):
    """All that must be the same: names of files, and the metrics but for their times."""
    if (out / "tuning.json").exists():
        names = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
        return {"names": names, **{name: (out / name).read_text() for name in ("tuning.json", "tuning.md")}}
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["seconds"] = None
    snapshots = {str(p.relative_to(out)): p.read_bytes().hex() for p in sorted(out.glob("snapshots/*/*"))}
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    return {"lines": lines, "names": names, "snapshots": snapshots}


def crash(case, folder):
    """Kill at every moment (or some), each time begin again until the run is done, and tell what went wrong."""
    report = folder / "report.json"
    whole = born(case, folder / "whole", None, report)
    if "sha" not in whole:
        return {"wrong": [["whole", whole]], "kills": 0}
    wanted = {"sha": whole["sha"], **left_in(folder / "whole")}
    if case.get("random_kills"):
        return kill_at_random(case, folder, wanted, report)
    dice, count = random.Random(case.get("seed", 0)), len(whole["moments"])
    plans = [[moment] for moment in range(1, count + 1, case.get("every", 1))]
    plans += [[dice.randint(1, count) for _ in range(30)] for _ in range(case.get("chains", 0))]
    kills, wrong = 0, []
    for number, plan in enumerate(plans):
        out, ended = folder / f"out{number}", None
        for last in plan:
            if (ended := born(case, out, last, report)) is not None:
                break
            kills += 1
        if ended is None:
            ended = born(case, out, None, report)
        found = {"sha": ended["sha"], **left_in(out)} if "sha" in ended else ended
        if found != wanted:
            names = [whole["moments"][moment - 1] for moment in plan[:1]]
            differing = [key for key in wanted if found.get(key) != wanted[key]]
            wrong.append([names, found if "sha" not in found else differing])
    return {"wrong": wrong, "kills": kills, "runs": len(plans), "moments": whole["moments"]}


def kill_at_random(case, folder, wanted, report):
    """Kill the process group after random times, until it was killed so often; every run is brought to its end."""
    began = time.monotonic()
    born(case, folder / "timed", None, report)
    longest, dice = time.monotonic() - began, random.Random(case.get("seed", 0))
    kills, wrong, runs_done = 0, [], 0
    while kills < case["random_kills"]:
        out, ended, in_this = folder / f"random{runs_done}", None, 0
        while ended is None:
            seconds = dice.uniform(0, longest) if in_this < 8 else None
            ended = born(case, out, None, report, seconds)
            in_this += ended is None
        kills, runs_done = kills + in_this, runs_done + 1
        found = {"sha": ended["sha"], **left_in(out)} if "sha" in ended else ended
        if found != wanted:
            differing = (
                {key: [found[key], wanted[key]] for key in wanted if found.get(key) != wanted[key]}
                if "sha" in found
                else found
            )
            wrong.append([case, f"run {runs_done} after {in_this} kills", differing])
    return {"wrong": wrong, "kills": kills, "runs": runs_done}


if __name__ == "__main__":
    answers = []
    for position, one in enumerate(json.load(sys.stdin)):
        if "tune" in one:
            import fedtrip.api.tuning  # with its figures and tables, once and not in every life
        place = Path(sys.argv[1]) / f"case{position}"
        place.mkdir()
        answers.append(crash(one, place))
    print(json.dumps(answers))
