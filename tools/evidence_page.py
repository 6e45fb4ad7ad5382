"""The pages that quote docs/evidence/: docs/evidence.md, and the tables in docs/choosing.md and the README.

`python -m tools.evidence --pages` writes them; tests/test_evidence.py compares them with what is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from fedtrip.comparison.tables import interval, markdown_row
from fedtrip.comparison.tuning_page import in_a_line
from fedtrip.figures.drawing import STYLE, save_figure
from fedtrip.figures.palette import COLOURS, looks
from fedtrip.files.atomic import write_text
from fedtrip.statistics import Ratio, holm
from tools.evidence import ROOT, SETTINGS, STORED, TRIALS, TUNED

PAGE, CHOOSING, README = ROOT / "docs" / "evidence.md", ROOT / "docs" / "choosing.md", ROOT / "README.md"
TITLES = {
    "dirichlet-0.5": "Dirichlet(0.5)",
    "dirichlet-0.1": "Dirichlet(0.1)",
    "quantity": "quantity skew",
    "few-of-many": "4 of 50 clients",
}
SAID = {
    "dirichlet-0.5": "Ten clients, four in a round; each client's classes are drawn from Dirichlet(0.5).",
    "dirichlet-0.1": "Ten clients, four in a round; Dirichlet(0.1): most clients have two or three classes.",
    "quantity": "Ten clients, four in a round; the whole set is divided into very unequal parts, `quantity:0.5`, all "
    "of the same mixture.",
    "few-of-many": "Fifty clients, four in a round; Dirichlet(0.5). A client comes back after a dozen rounds.",
}
SIGNIFICANT = 0.05
SHOWN = ("fedtrip-auto", "fedtrip", "fedavg", "feddyn", "slowmo")
"""The lines of the README's figure."""
IN_README = "dirichlet-0.5"
Record = dict[str, Any]


def stored(setting: str, part: str = "global") -> list[Record]:
    """The rows that were measured."""
    rows: list[Record] = json.loads((STORED / setting / f"{part}.json").read_text(encoding="utf-8"))
    return rows


def ratio(record: Record) -> Ratio | None:
    """The speed-up of a row."""
    return None if record["speedup"] is None else Ratio(**record["speedup"])


def verdicts(rows: Sequence[Record]) -> dict[str, str]:
    """Of each method: faster or slower than FedAvg by Holm's correction over all of them, or not told apart.

    A bound tells nothing on the side to which it is open.
    """
    tested = {row["variant"]: found for row in rows if (found := ratio(row)) is not None and found.p is not None}
    adjusted = dict(zip(tested, holm([found.p for found in tested.values() if found.p is not None]), strict=True))
    said = {}
    for name, found in tested.items():
        open_side = {"<": found.mean > 1, ">": found.mean < 1, "?": True}.get(found.bound, False)
        sure = adjusted[name] < SIGNIFICANT and not open_side
        said[name] = "not told apart" if not sure else "faster" if found.mean > 1 else "slower"
    return said


def by_speed(rows: Sequence[Record]) -> list[Record]:
    """The fastest first; without a ratio last."""
    return sorted(rows, key=lambda row: -(found.mean if (found := ratio(row)) is not None else 0.0))


def spread(value: dict[str, Any] | None, digits: int, scale: float = 1.0) -> str:
    """Mean ± deviation."""
    return "–" if value is None else f"{value['mean'] * scale:.{digits}f}±{value['std'] * scale:.{digits}f}"


def table(setting: str) -> str:
    """All methods of a setting, the fastest first."""
    rows = stored(setting)
    said = verdicts(rows)
    lines = [["method", "rounds to 90 %", "reached", "speed-up [95 %]", "final acc. %", "GFLOPs", "MB", "kB kept"]]
    lines.append(["---"] * len(lines[0]))
    for row in by_speed(rows):
        bound = ">" if row["censored"] else ""
        name, cell = f"`{row['variant']}`", interval(ratio(row))
        sure = said.get(row["variant"], "not told apart") != "not told apart"
        lines.append(
            [
                name,
                bound + spread(row["rounds"], 1),
                f"{row['trials'] - row['censored']}/{row['trials']}",
                f"**{cell}**" if sure else cell,
                spread(row["final_accuracy"], 2, 100),
                bound + f"{row['gflops']['mean']:.3f}",
                bound + f"{row['megabytes']['mean']:.2f}",
                f"{row['client_megabytes'] * 1e3:.0f}",
            ]
        )
    return "\n".join(map(markdown_row, lines))


def personal_table(setting: str) -> str:
    """The methods with models of the clients' own, the best served clients first."""
    lines = [["method", "global model, client mean %", "own models, client mean %", "own models, worst tenth %", "MB"]]
    lines.append(["---"] * len(lines[0]))

    def served(row: Record) -> float:
        best = row["clients_personal_mean"] or row["clients_global_mean"]
        return float(best["mean"])

    for row in sorted(stored(setting, "personal"), key=served, reverse=True):
        cells = [spread(row[name], 2, 100) for name in ("clients_global_mean", "clients_personal_mean")]
        cells.append(spread(row["clients_personal_worst_tenth"], 2, 100))
        lines.append([f"`{row['variant']}`", *cells, f"{row['megabytes']['mean']:.2f}"])
    return "\n".join(map(markdown_row, lines))


