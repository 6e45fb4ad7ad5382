"""What a notebook shows of a run and of a comparison: a table and a small plot, in one piece of HTML.

Every text in it is escaped: names of methods and files are the user's, or those of somebody's run folder. The plot is
a picture within the HTML, so that a saved notebook has it, and nothing is asked of a network.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence

from fedtrip.comparison.tables import columns, note
from fedtrip.comparison.variants import Row
from fedtrip.figures.convergence import convergence
from fedtrip.figures.drawing import as_png
from fedtrip.runs.history import History

SMALL = (5.2, 3.2)
"""Inches of a run's plot."""
CELL = "padding: 2px 10px; white-space: nowrap"
QUIET = "opacity: 0.75; font-size: 90%; max-width: 80em"


def run_html(run: History) -> str:
    """A run: its title, its numbers and its curve."""
    target, goal = run.experiment.target, run.goal
    reached = None if target is None else run.rounds_to(target)
    costs = run.costs(len(run.records))
    numbers = {
        "rounds": f"{len(run.records)} of {run.experiment.rounds}",
        **({} if target is None else {f"rounds to {goal.shown_target(target)}": str(reached or "not reached")}),
        f"final {goal.score}": "none" if run.final_score is None else goal.shown(run.final_score),
        f"best {goal.score}": "none" if run.best_score is None else goal.shown(run.best_score),
        "MB, down and up": f"{costs['megabytes']:.2f}",
        **({} if run.ended is None else {"ended early": run.ended}),
        **({} if run.stopped is None else {"stopped": run.stopped}),
    }
    rows = [[name, value] for name, value in numbers.items()]
    plot = picture({run.label: [run]}) if run.curve else ""
    return f"<div><strong>{html.escape(run.title)}</strong>{table_html([], rows)}{plot}</div>"


def comparison_html(title: str, rows: Sequence[Row], results: Mapping[str, Sequence[History]], where: str) -> str:
    """A comparison: its table, how to read it, and its curves."""
    shown = [column for column in columns(rows) if column.importance]
    cells = [[column.cell(row, brief=True) for column in shown] for row in rows]
    fewest = min((row.rounds.mean for row in rows if not row.censored and row.target is not None), default=None)
    best = [number for number, row in enumerate(rows) if row.rounds.mean == fewest and not row.censored]
    table = table_html([column.title for column in shown], cells, bold=best)
    told = f'<p style="{QUIET}">{html.escape(note(rows, shown))}<br>{html.escape(where)}</p>'
    return f"<div><strong>{html.escape(title)}</strong>{table}{told}{picture(results)}</div>"


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[int] = ()) -> str:
    """A table whose first column is text and whose others are numbers."""

    def line(cells: Sequence[str], tag: str, weight: str) -> str:
        made = (
            f'<{tag} style="{CELL}; text-align: {"right" if number else "left"}; font-weight: {weight}">'
            f"{html.escape(cell)}</{tag}>"
            for number, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    head = f"<thead>{line(header, 'th', 'bold')}</thead>" if header else ""
    body = "".join(line(cells, "td", "bold" if number in bold else "normal") for number, cells in enumerate(rows))
    return f'<div style="overflow-x: auto"><table>{head}<tbody>{body}</tbody></table></div>'


def picture(results: Mapping[str, Sequence[History]]) -> str:
    """The curves as a picture."""
    drawn = convergence(results, size=SMALL if len(results) < 2 else (6.4, 4.0))
    encoded = base64.b64encode(as_png(drawn, dpi=100)).decode("ascii")
    return f'<img alt="test score over rounds" src="data:image/png;base64,{encoded}">'
