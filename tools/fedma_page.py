"""docs/fedma.md: why FedMA is not offered, with the figures of docs/fedma.json.

Written by `python -m tools.fedma_matching`; with `--render` without measuring again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "fedma.md"
TEXT = """# Why there is no FedMA

The FedTrip paper cites FedMA (Wang et al., 2020, *Federated Learning with Matched Averaging*). `fedtrip` does not offer
it. This page says why, with a measurement. It is written by `python -m tools.fedma_matching` (two minutes of one core);
the figures are in [fedma.json](fedma.json).

## What it is

Two networks can compute the same with their hidden units in different places. Their plain mean is then a bad network.
FedMA permutes each client's units first, so that those that do the same are averaged with each other.

## Why it is no method here

A method here works on flat vectors of a fixed length, which travel a fixed number of times in a round. FedMA does not:

- **Layers grow.** The matching is non-parametric: a unit that has no fellow gets a place of its own. The global model
  may have more units than a client's, and how many is known after the matching only.
- **A round has as many exchanges as the model has layers.** Layers are matched one by one from the input. After each,
  the clients get what is matched, keep it frozen and train the layers above.
- **Clients start from different initial weights.** That is where other places come from.
- **Each client keeps its permutations**, and maps every later global model back through them.

What fits a fixed width is the core of it: match each client's units with a reference by Hungarian assignment, permute,
average. It can only matter if clients end with their units in different places. In all methods here the clients of a
round start from one model. So we counted.

## What was measured

The MLP with 100 hidden units on digits, 4 of 10 clients a round, FedAvg, {seeds} seeds. A unit's row is its weights and
its bias. Layer by layer, rows are assigned so that the sum of their squared distances to the reference's is least. The
reference is the client with the most samples, then the mean of those assigned; there are {sweeps} sweeps over the
clients. Counted are the units of the other clients that are matched with the unit of the same place.

The matching itself is right: of {copies_units} units of copies of one network, put in random places, {copies_back} are
matched with themselves. Of {clients_units} units of the clients of round 20, put in random places too, {clients_back}
are matched with those that had the same place before.

Units that stay in their places, after so many rounds:

{stayed}

Clients that start from their own weights train alone, as many epochs as the others have rounds. One unit in a hundred
stays there by chance.

## What follows

With the usual rate of 0.01, {usual_stayed} of {usual_units} units stay: with Dirichlet(0.5) and Dirichlet(0.1), after
one local epoch and after ten. In {usual_same} of {usual_rounds} rounds the mean after the matching *is* FedAvg's. A
method of this kind would be FedAvg under another name, and a slower one.

Units leave their places only if the rate is 10 or 30 times the usual, and only in the first rounds. What the mean gains
by it there goes both ways. Test accuracy of the mean in %, without the matching → after it, mean of the seeds:

{accuracy}

Clients that start from their own weights are another matter. There the matching does what it is for: the mean after it
is the better one in {better} of {own} cases. But that is one mean of models that were trained alone, and no method in
rounds. FedAvg from one model has {fedavg} % after 50 rounds of one epoch (in which others of the ten clients take part
too), where these have {alone} %.
"""


def page(stored: Mapping[str, Any]) -> str:
    """The page, from what was measured."""
    from tools.fedma_matching import SWEEPS

    cases = stored["cases"]
    usual = [one for case in cases if is_usual(case) for one in _rounds(case)]
    own = [one for case in cases if case["start"] == "its own" for one in _rounds(case)]
    better = sum(one["after"] > one["plain"] for one in own)
    shuffled = {
        f"{name}_{what}": f"{sum(pair[at] for pair in pairs):,}"
        for name, pairs in stored["shuffled"].items()
        for at, what in enumerate(("units", "back"))
    }
    return TEXT.format(
        seeds=len(stored["seeds"]),
        sweeps=SWEEPS,
        **shuffled,
        stayed=_table(cases, lambda found: f"{_sum(found, 'stayed'):,} of {_sum(found, 'units'):,}"),
        usual_stayed=f"{_sum(usual, 'stayed'):,}",
        usual_units=f"{_sum(usual, 'units'):,}",
        usual_same=sum(one["is_fedavg"] for one in usual),
        usual_rounds=len(usual),
        accuracy=_table([case for case in cases if not is_usual(case)], _accuracies),
        better=better,
        own=len(own),
        fedavg=" and ".join(_accuracy(case["after"]["50"], "plain") for case in cases if _is_first(case)),
        alone=" and ".join(_accuracy(case["after"]["50"], "after") for case in cases if case["start"] == "its own"),
    )


def is_usual(case: Mapping[str, Any]) -> bool:
    """Whether clients start from one model and train with the usual learning rate."""
    return case["start"] == "one model" and case["lr"] == 0.01


def _is_first(case: Mapping[str, Any]) -> bool:
    return is_usual(case) and case["epochs"] == 1


def _rounds(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for found in case["after"].values() for one in found]


def _sum(found: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(one[name] for one in found)


def _accuracies(found: list[Mapping[str, Any]]) -> str:
    return " → ".join(_accuracy(found, name) for name in ("plain", "after"))


def _accuracy(found: list[Mapping[str, Any]], name: str) -> str:
    return f"{100 * mean(one[name] for one in found):.1f}"


def _table(cases: list[Mapping[str, Any]], cell: Callable[[list[Mapping[str, Any]]], str]) -> str:
    numbers = list(cases[0]["after"])
    head = ["clients start from", "partition", "rate", "local epochs", *(f"after {number}" for number in numbers)]
    lines = ["| " + " | ".join(head) + " |", "|---|---|---:|---:|" + "---:|" * len(numbers)]
    for case in cases:
        alone = case["start"] == "its own"
        row = ["their own weights" if alone else "one model", f"`{case['partition']}`", f"{case['lr']:g}"]
        row += ["alone" if alone else str(case["epochs"]), *(cell(case["after"][number]) for number in numbers)]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)
