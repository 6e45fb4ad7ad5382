"""Both rules of a fault on the same seeds, and the difference with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import fedtrip
from fedtrip import Experiment
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.methods.interface import Method
from fedtrip.one_thread import one_thread
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.statistics import student_interval
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.workbench import Question
from fedtrip.vectors import norm
from tools.audit.case import Case
from tools.audit.cases import CASES
from tools.audit.networks import NETWORKS

RESULTS = Path(__file__).parent.parent.parent / "docs" / "audit" / "results.json"
ROUNDS, SEEDS, WINDOW = 50, tuple(range(10)), 10
COMMON: Mapping[str, Any] = {"partition": "dirichlet:0.1", "clients": 10, "per_round": 4, "lr": 0.05}
"""What all cases share, beside the defaults: digits, the MLP, 400 samples a client, batches of 50, one local epoch."""


@dataclass(frozen=True)
class Numbers:
    """One run: mean accuracy of the first and of the last ten rounds, and the beginning of its last model's digest."""

    first: float | None
    last: float | None
    """None if there is none: the run ended before"""
    ended: str | None = None
    length: float | None = None
    """‖w‖ of the last model"""
    sha256: str | None = None


@dataclass(frozen=True)
class Pair:
    """Both rules on one seed."""

    seed: int
    right: Numbers
    faulty: Numbers


@dataclass(frozen=True)
class Measured:
    """A fault on all seeds."""

    name: str
    rounds: int
    pairs: tuple[Pair, ...]
    same_bits: bool | None = None
    """whether the faulty run had the bits of the rule that it should be equal to; None if there is none such"""

    def differences(self, window: str) -> list[float]:
        """Faulty less right in points, over the seeds on which both got that far."""
        pairs = ((getattr(pair.faulty, window), getattr(pair.right, window)) for pair in self.pairs)
        return [100 * (faulty - right) for faulty, right in pairs if faulty is not None and right is not None]


@dataclass(frozen=True)
class Interval:
    """A mean difference with its 95 % interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval | None:
    """Student's interval; None of fewer than two values."""
    if len(values) < 2:
        return None
    return Interval(math.fsum(values) / len(values), *student_interval(values))


def measure(case: Case, *, rounds: int = ROUNDS, seeds: Sequence[int] = SEEDS) -> Measured:
    """Run both rules of a fault."""
    pairs = tuple(_pair(case, seed, rounds) for seed in seeds)
    if case.same_as is None:
        return Measured(case.name, rounds, pairs)
    wanted = _run(case, case.same_as, case.settings, seeds[0], rounds).sha256
    return Measured(case.name, rounds, pairs, same_bits=pairs[0].faulty.sha256 == wanted)


def _pair(case: Case, seed: int, rounds: int) -> Pair:
    if case.score in _REPORTED:
        return Pair(seed, *_REPORTED[case.score](case, seed, rounds))
    right = _run(case, case.right, case.settings, seed, rounds)
    return Pair(seed, right, _run(case, case.faulty, {**case.settings, **case.faulty_settings}, seed, rounds))


def _experiment(method: Method, settings: Mapping[str, Any], seed: int, rounds: int) -> Experiment:
    return Experiment(method=method, seed=seed, rounds=rounds, **{**COMMON, **settings})


def _run(case: Case, method: Method, settings: Mapping[str, Any], seed: int, rounds: int) -> Numbers:
    """One run; an error in the method's own code is how it ended."""
    try:
        result = fedtrip.run(
            _experiment(method, settings, seed, rounds), model=NETWORKS.get(case.network), workers=1
        )  # fmt: skip
    except ZeroDivisionError:
        return Numbers(None, None, "division by zero")
    if case.score == "personal":
        scores = [record.client_scores["personal"]["mean"] for record in result.records]
    else:
        scores = [record.accuracy for record in result.records]
    return Numbers(
        _mean(scores[:WINDOW]),
        _mean(scores[-WINDOW:]) if result.ended is None else scores[-1],
        "diverged" if result.ended else None,
        norm(torch.cat([vector.detach().double().flatten() for vector in result.module.parameters()])),
        result.model_sha256[:16],
    )


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return math.fsum(known) / len(known) if len(known) == len(scores) else None


def _best_round(case: Case, seed: int, rounds: int) -> tuple[Numbers, Numbers]:
    """The same run: the mean of the last ten rounds, and the best of all."""
    result = fedtrip.run(_experiment(case.right, case.settings, seed, rounds), workers=1)
    scores = [record.accuracy for record in result.records]
    known = [score for score in scores if score is not None]
    return Numbers(None, _mean(scores[-WINDOW:])), Numbers(None, max(known))


@one_thread()
def _best_rounds_of_clients(case: Case, seed: int, rounds: int) -> tuple[Numbers, Numbers]:
    """The same run: the mean over the clients in the last round, and that of each client's best round."""
    federation = prepare(_experiment(case.right, case.settings, seed, rounds))
    engine, state = _Listening(federation), initial_state(federation, ClientStore())
    scores = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(rounds):
            state.advance(one_round(federation, engine, state))
            scores.append(engine.of_clients)
    best = [max(one[client] for one in scores) for client in scores[-1]]
    return Numbers(None, _mean(list(scores[-1].values()))), Numbers(None, _mean(best))


_REPORTED: Mapping[str, Callable[[Case, int, int], tuple[Numbers, Numbers]]] = {
    "best round": _best_round,
    "best rounds of clients": _best_rounds_of_clients,
}


class _Listening:
    """A serial engine that keeps each client's accuracy of the last time that clients were asked: under their own."""

    def __init__(self, federation: Federation) -> None:
        self._federation, self._engine = federation, SerialEngine(federation)
        self.of_clients: dict[int, float] = {}

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        return self._engine.work(jobs)

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        sums = self._engine.score(questions)
        tests, task = self._federation.held_out.own_tests, self._federation.rules.task
        asked = [(question.client, one) for question, one in zip(questions, sums, strict=True)]
        if tests is not None and all(client is not None for client, _ in asked):
            self.of_clients = {
                client: task.scores(one, tests.samples(client))["accuracy"]
                for client, one in asked
                if client is not None
            }
        return sums

    def close(self) -> None:
        """Nothing to free."""


def load() -> dict[str, Measured]:
    """What was measured before."""
    if not RESULTS.is_file():
        return {}
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {
        name: Measured(
            name,
            one["rounds"],
            tuple(Pair(p["seed"], Numbers(**p["right"]), Numbers(**p["faulty"])) for p in one["pairs"]),
            one["same_bits"],
        )
        for name, one in stored.items()
    }


def store(measured: Mapping[str, Measured]) -> None:
    """Keep it, in the order of the cases; what is no case any more is dropped."""
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(measured[name]))}" for name in CASES if name in measured]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
