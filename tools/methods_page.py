"""Write docs/methods.md again, from the methods and from a small run of each: `python -m tools.methods_page`.

Everything about a method is its class's: the module's docstring (who, and what), `formula`, the docstring's later
paragraphs, the options, `attaching`; what travels and what is kept is seen in a run (`tools.methods_seen`).
tests/test_docs.py compares the page with them.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from fedtrip.comparison.method_costs import SETTLED_ROUND, method_costs
from fedtrip.data.catalog import KNOWN_SETS, known_set
from fedtrip.families import METHOD, OPTIMIZER, model_names
from fedtrip.inputs import spec_of
from fedtrip.methods.interface import Attaching, CostSymbols, Method, make_method
from fedtrip.models import build_model
from fedtrip.registry.explanation import Option, explain_rule
from tools.methods_seen import BATCH, BUFFERS, SAMPLES, Seen, Sizes, in_words, layout, seen

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"
GROUPS = {
    "paper": "Methods of the FedTrip paper",
    "server": "On the server",
    "steps": "Other local steps",
    "losses": "Other losses",
    "personal": "Personal models",
}
"""The groups in the order of the page, and their headings."""

HEAD = r"""# The methods

This page is written by `python -m tools.methods_page` from the methods themselves: formulas, options and remarks are
their classes', what travels and what is kept was seen in a run of each. Each is one short file in
[src/fedtrip/methods](../src/fedtrip/methods/interface.py); `fedtrip methods` prints formulas, options and defaults.
An option is given as `--set method.mu=0.4`, in TOML as a field of `[method]`, and in Python as
`method={"name": "fedtrip", "mu": 0.4}`. An option that a method does not have is an error.

| letter | what it is |
|---|---|
| $w$ | the global model that a client receives in round $t$, the first being 1; $w^0$ the initial one |
| $w_k$ | the local model of client $k$, which training changes |
| $g$ | the gradient of a local step; $g(v)$ the same at $v$; $\nabla F_k(w)$ that on all samples of client $k$ |
| $\eta$, $K$ | the local learning rate; the local steps of a round |
| $S$, $N$, $n_k$ | the clients of the round; all clients; the samples of client $k$ |
| $p_k$, $\bar w$ | the weight of client $k$ in a mean over $S$; the mean of the $w_k$; so every line above a letter |
| $\Delta_k$, $\bar\Delta$ | $w_k - w$; their mean |
| $\text{gap}$ | $t$ less the last round in which this client took part |

A *step* is the gradient that is handed to the optimizer, before momentum; where it says *client*, the whole update is
given. All states start at 0 unless *start* says more. Weight decay $\lambda$ adds $\lambda w_k$ to every step, for any
method. *Own* is the model or the part of it that serves the client itself: [evaluation](evaluation.md).

*Mean*: `samples` weights clients by $n_k$, `uniform` does not. *Attaching* is what a method adds to FedAvg's
computation for one client and round, counted as the paper's Table 8 does, with M the batch size, FP, BP the passes of
one sample, C the classes, r the numbers of a representation and h the weights of the last hidden layer; *ours* marks
formulas that the paper does not give. Vectors have the names of the code; a trained model is sent up as `w`. A vector
is as long as $w$ unless its size stands behind it. If the model has buffers (BatchNorm), they travel with $w$ and are
averaged, outside every method.

"""

AFTER_TABLE = """
The momentum is a default: `--momentum` replaces it. A method with momentum 0 is one whose own paper or the FedTrip
paper trains with plain SGD.

`fedtrip costs` evaluates the attaching operations for any model, their ratio to FedAvg's own training, and the bytes
that travel and are kept.

```sh
fedtrip costs --model cnn --dataset mnist --methods all
```

From that run, one client and one round: {costs}.

The bytes and multiply-adds below were counted in {rounds} rounds of each method with its default options, for a client
that comes back after a pause: a network of one hidden layer with BatchNorm, |w| = {parameters:,} numbers of 4 bytes,
{samples} samples, batches of {batch}. Its buffers are counted too. Most of what a server keeps are numbers of 8 bytes.
"""

TAIL = """
## What holds to the bit

