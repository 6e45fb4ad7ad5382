"""Figure 2: t-SNE of the test set's representations, the global model's and one client's (FedAvg, CNN, MNIST)."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from fedtrip.api.runs import run
from fedtrip.data import load_dataset
from fedtrip.data.dataset import DataSet
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.files.atomic import write_json
from fedtrip.inputs import sliced
from fedtrip.models import build_model
from fedtrip.models.representation import Tap
from fedtrip.one_thread import one_thread
from fedtrip.paper.entry import Entry, Findings, OnStep, OwnWork
from fedtrip.paper.page import Page
from fedtrip.paper.reproduction import WORK
from fedtrip.paper.settings import paper_experiment
from fedtrip.randomness import stream
from fedtrip.runs.folder import SNAPSHOTS, read_model
from fedtrip.selection.uniform import Uniform

CLIENT, LAST, EARLIER = 1, 50, 30
PANELS = 3
IMAGES = 2000
"""of the test set, the first ones; t-SNE of all 10,000 would say the same with more ink"""
POINTS = "points.json"
NOTE = (
    f"t-SNE (scikit-learn, perplexity 30, PCA start, seed 0) of the {IMAGES:,} first test images' representations, "
    f"the input of the last layer, coloured by class. Client {CLIENT}'s model is that of its last round up to "
    f"{EARLIER} and {LAST}. The table: how many of an image's 10 nearest neighbours in representation space have its "
    "class, and the model's test accuracy on these images. The paper prints no numbers for this figure; its point is "
    "that the global model separates the classes better than a local one, and a later local one better than an earlier."
)


def experiment() -> Experiment:
    """FedAvg, keeping the models of the last rounds of the client up to the two marks."""
    base = paper_experiment("mnist", "cnn", "fedavg", rounds=LAST)
    rounds = [round_of_client(base.seed, mark) for mark in (EARLIER, LAST)]
    return base.but(snapshot=tuple(sorted({*rounds, LAST})))


def round_of_client(seed: int, mark: int) -> int:
    """The last round up to the mark in which the client takes part."""
    return next(number for number in range(mark, 0, -1) if CLIENT in _chosen(seed, number))


def _chosen(seed: int, t: int) -> tuple[int, ...]:
    return Uniform()(stream(seed, "selection", t), t, 10, 4, lambda _client: 1)


def write(findings: Findings, folder: Path) -> None:
    """The points are kept, so that the figure can be drawn again without training."""
    if not (folder / POINTS).is_file():
        write_json(folder / POINTS, _points(folder.parent / WORK / "fig2", findings.data_dir, findings.step))
    panels: list[dict[str, Any]] = json.loads((folder / POINTS).read_text(encoding="utf-8"))["panels"]
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(10.2, 3.7), layout="constrained")
        colours = matplotlib.colormaps["tab10"]
        for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
            x, labels = np.array(panel["points"]), np.array(panel["labels"])
            for label in range(10):
                axes.scatter(*x[labels == label].T, s=3, color=colours(label), linewidths=0, label=str(label))
            axes.set(title=panel["title"], xticks=[], yticks=[])
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=10, markerscale=4, title="class")
        save_both(figure, folder / "tsne")
    page = Page(
        "Figure 2: representations of the test set", ["model", "neighbours of the same class", "accuracy"],
        notes=[NOTE], figures=["tsne"],
    )  # fmt: skip
    for panel in panels:
        page.rows.append([panel["title"], f"{panel['neighbours']:.1%}", f"{panel['accuracy']:.1%}"])
        page.records.append({name: panel[name] for name in ("title", "neighbours", "accuracy")})
    page.write(folder)


def _points(work: Path, data_dir: Path | None, step: OnStep) -> dict[str, Any]:
    if find_spec("sklearn") is None:
        raise UserError("fig2 needs scikit-learn for its t-SNE; accepted: pip install 'fedtrip[tsne]'")
    wanted = experiment()
    run(wanted, data_dir=data_dir, out=work, resume=True, on_round=lambda record: step(f"round {record.round}"))
    models = [(f"global model, round {LAST}", LAST, "global")]
    for mark in (LAST, EARLIER):
        number = round_of_client(wanted.seed, mark)
        models.append((f"client {CLIENT}, up to round {mark} (round {number})", number, f"client-{CLIENT}"))
    dataset = load_dataset("mnist", data_dir)
    panels = []
    for title, number, name in models:
        path = work / SNAPSHOTS / f"round-{number:04d}" / f"{name}.safetensors"
        panels.append({"title": title, **_panel(path, dataset)})
        step("t-SNE")
    return {"experiment": wanted.model_dump(mode="json", exclude_none=True), "panels": panels}


@one_thread()
def _panel(path: Path, dataset: DataSet) -> dict[str, Any]:
    from sklearn.manifold import TSNE

    module = build_model("cnn", dataset.inputs, dataset.classes, seed=0)
    module.load_state_dict(read_model(path))
    features, predicted = _representations(module, dataset)
    labels = dataset.y_test[:IMAGES].numpy()
    placed = TSNE(perplexity=30, init="pca", random_state=0).fit_transform(features)
    return {
        "neighbours": _same_class_neighbours(features, labels),
        "accuracy": float((predicted == labels).mean()),
        "labels": labels.tolist(),
        "points": np.round(placed, 2).tolist(),
    }


def _representations(module: nn.Module, dataset: DataSet) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    with Tap(module.eval()) as tap, torch.inference_mode():
        logits = module(dataset.normalised(sliced(dataset.x_test, slice(IMAGES))))
        return tap.take().numpy(), logits.argmax(1).numpy()


def _same_class_neighbours(features: NDArray[np.float32], labels: NDArray[np.int64], count: int = 10) -> float:
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=count + 1).fit(features).kneighbors(features, return_distance=False)
    return float((labels[nearest[:, 1:]] == labels[:, None]).mean())


ENTRY = Entry(
    "fig2", "Figure 2: t-SNE of the test set's representations", write,
    own_work=OwnWork(f"once a run of {LAST} rounds and {PANELS} t-SNE, a minute or two", steps=LAST + PANELS),
)  # fmt: skip
