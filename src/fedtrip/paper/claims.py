"""The paper's claims, one by one: its figure, the same from its own tables, ours, and a verdict by rule."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fedtrip.paper.archive import Archive
from fedtrip.paper.claims_rounds import fewest_rounds, gflops, mean_reduction, speedups
from fedtrip.paper.entries import fig6, fig7, table6, table7
from fedtrip.paper.entries.rounds_cases import table4_lines
from fedtrip.paper.entry import Findings
from fedtrip.paper.measures import rounds_of, speedup
from fedtrip.paper.published import published
from fedtrip.paper.settings import DATASET_TITLES, METHOD_TITLES, MODEL_TITLES, PARTITION_TITLES
from fedtrip.paper.tables import training_share_of_attaching
from fedtrip.paper.verdict import FEWEST_SEEDS, NOT, OPEN, PARTLY, REPRODUCED, Verdict, p_of, told, verdict_of
from fedtrip.statistics import estimate, student_interval, student_p

NEGLIGIBLE = 0.05
"""Extra operations below this part of a client's training count as negligible; the paper gives no number."""


def claims(archive: Archive) -> Iterator[Verdict]:
    """Every claim, judged by the finished runs."""
    rounds = Findings(table4_lines(), archive)
    yield fewest_rounds(rounds)
    yield from speedups(rounds)
    yield mean_reduction(rounds, "fedavg", "reduction_against_fedavg")
    yield mean_reduction(rounds, "moon", "reduction_against_moon")
    yield gflops(rounds)
    yield from _moon_worst(Findings(fig6.lines(), archive).on_common_seeds())
    yield _more_epochs(Findings(table7.lines(), archive).on_common_seeds())
    yield from _four_of_fifty(Findings(table6.lines(), archive))
    yield from _mu(Findings(fig7.lines(), archive).on_common_seeds())
    yield from _cost()


def _moon_worst(findings: Findings) -> Iterator[Verdict]:
    partition = published()["claims"]["moon_worst"]["partition"]
    for model in fig6.MODELS:
        case = fig6.case_name(model, partition)
        means = {
            label: estimate([run.final_accuracy or 0.0 for run in findings.runs(case, label).values()]).mean
            for label in findings.labels(case)
        }
        verdict, ours, p = OPEN, "", None
        if "MOON" in means and len(means) > 1:
            order = sorted(means, key=lambda label: means[label])
            next_worst = order[1] if order[0] == "MOON" else order[0]
            moon, other = findings.paired(case, "MOON", next_worst)
            apart = [(a.final_accuracy or 0.0) - (b.final_accuracy or 0.0) for a, b in zip(moon, other, strict=True)]
            sure = len(apart) >= FEWEST_SEEDS and student_interval(apart)[1] < 0
            verdict = NOT if order[0] != "MOON" else REPRODUCED if sure else PARTLY
            if len(apart) >= FEWEST_SEEDS:
                difference = estimate(apart)
                p = student_p(difference.mean, (difference.std or 0.0) / math.sqrt(len(apart)), len(apart) - 1)
            ours = f"MOON {means['MOON']:.1%}, {next_worst} {means[next_worst]:.1%}"
        title = f"MOON is the worst, {MODEL_TITLES[model]} on FMNIST, {PARTITION_TITLES[partition]}"
        yield Verdict(title, "worst", "", ours, verdict, p)


def _more_epochs(findings: Findings) -> Verdict:
    said = published()["claims"]["best_with_more_epochs"]
    best = judged = 0
    for row in published()["table7"]["rows"]:
        case = table7.case_name(row["local_epochs"])
        labels = [METHOD_TITLES[method] for method in row["accuracy"]]
        if any(not findings.runs(case, label) for label in labels):
            continue
        judged += 1
        means = {
            label: estimate([table7.accuracy_at(r, row["round"]) for r in findings.runs(case, label).values()]).mean
            for label in labels
        }
        best += max(means, key=lambda label: means[label]) == "FedTrip"
    verdict = OPEN if not judged else REPRODUCED if best == judged else PARTLY if best > judged / 2 else NOT
    return Verdict(
        "FedTrip has the highest accuracy with 5 and 10 local epochs",
        f"{said['cells']} of {said['of']} cells",
        f"{said['cells']} of {said['of']}",
        f"{best} of {judged} cells" if judged else "",
        verdict,
    )


def _four_of_fifty(findings: Findings) -> Iterator[Verdict]:
    for printed in published()["table6"]["cases"]:
        title = f"{DATASET_TITLES[printed['dataset']]} {PARTITION_TITLES[printed['partition']]}"
        ratio = speedup(findings, table6.case_name(printed), "FedAvg", "FedTrip")
        paper = float(printed["multiples"]["fedavg"])
        yield Verdict(
            f"4 of 50 clients, FedTrip against FedAvg, {title}", f"{paper}×", "", told(ratio),
            verdict_of(ratio, paper), p_of(ratio),
        )  # fmt: skip


def _mu(findings: Findings) -> Iterator[Verdict]:
    said = published()["claims"]["mu"]
    case = fig7.PANELS[1].case
    rounds = {mu: rounds_of(findings, case, fig7.label(mu)) for mu in fig7.MUS}
    known = {mu: value.estimate.mean for mu, value in rounds.items() if value is not None}
    verdict, ours = OPEN, ""
    if len(known) == len(fig7.MUS):
        fastest = min(known, key=lambda mu: known[mu])
        falls, rises = known[said["fastest_at"]] < known[fig7.MUS[0]], known[fig7.MUS[-1]] > known[said["fastest_at"]]
        verdict = REPRODUCED if falls and rises else PARTLY if falls else NOT
        ours = f"fastest at {fastest}: " + ", ".join(f"{mu}: {known[mu]:.1f}" for mu in fig7.MUS)
    yield Verdict(
        "rounds to target fall with μ up to about 1.5, then rise (CNN, MNIST, Dir-0.5)",
        f"fastest near {said['fastest_at']}", "", ours, verdict,
    )  # fmt: skip
    verdict, ours = OPEN, ""
    if len(known) == len(fig7.MUS):
        best = {
            mu: estimate([run.best_accuracy or 0.0 for run in findings.runs(case, fig7.label(mu)).values()]).mean
            for mu in fig7.MUS
        }
        top = max(best, key=lambda mu: best[mu])
        verdict = REPRODUCED if top == said["best_accuracy_at"] else NOT
        ours = f"highest at {top}: " + ", ".join(f"{mu}: {best[mu]:.2%}" for mu in fig7.MUS)
    yield Verdict(
        "the highest accuracy is at μ = 0.4 (CNN, MNIST, Dir-0.5)",
        f"μ = {said['best_accuracy_at']}", "", ours, verdict,
    )  # fmt: skip


def _cost() -> Iterator[Verdict]:
    for model, title in MODEL_TITLES.items():
        share = training_share_of_attaching("fedtrip", model)
        yield Verdict(
            f"FedTrip's extra operations are negligible, {title}",
            "negligible",
            "",
            f"{share:.2%} of a client's training (4K|w| over K·M·(FP+BP))",
            REPRODUCED if share < NEGLIGIBLE else NOT,
        )
