"""What the paper claims about rounds and GFLOPs to target (its Tables 4 and 5), judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fedtrip.comparison.variants import rounds_to_target
from fedtrip.paper.entries.rounds_cases import case_name, case_title
from fedtrip.paper.entry import Findings
from fedtrip.paper.measures import rounds_of, speedup
from fedtrip.paper.published import published
from fedtrip.paper.settings import METHOD_TITLES
from fedtrip.paper.tables import gflops_of_a_round
from fedtrip.paper.verdict import FEWEST_SEEDS, NOT, OPEN, PARTLY, REPRODUCED, Verdict, p_of, told, verdict_of
from fedtrip.runs.history import History
from fedtrip.statistics import BOUNDS, Ratio, estimate, mean_of_groups


def _table4_cases() -> list[tuple[str, dict[str, int], str]]:
    """Case, printed rounds, title."""
    return [
        (case_name(c["model"], c["dataset"]), c["rounds"], case_title(c["model"], c["dataset"], c["target"]))
        for c in published()["table4"]["cases"]
    ]


def fewest_rounds(findings: Findings) -> Verdict:
    """In how many cases FedTrip's mean is the smallest; a tie is not counted."""
    said = published()["claims"]["fewest_rounds"]
    by_table = sum(min(rounds, key=lambda m: rounds[m]) == "fedtrip" for _, rounds, _ in _table4_cases())
    won, judged, names = 0, 0, []
    for case, rounds, title in _table4_cases():
        found = {method: rounds_of(findings, case, METHOD_TITLES[method]) for method in rounds}
        means = {method: value.estimate.mean for method, value in found.items() if value is not None}
        if len(means) < len(rounds):
            names += [f"{title}: {len(means)} of {len(rounds)} methods run"] * bool(means)
            continue
        judged += 1
        best = [method for method, mean in means.items() if mean == min(means.values())]
        won += best == ["fedtrip"]
        names.append(f"{title}: {' = '.join(METHOD_TITLES[method] for method in best)}")
    share = won / judged if judged else 0.0
    verdict = (
        OPEN if not judged else REPRODUCED if share >= said["cases"] / said["of"] else PARTLY if share > 0.5 else NOT
    )
    return Verdict(
        "FedTrip needs the fewest rounds (mean over trials)",
        f"{said['cases']} of {said['of']} cases",
        f"{by_table} of {said['of']}",
        f"{won} of {judged} cases ({'; '.join(names)})" if judged else "",
        verdict,
    )


def speedups(findings: Findings) -> Iterator[Verdict]:
    """FedAvg's rounds over FedTrip's, case by case."""
    for case, rounds, title in _table4_cases():
        paper = rounds["fedavg"] / rounds["fedtrip"]
        ratio = speedup(findings, case, "FedAvg", "FedTrip")
        yield Verdict(
            f"FedTrip against FedAvg, {title}",
            _printed_multiple(case),
            f"{paper:.2f}×",
            told(ratio),
            verdict_of(ratio, paper),
            p_of(ratio),
        )


def _printed_multiple(case: str) -> str:
    for printed in published()["table4"]["cases"]:
        if case_name(printed["model"], printed["dataset"]) == case:
            return f"{printed['multiples']['fedavg']}×"
    raise KeyError(case)


def mean_reduction(findings: Findings, method: str, name: str) -> Verdict:
    """Mean over cases of FedTrip's rounds over another method's: 1 − the reduction."""
    said = published()["claims"][name]["per_cent"]
    by_table = [rounds["fedtrip"] / rounds[method] for _, rounds, _ in _table4_cases()]
    cases = [case for case, _, _ in _table4_cases()]
    ratio, over = _mean_of_cases(findings, cases, lambda _case: METHOD_TITLES[method], lambda _case, _method: 1.0)
    return Verdict(
        f"fewer rounds than {METHOD_TITLES[method]}, mean over cases",
        f"−{said} %",
        f"−{100 * (1 - estimate(by_table).mean):.2f} %",
        _reduction(ratio, over),
        verdict_of(ratio, 1 - said / 100),
        p_of(ratio),
    )


def gflops(findings: Findings) -> Verdict:
    """FedTrip's GFLOPs over those of the baseline that needs the least, mean over cases."""
    said = published()["claims"]["gflops_against_best"]["per_cent"]
    cost = {
        (case_name(c["model"], c["dataset"]), METHOD_TITLES[m]): gflops_of_a_round(m, c["model"], c["dataset"])
        for c in published()["table4"]["cases"]
        for m in c["rounds"]
    }
    by_table, best = [], {}
    for case, rounds, _ in _table4_cases():
        others = {METHOD_TITLES[m]: r * cost[case, METHOD_TITLES[m]] for m, r in rounds.items() if m != "fedtrip"}
        by_table.append(rounds["fedtrip"] * cost[case, "FedTrip"] / min(others.values()))
        found = {label: rounds_of(findings, case, label) for label in others}
        ours = {label: value.estimate.mean * cost[case, label] for label, value in found.items() if value is not None}
        if ours:
            best[case] = min(ours, key=lambda label: ours[label])
    ratio, over = _mean_of_cases(findings, list(best), lambda case: best[case], lambda case, label: cost[case, label])
    return Verdict(
        "fewer GFLOPs than the best baseline of each case, mean over cases",
        f"−{said} %",
        f"−{100 * (1 - estimate(by_table).mean):.2f} %",
        _reduction(ratio, over),
        verdict_of(ratio, 1 - said / 100),
        p_of(ratio),
    )


def _mean_of_cases(
    findings: Findings, cases: Sequence[str], other: Callable[[str], str], price: Callable[[str, str], float]
) -> tuple[Ratio | None, str]:
    """Mean over cases of FedTrip's priced rounds over another's, each over all its seeds; and over what it is.

    A seed on which neither reached the target says nothing and is not counted. A case with fewer than `FEWEST_SEEDS`
    has no spread and is left out; it is named.
    """
    groups: list[dict[int, float]] = []
    short = []
    censored_ours = censored_theirs = False
    titles = {case: title for case, _, title in _table4_cases()}
    for case in cases:
        ours, theirs = findings.paired(case, "FedTrip", other(case))
        pairs = [pair for pair in zip(ours, theirs, strict=True) if not all(_never(run) for run in pair)]
        if len(pairs) < FEWEST_SEEDS:
            short += [f"{titles[case]}: {len(pairs)} pair{'s'[: len(pairs) != 1]}"] * bool(pairs)
            continue
        weight = price(case, "FedTrip") / price(case, other(case))
        groups.append({mine.experiment.seed: weight * _rounds(mine) / _rounds(their) for mine, their in pairs})
        censored_ours |= any(_never(mine) for mine, _ in pairs)
        censored_theirs |= any(_never(their) for _, their in pairs)
    if not groups:
        return None, ""
    ratio = replace(mean_of_groups(groups), bound=BOUNDS[censored_ours, censored_theirs])
    without = f" (without {'; '.join(short)})" if short else ""
    return ratio, f"over {len(groups)} case{'s'[: len(groups) != 1]}, {ratio.pairs} pairs{without}"


def _never(run: History) -> bool:
    return rounds_to_target([run])[1][0]


def _rounds(run: History) -> float:
    return rounds_to_target([run])[0][0]


def _reduction(ratio: Ratio | None, over: str) -> str:
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    shown = [f"{100 * (value - 1):+.1f} %".replace("-", "−") for value in (ratio.mean, ratio.low, ratio.high)]
    return f"{ratio.bound}{shown[0]} [{shown[1]}, {shown[2]}] {over}"
