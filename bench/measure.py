"""One model measured: whole rounds, their parts against sgemm, both ways of computing, methods against FedAvg."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from bench.cases import Case, FedtripRounds, fedtrip_rounds
from bench.intervals import Interval, ratios
from bench.turns import Work, by_turn, interleaved, sgemm, sgemm_rates
from fedtrip.training.costs import pass_cost

CLIENTS = 4
"""a round"""


def whole_rounds(case: Case, turns: int) -> dict[str, Any]:
    """A whole round: plain loop, fedtrip with one and two workers, fedtrip by torch and by the native engine; sgemm."""
    federation = case.federation()
    decided = federation.experiment.compute
    with ExitStack() as stack:
        running = {
            "1 worker": stack.enter_context(fedtrip_rounds(federation, 1)),
            "2 workers": stack.enter_context(fedtrip_rounds(case.federation(), 2)),
        }
        for way in sorted({"torch", "native"} - {decided}):
            running[way] = stack.enter_context(fedtrip_rounds(case.federation(compute=way), 1))
        works = {"plain": Work(case.plain().round, case.at_once), "sgemm": sgemm()}
        works |= {name: Work(rounds.round, case.at_once) for name, rounds in running.items()}
        seconds = interleaved(works, turns)
    parts = {name: _parts(rounds, turns, case.at_once) for name, rounds in running.items()}
    ways = {way: parts.get(way, parts["1 worker"]) for way in ("torch", "native")}
    cost, one, rates = pass_cost(federation.module, case.shape), parts["1 worker"], sgemm_rates(seconds["sgemm"])
    macs = {"training": cost.training * case.samples * CLIENTS, "evaluation": cost.forward * case.test}
    return {
        "turns": turns,
        "compute": decided,
        "sgemm": _interval(rates),
        "seconds": {name: _interval(values) for name, values in seconds.items()},
        "ratio": {name: _interval(ratios(seconds["plain"], seconds[name])) for name in ("1 worker", "2 workers")},
        "workers": _interval(ratios(seconds["1 worker"], seconds["2 workers"])),
        "share": {
            part: _interval([macs[part] / time / rate for time, rate in zip(one[part], rates, strict=True)])
            for part in macs
        },
        "torch over native": {part: _interval(ratios(ways["torch"][part], ways["native"][part])) for part in macs},
        "torch over ours": {part: _interval(ratios(ways["torch"][part], one[part])) for part in macs},
        "parts": {
            name: {part: statistics.median(values) for part, values in found.items()} for name, found in parts.items()
        },
    }


def over_fedavg(case: Case, turns: int) -> dict[str, Any]:
    """Each method's training time of a round over FedAvg's: one worker, the same clients, and all have a memory."""
    with ExitStack() as stack:
        running = {
            method: stack.enter_context(fedtrip_rounds(case.federation(method=method, eval_every=10_000), 1))
            for method in ("fedavg", *case.methods)
        }
        clients = case.federation().experiment.clients
        for rounds in running.values():
            while len(rounds.taken_part) < clients:
                rounds.round()
        interleaved({name: Work(rounds.round, case.at_once) for name, rounds in running.items()}, turns)
    training = {name: _parts(rounds, turns, case.at_once)["training"] for name, rounds in running.items()}
    return {method: _interval(ratios(training[method], training["fedavg"])) for method in case.methods}


def _parts(rounds: FedtripRounds, turns: int, at_once: int) -> dict[str, list[float]]:
    """Seconds of each part of a round, turn by turn."""
    return {part: by_turn(values, turns, at_once) for part, values in vars(rounds.parts).items() if values}


def _interval(values: list[float]) -> dict[str, float]:
    return asdict(Interval.of(values))
