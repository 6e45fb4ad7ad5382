"""Measures what docs/reliability.md says, and writes it: `python tests/reliability.py [kills] [faults] [inputs]
[overhead]`, everything by default. The raw figures are kept in docs/reliability.json; parts that are not measured
again stay as they were."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

import numpy as np

import fedtrip
from fedtrip.runs.result import versions

HERE = Path(__file__).parent
FIGURES = HERE.parent / "docs" / "reliability.json"
PAGE = HERE.parent / "docs" / "reliability.md"
METHODS = ["fedtrip", "feddyn", "scaffold", "mimelite", "feddane", "fedgkd", "slowmo", "moon", "fedavg"]
SMALL = {"rounds": 4, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "seed": 7}
FAULTS = {
    "worker killed": ["tests/engines/test_pool.py", "-k", "killed"],
    "worker hanging or out of memory": ["tests/engines/test_worker_faults.py"],
    "trial's process killed or failing": ["tests/comparison/test_trials.py", "-k", "killed or error"],
    "Ctrl-C, and a comparison killed": ["tests/test_interruption.py", "-k", "ctrl_c or comparison"],
    "SIGTERM and SIGHUP": ["tests/test_interruption.py", "-k", "sigterm or sighup or signal_at"],
    "damaged finished run, edited records, stale memory": ["tests/runs/test_damage.py"],
    "damaged or foreign checkpoint": ["tests/runs/test_checkpoint.py", "-k", "damaged or missing or noticed"],
    "foreign data, model or experiment": [
        "tests/runs/test_durability.py",
        "-k",
        "another_experiment or data_file or factory or schema",
    ],
    "loss of power": ["tests/runs/test_durability.py", "-k", "power"],
    "disk full or read-only": ["tests/runs/test_durability.py", "-k", "full_disk or read_only"],
    "second writer": ["tests/runs/test_durability.py", "-k", "another_process_writes or given_back"],
    "clients that drop out or send nonsense": [
        "tests/rounds/test_client_faults.py",
        "-k",
        "expects or those_clients or memory or nobody",
    ],
}


def kills():
    """SIGKILL at random moments to the whole process group, and at chosen moments between write and rename."""
    at_random = [
        {"experiment": {**SMALL, "method": name}, "random_kills": 30, "seed": number, "synced": number % 2 == 1}
        for number, name in enumerate(METHODS)
    ]
    at_random.append({"experiment": {**SMALL, "method": "scaffold"}, "workers": 2, "random_kills": 30})
    injected = [
        {"experiment": {**SMALL, "method": name, "rounds": 3}, "chains": 2, "seed": number, "synced": number % 2 == 0}
        for number, name in enumerate(["fedtrip", "scaffold", "feddane", "fedavg"])
    ]
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, str(HERE / "crashes.py"), folder],
            input=json.dumps(at_random + injected),
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=True,
        )
    answers = json.loads(ended.stdout)
    for answer in answers:
        for told in answer["wrong"]:
            print(f"wrong: {told}", file=sys.stderr)
    parts = {"at random": answers[: len(at_random)], "injected": answers[len(at_random) :]}
    return {
        name: {
            "kills": sum(answer["kills"] for answer in part),
            "runs": sum(answer["runs"] for answer in part),
            "wrong": sum(len(answer["wrong"]) for answer in part),
        }
        for name, part in parts.items()
    }


def pytest(arguments, **environment):
    """Run tests; how many there were, and how many failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments],
            cwd=HERE.parent,
            env={**os.environ, **environment},
            stdout=sys.stderr,
            check=False,
        )
        (suite,) = xml.parse(report).getroot()
    count = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    return {"tried": count["tests"] - count["skipped"], "wrong": count["failures"] + count["errors"]}


def faults():
    """Each test injects one fault into real processes, files or clients, and compares what comes of it."""
    return {name: pytest(arguments) for name, arguments in FAULTS.items()}


