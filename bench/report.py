"""The measurements as pages: bench/README.md, and the table of speed in the README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bench.bars import BARS, COMPARE, bar_in_words, verdict
from bench.cases import CASES
from bench.intervals import Interval

TITLES = {
    "mlp": "MLP",
    "cnn": "CNN",
    "small3": "3×32×32, conv 16-32-32",
    "mcmahan": "McMahan's CNN (1.66 M)",
    "alexnet": "AlexNet",
}
METHOD_ORDER = ("fedtrip", "fedprox", "feddyn", "moon", "fedgkd")
SPEED = re.compile(r"(<!-- speed: written by `python -m bench --render` -->\n).*(<!-- end of speed -->)", re.DOTALL)

Results = dict[str, Any]


def write_report(machines: Sequence[Results]) -> str:
    """bench/README.md: how it is measured, and each processor's figures, of those parts that were measured."""
    sections = [_beginning(), *(section for results in machines for section in _of_machine(results))]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _of_machine(results: Results) -> list[list[str]]:
    sections = [_machine(results)]
    if results["cases"]:
        sections += [_bars(results), _rounds(results), _parts(results), _ways(results), _methods(results)]
        sections += [_layers(results)]
    sections += [_compare(results)] if "compare" in results else []
    sections += [_growth(results)] if "scaling" in results and "memory" in results else []
    sections += [_copies(results)] if "copies" in results else []
    return sections


def in_readme(readme: str, machines: Sequence[Results]) -> str:
    """The README with the speed that was measured in its place."""
    told = "\n\n".join(speed(results) for results in machines)
    return SPEED.sub(lambda found: found[1] + "\n" + told + "\n\n" + found[2], readme)


def speed(results: Results) -> str:
    """The README's table of one processor."""
    rows = []
    for name, kernels, case in _measured(results):
        ratio, share = case["ratio"], case["share"]
        cells = [f"{ratio[workers]['median']:.1f}×" for workers in ("1 worker", "2 workers")]
        cells += [f"{share[part]['median']:.0%}" for part in ("training", "evaluation")]
        rows.append([TITLES[name], _setting(kernels, case), *cells])
    head = ["model", "instructions, sgemm", "1 worker", "2 workers", "training", "evaluation"]
    return "\n".join([f"CPU: {results['cpu']}.", "", *_table(head, rows)])


def scaling_figure(results: Results) -> str:
    """The name of the file with a processor's figure of how cost grows."""
    return f"scaling-{re.sub(r'[^a-z0-9]+', '-', results['cpu'].lower()).strip('-')}.png"


def _beginning() -> list[str]:
    sizes = ", ".join(f"{TITLES[name]} {case.samples} and {case.test:,}" for name, case in CASES.items())
    return [
        "# Speed",
        "",
        "Written by `make bench`; the numbers are in `results.json`, and `python -m bench --render` writes this page",
        "from them. What is compared was measured in turns in one process: absolute times say little on noisy",
        "machines. A figure is the median of the ratios of all turns with its 95 % interval (order statistics).",
        "Each processor on which it was measured has its own part.",
        "",
        "Kernels: with `avx512` every library takes the instructions that it finds fastest there; with `avx2` ATen,",
        "oneDNN, MKL and our engine are limited to AVX2, or the processor has nothing beyond it. Beside them stands",
        "what a 1024³ sgemm reaches there on one thread, in multiply-adds a second, measured in the same turns.",
        "",
        "The plain loop is [`plain.py`](plain.py): nn.Module, DataLoader (batch 50), optim.SGD, deepcopy, evaluation",
        "in batches of 1000 under no_grad, one thread, inputs normalised beforehand. fedtrip writes metrics and a",
        "checkpoint every round. 4 clients a round, one epoch, batch 50, FedAvg with momentum 0.9. Samples a client",
        f"and test images: {sizes}.",
    ]