With the same local momentum on both sides, FedProx with μ = 0, FedTrip with μ = 0, MOON with μ = 0 and FedGKD with γ
= 0 are FedAvg, and FedTrip with ξ = 0 is FedProx ([a rule of our study](xi.md#the-rules) has a constant ξ). FedAvgM is
FedAvg with plain SGD and the server optimizer of the same rule, and FedBN is FedAvg on a model without norm layers:

```python
import fedtrip


def bits(method: object, **settings: object) -> str:
    return fedtrip.run(fedtrip.Experiment(method=method, rounds=4, **settings), workers=1).model_sha256


fedavg = bits("fedavg")
assert bits({"name": "fedprox", "mu": 0.0}) == fedavg
assert bits({"name": "fedtrip", "mu": 0.0}) == fedavg
assert bits({"name": "fedtrip-auto", "push": 0.0}) == fedavg
assert bits({"name": "moon", "mu": 0.0}) == fedavg
assert bits({"name": "fedgkd", "gamma": 0.0}) == fedavg
assert bits("fedbn") == fedavg
assert bits({"name": "fedtrip.paper.study_rules:ConstantXi", "mu": 0.1, "value": 0.0}) == bits("fedprox")
assert bits("fedavgm") == bits("fedavg", momentum=0.0, server_optimizer="momentum")
```
"""


def page() -> str:
    """The whole page."""
    by_group = {word: [name for name in METHOD.names() if method_class(name).group == word] for word in GROUPS}
    in_order = [name for names in by_group.values() for name in names]
    told = AFTER_TABLE.format(
        rounds=SETTLED_ROUND, parameters=layout().size("w"), samples=SAMPLES, batch=BATCH, costs=_costs_on_mnist()
    )
    sections = [
        f"\n## {GROUPS[word]}\n" + "".join(f"\n{section(name)}" for name in names)
        for word, names in by_group.items()
        if names
    ]
    return HEAD + table(in_order) + told + "".join(sections) + TAIL


def _costs_on_mnist() -> str:
    """What two of the methods cost a client, as the command on the page prints it."""
    mnist = known_set("mnist")
    inputs = spec_of(mnist.shape)
    fedtrip, moon = method_costs(
        ["fedtrip", "moon"], module=build_model("cnn", inputs, mnist.classes, seed=0), model="cnn", dataset="mnist",
        inputs=inputs, classes=mnist.classes, samples=mnist.samples_per_client, epochs=1, batch_size=50,
    )  # fmt: skip
    return (
        f"FedTrip adds {fedtrip.attaching_mflops:.2f} MFLOPs, {fedtrip.relative:.2%} of the training; MOON adds "
        f"{moon.attaching_mflops:.2f}, {moon.relative:.2%}"
    ).replace("%", " %")


def method_class(name: str) -> type[Method]:
    """The class of a method, which must have all that the page tells."""
    cls = METHOD.find(name)
    assert issubclass(cls, Method)
    assert cls.group in GROUPS, f"method '{name}': `group` is '{cls.group}'; accepted: {', '.join(GROUPS)}"
    assert "formula" in vars(cls), f"method '{name}' has no `formula` of its own"
    return cls


def table(names: list[str]) -> str:
    """One row a method: what it needs, sends, keeps and costs."""
    head = "method", "momentum", "mean", "sent down", "sent up", "client keeps", "server keeps", "attaching", ""
    rows = [_row(head), "|" + "---|" * len(head)]
    for name in names:
        cls, found = method_class(name), seen(name)
        attaching = _attaching(name)
        cells = (
            f"[`{name}`](#{name})", str(cls.momentum), _mean_of(cls), _exchanges(found.down), _exchanges(found.up),
            _kept(found), _vectors(found.server), attaching.formula, "paper" if attaching.from_paper else "ours",
        )  # fmt: skip
        rows.append(_row(cells))
    return "\n".join(rows) + "\n"


def section(name: str) -> str:
    """All about one method."""
    cls = method_class(name)
    about, *further = _paragraphs(inspect.getdoc(sys.modules[cls.__module__]))
    _, *notes = _paragraphs(inspect.getdoc(cls))
    parts = [f"### {name}", about, typeset(cls.formula), *further, *map(_emphasised, notes)]
    parts += [_seen_table(seen(name)), "\n".join(_costs(name, cls)), _options_table(name, cls)]
    return "\n\n".join(parts) + "\n"


def typeset(formula: str) -> str:
    """The rows of a method's `formula` as one display: what each is, and its TeX."""
    joined = re.sub(r"\n\s+", " ", inspect.cleandoc(formula))
    rows = [re.fullmatch(r"([^:\\]+): (.+)", line) for line in joined.splitlines()]
    assert rows, "the formula is empty"
    assert all(rows), f"not every row of the formula is `what: TeX`: {joined}"
    shown = [rf"\text{{{row[1]}}}\quad & {row[2]}" for row in rows if row]
    return "\n".join(["$$", r"\begin{aligned}", " \\\\\n".join(shown), r"\end{aligned}", "$$"])


def _paragraphs(text: str | None) -> list[str]:
    """The paragraphs of a docstring, each on one line; a page that it names becomes a link."""
    lines = [" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n")]
    return [lowered(re.sub(r"`docs/([\w-]+\.md)(#[\w-]+)?`", r"[\1](\1\2)", line)) for line in lines]


def lowered(text: str) -> str:
    """Indices and exponents of letters, as in w_k and β^K, below and above the line; what is code stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    for number in range(0, len(parts), 2):
        lowered = re.sub(r"(?<=\w)_(?:(\w+)|\{([^}]+)\})", r"<sub>\1\2</sub>", parts[number])
        parts[number] = re.sub(r"(?<=\w)\^(?:(\w+)|\{([^}]+)\})", r"<sup>\1\2</sup>", lowered)
    return "".join(parts)


def _emphasised(note: str) -> str:
    return re.sub(r"^(Departs from [^:]+):", r"**\1:**", note)


def _seen_table(found: Seen) -> str:
    lines = [
        ("sent down", _exchanges(found.down), found.bytes_down),
        ("sent up", _exchanges(found.up), found.bytes_up),
        ("a client keeps", _kept(found), found.bytes_client),
        ("the server keeps, beside the model", _vectors(found.server), found.bytes_server),
    ]
    rows = [_row((what, vectors, f"{count:,}")) for what, vectors, count in lines]
    return "\n".join(["| | vectors | bytes |", "|---|---|---:|", *rows])


def _exchanges(exchanges: list[Sizes]) -> str:
    return ", then ".join(_vectors(_without_buffers(sizes)) for sizes in exchanges)


def _kept(found: Seen) -> str:
    """What a client keeps: its method's vectors, and the parts of the model that never travel."""
    kept = found.client or found.personal
    assert not (found.client and found.personal), "say what of a client's memory is the model's"
    buffers = " and buffers" if any(name in kept for name in BUFFERS) else ""
    return _vectors(_without_buffers(kept)) + buffers


def _without_buffers(sizes: Sizes) -> Sizes:
    return {name: numbers for name, numbers in sizes.items() if name not in BUFFERS}


def _vectors(sizes: Sizes) -> str:
    shown = [(f"`{name}`", in_words(numbers)) for name, numbers in sizes.items()]
    return ", ".join(name if size == "|w|" else f"{name} ({size})" for name, size in shown) or "nothing"


def _mean_of(cls: type[Method]) -> str:
    return "its own" if cls.weights is not Method.weights else cls.weighting


def _attaching(name: str) -> Attaching:
    method = make_method(name, {}, model="", dataset="")
    attaching = method.attaching(CostSymbols(K=8, M=50, n=400, w=100, FP=100.0, BP=200.0))
    assert attaching is not None, f"method '{name}' does not declare its attaching operations"
    return attaching


def _costs(name: str, cls: type[Method]) -> list[str]:
    """What it costs, and what it does not go with."""
    attaching = _attaching(name)
    by = "as in the paper's Table 8" if attaching.from_paper else "counted by us as the paper's Table 8 does"
    ratio = seen(name).macs / seen("fedavg").macs
    lines = [
        f"- attaching operations: {attaching.formula}, {by}; sent beside FedAvg's model down and up: "
        f"{attaching.communication}",
        f"- multiply-adds of client and server, counted in that run: {ratio:.2f} times FedAvg's{_server_work(cls)}",
        f"- local momentum {cls.momentum}; mean: {_mean_of(cls)}",
    ]
    refused = _refused(cls)
    return [*lines, f"- refused with it: {'; '.join(refused)}"] if refused else lines


def _server_work(cls: type[Method]) -> str:
    each = f" and {cls.server_operations_each} for each upload" if cls.server_operations_each else ""
    return (
        f"; on the server {cls.server_operations} a parameter{each}, beside the mean" if cls.server_operations else ""
    )


def _refused(cls: type[Method]) -> list[str]:
    """The rules of other families that the method does not fit, as `fedtrip.experiment.rules` refuses them."""
    told = []
    made = {name: OPTIMIZER.make(OPTIMIZER.read(name)) for name in OPTIMIZER.names()}
    refused = [
        name
        for name, optimizer in made.items()
        if (cls.optimizers is not None and name not in cls.optimizers)
        or (cls.needs_travel and optimizer.travel(1.0, 1, kept=False) is None)
    ]
    if refused:
        told.append("the local optimizers " + " and ".join(f"`{name}`" for name in refused))
    if cls.replaces_loss:
        told.append("any task but `classification` without options of its loss")
    elif cls.needs_classes:
        told.append("a task without classes")
    if cls.exchanges > 1:
        told.append("an upload codec")
    if cls.totals or cls.needs_each:
        told.append("a combining rule other than `mean`")
    return told


def _options_table(name: str, cls: type[Method]) -> str:
    options = explain_rule(METHOD, name).options
    if not options:
        return "It has no options."
    rows = [_row((f"`{one.name}`", _default(one, cls), one.accepted, lowered(one.help))) for one in options]
    return "\n".join(["| option | default | accepted | meaning |", "|---|---|---|---|", *rows])


def _default(option: Option, cls: type[Method]) -> str:
    """The default, and where another model or data set has another."""
    shown = [f"`{json.dumps(option.default)}`"]
    for what, names in (("model", model_names()), ("dataset", list(KNOWN_SETS))):
        others: dict[Any, list[str]] = {}
        for name in names:
            given = cls.defaults_for(*((name, "") if what == "model" else ("", name)), {})
            if option.name in given:
                others.setdefault(given[option.name], []).append(f"`{name}`")
        shown += [f"`{json.dumps(value)}` with {what} {', '.join(of)}" for value, of in others.items()]
    return "; ".join(shown)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