def told_apart(setting: str) -> str:
    """Which methods ten trials tell apart from FedAvg."""
    said = verdicts(stored(setting))
    names = {way: [f"`{name}`" for name, found in said.items() if found == way] for way in ("faster", "slower")}
    parts = [f"{way} than FedAvg: {', '.join(found) or 'none'}" for way, found in names.items()]
    return f"After Holm's correction over all {len(said)}: {'; '.join(parts)}. The others are not told apart."


def page() -> str:
    """docs/evidence.md."""
    count = len(stored("dirichlet-0.5"))
    text = f"""# Every method, measured

All {count} methods that make a global model on scikit-learn's digits: the MLP, 100 rounds, {TRIALS} trials each on
the same seeds, **all with their defaults**, target 90 %; and the personal ones by their clients' own test sets.
`make evidence` measures it again; of what is finished in `runs/` only a new method's runs are missing. This page is
written from [what is stored](evidence/dirichlet-0.1/global.json).

How to read it: a speed-up is FedAvg's rounds to the target over the method's, paired by seed, with its 95 % interval.
`<` is a bound, because some runs never got there. Bold is told apart from FedAvg after Holm's correction over the
methods of the table (p < {SIGNIFICANT}). Costs are to target: GFLOPs of one client in the paper's accounting, MB of
all.

**Defaults are not a fair fight.** A method whose paper trains with plain SGD has momentum 0 here and FedAvg has 0.9, at
the same learning rate of 0.01. So it takes steps of a tenth, and what the table shows of it is mostly that.
`fedtrip tune` ([tuning.md](tuning.md)) gives each method the same budget to find its own;
[choosing.md](choosing.md) says what follows.
"""
    for setting, title in TITLES.items():
        text += f"\n## {title[0].upper()}{title[1:]}\n\n{SAID[setting]}\n\n"
        text += f"![Speed-up over FedAvg of each method, with its interval](evidence/{setting}/speedups.png)\n\n"
        text += f"{told_apart(setting)}\n\n{table(setting)}\n"
    text += """
## Models of the clients' own

A fifth of each client's samples is its own test set, on which nobody trains. *Global model* is the server's, *own
models* are each client's; both are means over the clients, of the model after the last round. What the global model of
`local`, `fedper` or `lg-fedavg` scores says nothing: part of it never travels, and is as it was in the beginning.
"""
    for setting, title in TITLES.items():
        text += f"\n### {title[0].upper()}{title[1:]}, own models\n\n{personal_table(setting)}\n"
    return text


def summary() -> str:
    """The speed-ups of all methods in all settings, for docs/choosing.md."""
    rows = {setting: {row["variant"]: row for row in stored(setting)} for setting in SETTINGS}
    said = {setting: verdicts(stored(setting)) for setting in SETTINGS}
    lines = [["method", *TITLES.values()], ["---"] * (1 + len(TITLES))]
    for row in by_speed(stored("dirichlet-0.1")):
        name = row["variant"]
        cells = []
        for setting in SETTINGS:
            cell = interval(ratio(rows[setting][name]))
            cells.append(f"**{cell}**" if said[setting].get(name) in ("faster", "slower") else cell)
        lines.append([f"`{name}`", *cells])
    return "\n".join(map(markdown_row, lines))


def tuned() -> dict[str, Any]:
    """What `fedtrip tune` chose, and its verdict."""
    found: dict[str, Any] = json.loads((STORED / TUNED / "tuned.json").read_text(encoding="utf-8"))
    return found


def tuned_rows() -> list[Record]:
    """The methods with what was chosen for them, under their own names."""
    end = f" {TUNED}"
    rows = [row for row in tuned()["verdict"]["rows"] if row["variant"].endswith(end)]
    return [{**row, "variant": row["variant"].removesuffix(end)} for row in rows]


def tuned_table() -> str:
    """All tuned methods, the fastest first, for docs/choosing.md."""
    rows, stored_tuning = tuned_rows(), tuned()
    before = {row["variant"]: row for row in stored_tuning["verdict"]["rows"]}
    said = verdicts(rows)
    lines = [["method", "rounds before", "after", "speed-up over tuned FedAvg [95 %]", "final acc. %", "chosen"]]
    lines.append(["---"] * len(lines[0]))
    for row in by_speed(rows):
        name = row["variant"]
        cell = interval(ratio(row))
        lines.append(
            [
                f"`{name}`",
                *((">" if one["censored"] else "") + spread(one["rounds"], 1) for one in (before[name], row)),
                f"**{cell}**" if said.get(name) in ("faster", "slower") else cell,
                spread(row["final_accuracy"], 2, 100),
                in_a_line(stored_tuning["chosen"][name]["values"], name),
            ]
        )
    return "\n".join(map(markdown_row, lines))