def _machine(results: Results) -> list[str]:
    versions = results.get("versions", {})
    return [
        f"## {results['cpu']}, {results['cores']} cores",
        "",
        f"Kernels of our engine, where it was free to choose: {_own_kernels(results)}.",
        *([f"Versions: {', '.join(f'{k} {v}' for k, v in versions.items())}."] if versions else []),
    ]


def _bars(results: Results) -> list[str]:
    rows = []
    for name, kernels, case in _measured(results):
        for figure in BARS[name]:
            rows.append([
                TITLES[name], _setting(kernels, case), figure.title, figure.written(case), bar_in_words(name, figure),
                verdict(name, figure, case),
            ])  # fmt: skip
    text = [
        "### What must be reached",
        "",
        "A bar is missed only if the whole interval lies beyond it. Those of a whole round are meant for AVX2.",
        "",
    ]
    return [*text, *_table(["model", "kernels, sgemm", "figure", "measured", "bar", "verdict"], rows)]


def _rounds(results: Results) -> list[str]:
    rows = [
        [
            TITLES[name], _setting(kernels, case), case["compute"], str(case["turns"]),
            _seconds(case["seconds"]["plain"]["median"]),
            *(f"{_written(case['ratio'][workers], 2)}×" for workers in ("1 worker", "2 workers")),
            *(_written(case["share"][part], 0, percent=True) for part in ("training", "evaluation")),
        ]
        for name, kernels, case in _measured(results)
    ]  # fmt: skip
    head = [
        "model",
        "kernels, sgemm",
        "compute",
        "turns",
        "plain loop",
        "1 worker",
        "2 workers",
        "training",
        "evaluation",
    ]
    text = [
        "### A whole round against the plain loop, and its parts against sgemm",
        "",
        "*Training* and *evaluation*: the time that the round's multiply-adds would take at the speed of sgemm over",
        "the time that they took, with one worker. *Compute* is what `auto` chose: native, torch, or",
        "native-evaluation, which trains by torch.",
        "",
    ]
    return [*text, *_table(head, rows)]


def _parts(results: Results) -> list[str]:
    rows = []
    for name, kernels, case in _measured(results):
        for workers in ("1 worker", "2 workers"):
            parts = case["parts"][workers]
            shares = [parts[part] / parts["whole"] for part in ("training", "evaluation", "checkpoint")]
            cells = [f"{share:.1%}" for share in (*shares, 1 - sum(shares))]
            rows.append([TITLES[name], _setting(kernels, case), workers[0], _seconds(parts["whole"]), *cells])
    head = [
        "model",
        "kernels, sgemm",
        "workers",
        "whole",
        "training",
        "evaluation",
        "checkpoint",
        "aggregation and the rest",
    ]
    text = ["### What a round of fedtrip is made of", ""]
    after = ["", "Training and evaluation with two workers include the transport through shared memory."]
    return [*text, *_table(head, rows), *after]


def _ways(results: Results) -> list[str]:
    rows = [
        [
            TITLES[name], _setting(kernels, case), case["compute"],
            *(_written(case["torch over native"][part], 2) for part in ("training", "evaluation")),
        ]
        for name, kernels, case in _measured(results)
    ]  # fmt: skip
    text = [
        "### Torch's time over the native engine's",
        "",
        "`--compute torch` and `--compute native`, one worker. Above 1 the native engine is faster.",
        "",
    ]
    return [*text, *_table(["model", "kernels, sgemm", "`auto` chose", "training", "evaluation"], rows)]


def _methods(results: Results) -> list[str]:
    rows = []
    for name, kernels, case in _measured(results):
        found = case["over fedavg"]
        cells = [_written(found[method], 3) if method in found else "–" for method in METHOD_ORDER]
        rows.append([TITLES[name], _setting(kernels, case), *cells])
    text = [
        "### A method's training time over FedAvg's",
        "",
        "One worker, the same momentum, the same clients, and each has the memory that the method gives it.",
        "",
    ]
    return [*text, *_table(["model", "kernels, sgemm", *METHOD_ORDER], rows)]


