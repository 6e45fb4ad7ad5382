"""Figure 4: which classes the clients hold, MNIST, four heterogeneities."""

from __future__ import annotations

from pathlib import Path

from fedtrip.data import load_dataset
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.figures.drawing import BOTH
from fedtrip.figures.labels import draw_label_distribution
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.page import Page
from fedtrip.paper.settings import PARTITION_TITLES
from fedtrip.partitions.interface import label_counts

SEED = 0
NOTE = (
    "Samples of each class at each of 10 clients, MNIST, 600 a client, seed 0; the area of a circle is the number of "
    "samples. The paper prints no numbers for this figure; what it says is that most clients hold mostly 3 or 4 "
    "classes under Dir-0.5, 1 or 2 under Dir-0.1, and exactly 2 and 1 under Orthogonal-5 and Orthogonal-10."
)


def write(findings: Findings, folder: Path) -> None:
    dataset = load_dataset("mnist", findings.data_dir)
    page = Page(
        "Figure 4: label distributions", ["setting", "client", *(f"class {c}" for c in range(dataset.classes))],
        notes=[NOTE], figures=["labels"],
    )  # fmt: skip
    tables = {}
    for partition, title in PARTITION_TITLES.items():
        experiment = Experiment(dataset="mnist", partition=partition, method="fedavg", seed=SEED)
        drawn = prepare(experiment, loaded=dataset).partition
        tables[title] = label_counts(drawn, dataset.y_train, dataset.classes, range(drawn.clients))
        for client, counts in enumerate(tables[title].tolist()):
            page.rows.append([title, str(client), *map(str, counts)])
            page.records.append({"setting": title, "client": client, **{f"class_{c}": n for c, n in enumerate(counts)}})
    for suffix in BOTH:
        draw_label_distribution(tables, folder / f"labels{suffix}")
    page.write(folder)


ENTRY = Entry("fig4", "Figure 4: label distributions of the clients, four settings", write)
