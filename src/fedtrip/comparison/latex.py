"""A comparison's rows as a table for a paper: LaTeX with the package booktabs.

Every text is escaped, so that no name of a method or a file is taken for a command.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedtrip.comparison.tables import Column, columns, note
from fedtrip.comparison.variants import Row
from fedtrip.printable import one_line

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$",
    "·": r"$\cdot$", "–": "--", "…": r"\ldots{}", "−": "$-$", "∞": r"$\infty$", "Σ": r"$\Sigma$", "°": r"$^\circ$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\epsilon$", "η": r"$\eta$",
    "λ": r"$\lambda$", "μ": r"$\mu$", "ξ": r"$\xi$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "ω": r"$\omega$",
}  # fmt: skip
"""The characters that LaTeX gives a meaning, or that its fonts lack, and how they are written."""


def escaped(text: str) -> str:
    """A text that LaTeX sets as it is, in one line."""
    return "".join(SPECIAL.get(character, character) for character in one_line(text))


def as_latex(rows: Sequence[Row], title: str) -> str:
    """The columns that a terminal has room for, as a floating table with a caption that says how to read it."""
    shown = [column for column in columns(rows) if column.importance]
    lines = [_line([escaped(column.title) for column in shown])]
    lines += [r"\midrule", *(_line([_cell(column, row) for column in shown]) for row in rows)]
    body = "\n".join(lines)
    return (
        "% needs \\usepackage{booktabs}\n"
        "\\begin{table}\n\\centering\n"
        f"\\caption{{{escaped(title)}. {escaped(note(rows, shown))}}}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(shown) - 1)}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
        "\\end{table}\n"
    )


def _cell(column: Column, row: Row) -> str:
    return escaped(column.text(row))


def _line(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
