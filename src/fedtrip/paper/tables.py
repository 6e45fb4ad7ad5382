"""The paper's Tables 3, 5 and 8 computed again, each cell beside the printed one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedtrip.methods.interface import make_method
from fedtrip.models import build_model
from fedtrip.paper.published import published, slip
from fedtrip.paper.settings import DATASET_TITLES, METHOD_TITLES, MODEL_TITLES
from fedtrip.training.costs import paper_gflops_per_round, pass_cost, symbols_of

BATCH = 50
SHAPES = {"mlp": (1, 28, 28), "cnn": (1, 28, 28), "alexnet": (3, 32, 32)}


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
            place = f"Table III, {MODEL_TITLES[name]}, {column}"
            cells.append(_cell(MODEL_TITLES[name], column, printed[key], value, place))
    return cells


def table5() -> list[Cell]:
    """GFLOPs to target = R · (n·FP + attaching operations) for one client, R the rounds that Table 4 prints."""
    known = published()
    rounds = {(case["model"], case["dataset"]): case["rounds"] for case in known["table4"]["cases"]}
    cells = []
    for case in known["table5"]["cases"]:
        model, dataset = case["model"], case["dataset"]
        for method, printed in case["gflops"].items():
            place = f"Table V, {MODEL_TITLES[model]} on {DATASET_TITLES[dataset]}, {METHOD_TITLES[method]}"
            exact = rounds[model, dataset][method] * gflops_of_a_round(method, model, dataset)
            title = f"{MODEL_TITLES[model]} {DATASET_TITLES[dataset]}"
            cells.append(_cell(title, METHOD_TITLES[method], printed, exact, place))
    return cells


def gflops_of_a_round(method: str, model: str, dataset: str) -> float:
    """One client's GFLOPs a round as in Table 5: with the paper's own counts of a forward pass and samples a client."""
    known = published()
    forward = known["forward_macs"][model]
    symbols = symbols_of(
        samples=known["table2"][dataset]["client_samples"],
        epochs=1,
        batch_size=BATCH,
        parameters=sum(p.numel() for p in build_model(model, SHAPES[model], 10, seed=0).parameters()),
        forward=forward,
        backward=2 * forward,
    )
    a_round = paper_gflops_per_round(make_method(method, {}, model=model, dataset=dataset), symbols, epochs=1)
    assert a_round is not None
    return a_round


def training_share_of_attaching(method: str, model: str) -> float:
    """A method's attaching operations over a client's whole training, E·n·(FP+BP), with our counts of a pass."""
    module = build_model(model, SHAPES[model], 10, seed=0)
    cost = pass_cost(module, SHAPES[model])
    symbols = symbols_of(
        samples=BATCH,
        epochs=1,
        batch_size=BATCH,
        parameters=sum(p.numel() for p in module.parameters()),
        forward=cost.forward,
        backward=cost.training - cost.forward,
    )
    attaching = make_method(method, {}, model=model, dataset="mnist").attaching(symbols)
    assert attaching is not None
    return attaching.flops / (BATCH * cost.training)


def table8() -> list[Cell]:
    """Attaching operations: the formulas that the methods declare, beside the paper's."""
    symbols = symbols_of(samples=600, epochs=1, batch_size=BATCH, parameters=1, forward=1, backward=2)
    cells = []
    for name, printed in published()["table8"].items():
        if name == "place":
            continue
        options = {"option": "I"} if name == "scaffold" else {}
        method = make_method(name, options, model="cnn", dataset="fashion-mnist")
        attaching = method.attaching(symbols)
        assert attaching is not None
        for column, ours in (("computation", attaching.formula), ("communication", attaching.communication)):
            same = printed[column] == ours
            cells.append(Cell(METHOD_TITLES[name], column, printed[column], ours, None, same, ""))
    return cells


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