def inputs():
    """Generated and hand-written bad input: how often it was used, refused in one clear line, or neither."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        counts.touch()
        tests = ["tests/test_hostile_input.py", "tests/cli/test_bad_input.py"]
        outcome = pytest(tests, FEDTRIP_TALLY=str(counts), FEDTRIP_EXAMPLES="3")
        found = Counter(tuple(json.loads(line)) for line in counts.read_text().splitlines())
    kinds = sorted({kind for kind, _ in found} - {"a", "b", "c"})
    names = ("refused", "accepted", "failed")
    return {"tests": outcome, "kinds": {kind: {name: found[kind, name] for name in names} for kind in kinds}}


def overhead():
    """A round with its checkpoint against one without, in turns; no evaluation, which would only make it look less."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (6000, 28, 28), dtype=np.uint8)
    data = fedtrip.from_arrays(images, np.arange(6000) % 10, images[:100], np.arange(100) % 10)
    return {
        f"{model}, {method}": interleaved(model, method, rounds, data)
        for model, rounds in (("cnn", 8), ("mlp", 60))
        for method in ("fedtrip", "fedavg")
    }


def interleaved(model, method, rounds, data, turns=7):
    experiment = fedtrip.Experiment(
        model=model, method=method, rounds=rounds, clients=10, per_round=4, samples_per_client=600, eval_every=rounds
    )
    spent = {"with": [], "without": []}
    for turn in range(turns):
        for kind in ("with", "without") if turn % 2 else ("without", "with"):
            with tempfile.TemporaryDirectory() as folder:
                spent[kind].append(spent_a_round(experiment, data, Path(folder) / "run" if kind == "with" else None))
    more = {
        clock: sorted(100 * (a[clock] / b[clock] - 1) for a, b in zip(spent["with"], spent["without"], strict=True))
        for clock in ("wall", "processor")
    }
    return {
        "milliseconds": round(1000 * statistics.median(one["wall"] for one in spent["without"]), 2),
        "percent": {clock: round(statistics.median(values), 2) for clock, values in more.items()},
        "percent_of_each_turn": {clock: [round(value, 2) for value in values] for clock, values in more.items()},
    }


def spent_a_round(experiment, data, out):
    """From the end of the first round, which prepares much, to the end of the last but one: the last is evaluated."""
    moments = []

    def told(_record):
        moments.append((time.perf_counter(), time.process_time()))

    fedtrip.run(experiment, data=data, out=out, workers=1, checkpoint_every=1, on_round=told)
    names = ("wall", "processor")
    return {name: (moments[-2][i] - moments[0][i]) / (len(moments) - 2) for i, name in enumerate(names)}


PARTS = {"kills": kills, "faults": faults, "inputs": inputs, "overhead": overhead}


def page(figures):
    """The page, from the figures alone."""
    rows = {
        "kills": [
            f"| {name} | {part['kills']} | {part['runs']} | {part['runs'] - part['wrong']} |"
            for name, part in figures["kills"].items()
        ],
        "faults": [
            f"| {name} | {part['tried']} | {part['tried'] - part['wrong']} |"
            for name, part in figures["faults"].items()
        ],
        "inputs": [
            f"| {kind} | {sum(part.values())} | {part['refused']} | {part['accepted']} | {part['failed']} |"
            for kind, part in figures["inputs"]["kinds"].items()
        ],
        "overhead": [
            f"| {name} | {part['milliseconds']} | {part['percent']['wall']} | {part['percent']['processor']} | "
            f"{part['percent_of_each_turn']['wall'][0]} to {part['percent_of_each_turn']['wall'][-1]} |"
            for name, part in figures["overhead"].items()
        ],
    }
    text = (HERE / "reliability_page.md").read_text(encoding="utf-8")
    for name, lines in rows.items():
        text = text.replace(f"{{{name}}}", "\n".join(lines))
    busy = "The machine was busy with other work during this measurement: the times are noise, see the spread. "
    return text.replace("{busy}", busy if figures["load"] > 1.5 else "")


def main():
    named = sys.argv[1:] or list(PARTS)
    if wrong := [name for name in named if name not in PARTS and name != "page"]:
        sys.exit(f"'{wrong[0]}' is unknown; accepted: page, {', '.join(PARTS)}")
    figures = {}
    for name in named:
        print(f"-- {name}", file=sys.stderr, flush=True)
        measured = {"load": round(os.getloadavg()[0], 1)} if name == "overhead" else {}
        if name in PARTS:
            measured |= {name: PARTS[name](), "versions": versions()}
        figures = (json.loads(FIGURES.read_text()) if FIGURES.exists() else {}) | measured
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    if figures.keys() >= PARTS.keys():
        PAGE.write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