def _layers(results: Results) -> list[str]:
    lines = [
        "### Where the rest goes, layer by layer",
        "",
        "Microseconds a sample through the native engine, as differences between chains that end one layer later, and",
        "beside them those of the layer's multiply-adds at the speed of sgemm. *Forward* is 1,000 samples with nothing",
        "kept, *training* 50 forward and back without the loss and the step of SGD. Layers whose work is done in one",
        "sweep (a convolution, its ReLU and its pooling) can make the difference of one of them small or negative.",
    ]
    for name, kernels, case in _measured(results):
        if not case["layers"]:
            continue
        rows = []
        for row in [*case["layers"], _sum(case["layers"])]:
            cells = [
                f"{row[column]:.3f}" for column in ("forward", "forward at sgemm", "training", "training at sgemm")
            ]
            rows.append([row["layer"], f"{row['macs']:,}", *cells])
        head = ["layer", "multiply-adds", "forward", "at sgemm", "training", "at sgemm"]
        lines += ["", f"{TITLES[name]}, {_setting(kernels, case)}:", "", *_table(head, rows)]
    return lines


def _sum(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"layer": "all", **{key: sum(row[key] for row in rows) for key in rows[0] if key != "layer"}}


def _compare(results: Results) -> list[str]:
    found = Interval(**results["compare"])
    return [
        "### From the prompt",
        "",
        f"`fedtrip compare` on digits, six methods, three trials each, two workers: **{found.median:.1f} s** from",
        f"the start of the interpreter to its end (the middle of three: {found.low:.1f} to {found.high:.1f} s).",
        f"The bar is {COMPARE.value:.0f} s: {COMPARE.verdict(found)}.",
    ]


def _growth(results: Results) -> list[str]:
    million, alexnets = results["memory"]["million"], results["memory"]["fifty_alexnets"]
    return [
        "### How cost grows",
        "",
        f"![time of a round against N, K, samples and model size]({scaling_figure(results)})",
        "",
        f"A million clients, 100 a round, {million['rounds']} rounds of FedTrip with the CNN (50 samples a client), "
        "2 workers: "
        f"{million['gigabytes']:.2f} GB at most (all three processes), {_seconds(million['seconds a round'])} a round.",
        "",
        f"50 clients with AlexNet ({alexnets['model_megabytes']:.0f} MB a model, of which each keeps one), 4 a round, "
        f"{alexnets['rounds']} rounds: {alexnets['gigabytes']:.2f} GB.",
    ]  # fmt: skip


def _copies(results: Results) -> list[str]:
    rows = [[case, f"{copies:.1f}"] for case, copies in results["copies"].items()]
    text = [
        "### How many copies of its model a federation holds",
        "",
        "A model of 25 million parameters, at the peak.",
        "",
    ]
    return [*text, *_table(["federation", "copies"], rows)]


def _measured(results: Results) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Model, kernels and what was measured, in the order of the cases, AVX2 last."""
    for name in TITLES:
        for kernels, case in sorted(results["cases"].get(name, {}).items(), key=lambda item: item[0] == "avx2"):
            yield name, kernels, case


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _own_kernels(results: Results) -> str:
    """What our engine chose where it was free to."""
    chosen = {case.get("our kernels", kernels) for _, kernels, case in _measured(results) if kernels != "avx2"}
    return ", ".join(sorted(chosen)) or "avx2"


def _setting(kernels: str, case: dict[str, Any]) -> str:
    return f"{kernels}, {_rate(case)}"


def _rate(case: dict[str, Any]) -> str:
    return f"{case['sgemm']['median'] / 1e9:.0f} GMAC/s"


def _written(value: dict[str, float], digits: int, *, percent: bool = False) -> str:
    def number(of: str) -> str:
        return f"{value[of]:.{digits}{'%' if percent else 'f'}}"

    return f"**{number('median')}** [{number('low')}, {number('high')}]"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"
