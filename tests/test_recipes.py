"""The recipes whose tools are not installed here: their code runs, against stand-ins that say what they were told."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.test_docs import ROOT, blocks_of

import fedtrip

PAGE = ROOT / "docs" / "recipes.md"


class Run(SimpleNamespace):
    """Something that is entered and left."""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True


def run_recipe(tool: str, stand_in: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, here: Path) -> dict[str, Any]:
    """Run the block that imports the tool, with few rounds."""
    assert here == Path.cwd()
    (block,) = [b for b in blocks_of("recipes.md", PAGE.read_text(encoding="utf-8")) if f"import {tool}\n" in b.text]
    assert block.skipped
    module = ModuleType(tool)
    module.__dict__.update(vars(stand_in))
    monkeypatch.setitem(sys.modules, tool, module)
    names: dict[str, Any] = {}
    assert "rounds=30" in block.text
    exec(compile(block.text.replace("rounds=30", "rounds=3, clients=4"), str(PAGE), "exec"), names)
    return names


def test_mlflow(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    logged: dict[int, dict[str, float]] = {}
    told: dict[str, Any] = {}
    names: list[str] = []
    stand_in = SimpleNamespace(
        start_run=lambda run_name: names.append(run_name) or Run(),
        log_params=told.update,
        log_metrics=lambda numbers, step: logged.update({step: numbers}),
        log_artifacts=lambda folder: told.update(files={path.name for path in Path(folder).iterdir()}),
    )
    run_recipe("mlflow", stand_in, monkeypatch, here)
    records = fedtrip.load_result(here / "tracked-by-mlflow").records
    assert logged == {r.round: {**r.scores, "megabytes_up": r.bytes_up / 1e6, "seconds": r.seconds} for r in records}
    assert (told["method"], told["rounds"], names) == ("fedtrip", 3, ["fedtrip, seed 0"])
    assert {"experiment.toml", "metrics.jsonl", "model.safetensors", "summary.json"} <= told["files"]


def test_weights_and_biases(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    logged: dict[int, dict[str, float]] = {}
    begun: dict[str, Any] = {}
    run = Run(log=lambda numbers, step: logged.update({step: numbers}), summary={}, left=False)
    run_recipe("wandb", SimpleNamespace(init=lambda **how: begun.update(how) or run), monkeypatch, here)
    result = fedtrip.load_result(here / "tracked-by-wandb")
    assert [logged[r.round]["accuracy"] for r in result.records] == [r.accuracy for r in result.records]
    assert (begun["project"], begun["config"]["rounds"]) == ("fedtrip", 3)
    assert run.summary["final_accuracy"] == result.final_accuracy
    assert run.left


def test_optuna(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    class Pruned(Exception):
        pass

    class Trial:
        def __init__(self, number: int) -> None:
            self.number, self.reported, self.params = number, [], {}

        def suggest_float(self, name: str, low: float, high: float, log: bool) -> float:
            assert log
            self.params[name] = low * (high / low) ** 0.7
            return self.params[name]

        def report(self, value: float, step: int) -> None:
            self.reported.append((step, value))

        def should_prune(self) -> bool:
            return self.number == 1 and len(self.reported) == 2

    trials: list[Trial] = []
    values: list[float | None] = []

    class Study:
        best_params = "the best"

        def optimize(self, objective: Any, n_trials: int) -> None:
            assert n_trials == 20
            for number in range(2):
                trials.append(Trial(number))
                try:
                    values.append(objective(trials[-1]))
                except Pruned:
                    values.append(None)

    stand_in = SimpleNamespace(
        create_study=lambda direction, sampler: Study() if (direction, sampler) == ("maximize", 0) else None,
        samplers=SimpleNamespace(TPESampler=lambda seed: seed),
        TrialPruned=Pruned,
    )
    run_recipe("optuna", stand_in, monkeypatch, here)
    assert [step for step, _ in trials[0].reported] == [1, 2, 3]
    assert [step for step, _ in trials[1].reported] == [1, 2], "it was stopped when it was not worth going on"
    assert values == [max(value for _, value in trials[0].reported), None]
    assert 0 < values[0] <= 1
