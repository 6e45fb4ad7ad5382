"""The paper's Tables 3, 5 and 8 computed again, each cell beside the printed one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fedtrip.costs import paper_gflops_per_round, pass_cost, symbols_of
from fedtrip.methods import METHODS, make_method
from fedtrip.models import build_model
from fedtrip.paper.published import published, slip

BATCH = 50
SHAPES = {"mlp": (1, 28, 28), "cnn": (1, 28, 28), "alexnet": (3, 32, 32)}
TITLES = {"mlp": "MLP", "cnn": "CNN", "alexnet": "AlexNet"}
DATASETS = {"mnist": "MNIST", "fashion-mnist": "FMNIST", "emnist": "EMNIST", "cifar-10": "CIFAR-10"}
NAMES = {"fedtrip": "FedTrip", "fedavg": "FedAvg", "fedprox": "FedProx", "slowmo": "SlowMo", "moon": "MOON",
         "feddyn": "FedDyn", "scaffold": "SCAFFOLD", "mimelite": "MimeLite"}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One number: where it stands, as the paper prints it, as it follows to the printed digit, whether they agree."""

    row: str
    column: str
    printed: str
    computed: str
    exact: float | None
    agrees: bool
    remark: str


def table3() -> list[Cell]:
    """Models: MiB of float32 parameters, millions of parameters, millions of multiply-adds of a forward pass."""
    cells = []
    for name, printed in published()["table3"].items():
        if name == "place":
            continue
        module = build_model(name, SHAPES[name], 10, seed=0)
        parameters = sum(p.numel() for p in module.parameters())
        exact = {
            "MB": ("megabytes", parameters * 4 / 2**20),
            "parameters in millions": ("parameters_millions", parameters / 1e6),
            "MFLOPs": ("mflops", pass_cost(module, SHAPES[name]).forward / 1e6),
        }
        for column, (key, value) in exact.items():
            place = f"Table III, {TITLES[name]}, {column}"
            cells.append(_cell(TITLES[name], column, printed[key], value, place))
    return cells


def table5() -> list[Cell]:
    """GFLOPs to target = R · (n·FP + attaching operations) for one client, R the rounds that Table 4 prints."""
    known = published()
    rounds = {(case["model"], case["dataset"]): case["rounds"] for case in known["table4"]["cases"]}
    cells = []
    for case in known["table5"]["cases"]:
        model, dataset = case["model"], case["dataset"]
        parameters = sum(p.numel() for p in build_model(model, SHAPES[model], 10, seed=0).parameters())
        forward = known["forward_macs"][model]
        symbols = symbols_of(
            samples=known["table2"][dataset]["client_samples"],
            epochs=1,
            batch_size=BATCH,
            parameters=parameters,
            forward=forward,
            backward=2 * forward,
        )
        for method, printed in case["gflops"].items():
            a_round = paper_gflops_per_round(make_method(method, {}, model=model, dataset=dataset), symbols, epochs=1)
            assert a_round is not None
            place = f"Table V, {TITLES[model]} on {DATASETS[dataset]}, {NAMES[method]}"
            exact = rounds[model, dataset][method] * a_round
            cells.append(_cell(f"{TITLES[model]} {DATASETS[dataset]}", NAMES[method], printed, exact, place))
    return cells


def table8() -> list[Cell]:
    """Attaching operations: the formulas that the methods declare, beside the paper's."""
    symbols = symbols_of(samples=600, epochs=1, batch_size=BATCH, parameters=1, forward=1, backward=2)
    cells = []
    for name, printed in published()["table8"].items():
        if name == "place":
            continue
        method = METHODS[name](option="I") if name == "scaffold" else METHODS[name]()  # type: ignore[call-arg]
        attaching = method.attaching(symbols)
        assert attaching is not None
        for column, ours in (("computation", attaching.formula), ("communication", attaching.communication)):
            same = printed[column] == ours
            cells.append(Cell(NAMES[name], column, printed[column], ours, None, same, ""))
    return cells


TABLES: dict[str, tuple[str, Callable[[], list[Cell]]]] = {
    "table3": ("Table 3: models", table3),
    "table5": ("Table 5: GFLOPs to target, from the rounds that Table 4 prints", table5),
    "table8": ("Table 8: attaching operations of one client and round", table8),
}


def as_records(cells: list[Cell]) -> list[dict[str, Any]]:
    """The cells as plain data."""
    return [asdict(cell) for cell in cells]


def _cell(row: str, column: str, printed: str, exact: float, place: str) -> Cell:
    """Compare to the printed digit. A printed comma is read as the paper means it: of thousands."""
    known = slip(place)
    decimals = len((printed if known is None else known["computed"]).partition(".")[2])
    computed = f"{exact:,.{decimals}f}"
    remark = "" if known is None else f"a slip of the paper: its own numbers give {known['computed']}"
    return Cell(row, column, printed, computed, exact, computed == printed, remark)
