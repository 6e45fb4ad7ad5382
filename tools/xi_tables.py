"""The tables of docs/xi.md: every rule's speed-up over FedAvg, beside the paper's, with kept momentum, with other μ."""

from __future__ import annotations

from collections.abc import Set
from statistics import mean

from fedtrip.comparison.tables import interval
from fedtrip.comparison.variants import rounds_ratio
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.fedtrip_auto import FedTripAuto
from fedtrip.paper.entries import push, reach
from fedtrip.paper.entries.rounds_cases import case_name, case_title
from fedtrip.paper.entries.xi_lines import (
    BASELINE,
    CHOICE_SEEDS,
    HARDER_TITLES,
    KEPT,
    OTHER_MUS,
    REPORT_SEEDS,
    RULES,
    mu_case,
    mu_label,
    study_cases,
)
from fedtrip.paper.entry import Findings
from fedtrip.paper.measures import speedup
from fedtrip.paper.page import MISSING, Page, points
from fedtrip.paper.published import published
from fedtrip.statistics import Ratio


def papers_table(findings: Findings, pushed: Findings) -> Page:
    """Every rule's speed-up, and that of `fedtrip-auto`, beside the one that the paper prints."""
    printed = {case_name(case["model"], case["dataset"]): case["rounds"] for case in published()["table4"]["cases"]}
    table = Page("", ["case", "paper", *RULES, reach.OURS])
    for case, what in study_cases().items():
        paper = printed[case]["fedavg"] / printed[case]["fedtrip"]
        ours = [interval(speedup(findings, case, BASELINE, rule)) for rule in RULES]
        auto = interval(speedup(pushed, case, BASELINE, push.label(FedTripAuto.push)))
        table.rows.append([case_title(*what), f"{paper:.2f}×", *ours, auto])
    return table


def auto_ratios(findings: Findings, pushed: Findings) -> dict[str, Ratio | None]:
    """Case → rounds of `fedtrip` over those of `fedtrip-auto`, on the seeds that both have."""
    titles = {case: case_title(*what) for case, what in study_cases().items()} | HARDER_TITLES
    ratios = {}
    for case, title in titles.items():
        paper, ours = findings.runs(case, "1/gap"), pushed.runs(case, push.label(FedTripAuto.push))
        common = sorted(paper.keys() & ours.keys())
        ratios[title] = rounds_ratio([paper[seed] for seed in common], [ours[seed] for seed in common])
    return ratios


def auto_table(findings: Findings, pushed: Findings) -> Page:
    """How much faster `fedtrip-auto` is than `fedtrip`."""
    table = Page("", ["case", "rounds of `fedtrip` over those of `fedtrip-auto`", "pairs"])
    for title, ratio in auto_ratios(findings, pushed).items():
        table.rows.append([title, interval(ratio), f"{0 if ratio is None else ratio.pairs}"])
    return table


def holds_one(ratio: Ratio | None) -> bool:
    """Whether the runs do not tell the two apart."""
    return ratio is None or ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high


def kept_table(findings: Findings) -> Page:
    """What kept momentum does for FedAvg, and every rule over FedAvg with kept momentum."""
    table = Page("", ["case", BASELINE, *RULES])
    seeds = {*CHOICE_SEEDS, *REPORT_SEEDS}
    for case, what in study_cases().items():
        pairs = [(BASELINE, BASELINE + KEPT), *((BASELINE + KEPT, rule + KEPT) for rule in RULES)]
        table.rows.append([case_title(*what), *(speedup_and_gain(findings, case, *pair, seeds) for pair in pairs)])
    return table


def mu_table(findings: Findings, seeds: Set[int]) -> Page:
    """Every rule over FedAvg, with the paper's μ and with others."""
    table = Page("", ["case", "μ", *RULES])
    for case, others in OTHER_MUS.items():
        model, dataset, target = study_cases()[case]
        rows = {mu: [(mu_case(case), mu_label(rule, mu)) for rule in RULES] for mu in others}
        papers_mu = FedTrip(**FedTrip.defaults_for(model, dataset, {})).mu
        rows[papers_mu] = [(case, rule) for rule in RULES]
        for mu, cells in sorted(rows.items()):
            shown = [speedup_and_gain(findings, where, BASELINE, label, seeds) for where, label in cells]
            table.rows.append([case_title(model, dataset, target), f"{mu}", *shown])
    return table


def mu_seeds(findings: Findings) -> set[int]:
    """The trials that every rule has with every other μ."""
    lines = [line for line in findings.lines if line.case in map(mu_case, OTHER_MUS)]
    return set.intersection(*(set(findings.runs(line.case, line.label)) for line in lines))


def speedup_and_gain(findings: Findings, case: str, baseline: str, label: str, seeds: Set[int]) -> str:
    """How much faster a variant is than another, and by how many points it ends above."""
    before, after = findings.runs(case, baseline), findings.runs(case, label)
    common = sorted(seeds & before.keys() & after.keys())
    if not common:
        return MISSING
    ratio = rounds_ratio([before[seed] for seed in common], [after[seed] for seed in common])
    gains = [(after[seed].final_accuracy or 0.0) - (before[seed].final_accuracy or 0.0) for seed in common]
    return f"{interval(ratio)}, {points(mean(gains))}"