def readme_table() -> str:
    """The paper's methods and fedtrip-auto in two settings, for the README."""
    names = ("fedtrip-auto", "fedtrip", "fedavg", "fedprox", "slowmo", "moon", "feddyn")
    shown = ("dirichlet-0.5", "dirichlet-0.1")
    rows = [{row["variant"]: row for row in stored(setting)} for setting in shown]
    titles = [f"{what}{TITLES[setting]}" for setting in shown for what in ("rounds, ", "speed-up [95 %], ")]
    lines = [["method", *titles, "GFLOPs", "MB"], ["---"] * 7]
    for name in names:
        cells = []
        for of in rows:
            bound = ">" if of[name]["censored"] else ""
            cells += [bound + spread(of[name]["rounds"], 1), interval(ratio(of[name]))]
        last = rows[-1][name]
        bound = ">" if last["censored"] else ""
        costs = [f"{bound}{last['gflops']['mean']:.3f}", f"{bound}{last['megabytes']['mean']:.2f}"]
        lines.append([f"`{name}`", *cells, *costs])
    return "\n".join(map(markdown_row, lines))


def between(page: str, name: str, content: str) -> str:
    """The page with what stands between its two marks replaced."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
    changed, count = re.subn(pattern, lambda match: f"{match[1]}{content}\n{match[2]}", page, flags=re.DOTALL)
    assert count == 1, f"the page has no place for {name}"
    return changed


def draw_speedups(setting: str) -> Figure:
    """A line for each method: its speed-up over FedAvg and the interval, on a logarithmic axis."""
    rows = [row for row in by_speed(stored(setting)) if ratio(row) is not None][::-1]
    said = verdicts(rows)
    colours = {"faster": COLOURS[2], "slower": COLOURS[1], "not told apart": "0.45"}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.8 + 0.19 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            found = ratio(row)
            assert found is not None
            colour = colours[said.get(row["variant"], "not told apart")]
            if found.low is not None:
                axes.plot([found.low, found.high], [place, place], color=colour, linewidth=1.6)
            marker = {"<": "<", ">": ">"}.get(found.bound, "o")
            axes.plot([found.mean], [place], marker, color=colour, markersize=4.5)
        axes.axvline(1, color="0.2", linewidth=0.9)
        axes.set_xscale("log")
        ticks = [0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3]
        low, high = axes.get_xlim()
        axes.set_xticks([tick for tick in ticks if low <= tick <= high])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        axes.set_yticks(range(len(rows)), [row["variant"] for row in rows], fontsize=8)
        axes.set_ylim(-0.8, len(rows) - 0.2)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("speed-up over FedAvg in rounds to 90 %, 95 % interval; ◂ at most, ▸ at least")
        axes.set_title(
            f"digits, {TITLES[setting]}, {TRIALS} trials, defaults: "
            f"{sum(way == 'faster' for way in said.values())} faster than FedAvg, "
            f"{sum(way == 'slower' for way in said.values())} slower (Holm)",
            loc="left",
        )
    return figure


def draw_curves(setting: str) -> Figure:
    """A few methods over the first rounds, with the result as the title."""
    curves = json.loads((STORED / setting / "curves.json").read_text(encoding="utf-8"))
    rows = {row["variant"]: row for row in stored(setting)}
    auto = ratio(rows["fedtrip-auto"])
    assert auto is not None
    assert not rows["fedtrip-auto"]["censored"] + rows["fedavg"]["censored"], "a mean of rounds would be a bound"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        axes = figure.add_subplot()
        for name, (colour, style) in looks({name: name for name in SHOWN}).items():
            curve = curves[name]
            axes.plot(curve["round"], curve["mean"], linestyle=style, color=colour, label=name, linewidth=1.7)
            if name in ("fedtrip-auto", "fedavg"):
                axes.fill_between(curve["round"], curve["low"], curve["high"], color=colour, alpha=0.12, linewidth=0)
        axes.axhline(0.9, color="0.35", linestyle=":", linewidth=1)
        axes.set(xlim=(1, 40), ylim=(0.2, 1), xlabel="communication round", ylabel="test accuracy")
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
        axes.legend(loc="lower right")
        axes.set_title(
            f"fedtrip-auto reaches 90 % in {rows['fedtrip-auto']['rounds']['mean']:.1f} rounds, FedAvg in "
            f"{rows['fedavg']['rounds']['mean']:.1f}: {interval(auto)}\n"
            f"digits, {TITLES[setting]}, mean of {TRIALS} trials, all with their defaults; of two also the range",
            loc="left",
        )
    return figure


def write() -> None:
    """All pages and figures, from what is stored."""
    for setting in SETTINGS:
        save_figure(draw_speedups(setting), STORED / setting / "speedups.png")
    save_figure(draw_curves(IN_README), STORED / IN_README / "convergence.png")
    write_text(PAGE, page())
    for path, name, content in PLACES:
        write_text(path, between(_read(path), name, content()))


PLACES = (
    (CHOOSING, "evidence", summary),
    (CHOOSING, "tuned evidence", tuned_table),
    (README, "evidence", readme_table),
)
"""Where the tables stand: the page, the name of the marks around it, and what writes it."""


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
