"""A comparison's rows as a table for a paper: LaTeX with the package booktabs.

Every text is escaped, so that no name of a method or a file is taken for a command.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedtrip.comparison.marks import Mark
from fedtrip.comparison.tables import Column, columns, note
from fedtrip.comparison.variants import Row
from fedtrip.printable import one_line

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''",
    "`": r"\textasciigrave{}", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "·": r"$\cdot$",
    "–": "--", "—": "---", "…": r"\ldots{}", "−": "$-$", "∞": r"$\infty$", "Σ": r"$\Sigma$", "°": r"$^{\circ}$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\varepsilon$", "ζ": r"$\zeta$",
    "η": r"$\eta$", "θ": r"$\theta$", "ι": r"$\iota$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$",
    "ν": r"$\nu$", "ξ": r"$\xi$", "π": r"$\pi$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "υ": r"$\upsilon$", "φ": r"$\varphi$", "χ": r"$\chi$", "ψ": r"$\psi$", "ω": r"$\omega$",
    "Γ": r"$\Gamma$", "Δ": r"$\Delta$", "Θ": r"$\Theta$", "Λ": r"$\Lambda$", "Ξ": r"$\Xi$", "Π": r"$\Pi$",
    "Φ": r"$\Phi$", "Ψ": r"$\Psi$", "Ω": r"$\Omega$", "\N{MICRO SIGN}": r"$\mu$",
}  # fmt: skip
"""The characters that LaTeX gives a meaning, or that its usual fonts lack, and how they are written."""
ACCENTED = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿ"
"""What pdflatex sets with its usual fonts beside ASCII."""
STYLES: dict[Mark, str] = {"": "{}", "best": r"\textbf{{{}}}", "level": r"\underline{{{}}}", "told": "{}$^{{*}}$"}
MARKED = ("Bold: the best, underlined: not significantly worse,", "*: a speed-up")
"""How marked cells look, and what the caption says of it."""


def escaped(text: str) -> str:
    """A text that LaTeX sets as it is, in one line."""
    plain = "".join(SPECIAL.get(character, character) for character in one_line(text).replace("--", "-\0-"))
    plain = plain.replace("\0", "{}")  # or two hyphens would become a dash
    return f"{{}}{plain}" if plain[:1] in ("[", "*") else plain  # after a row's end both would be its arguments


def as_latex(rows: Sequence[Row], title: str) -> str:
    """The columns that a terminal has room for, as a floating table whose caption says how to read it.

    The best of a column, and what the trials do not tell apart from it, are marked: see `fedtrip.comparison.marks`.
    """
    shown = [column for column in columns(rows) if column.importance]
    lines = [[escaped(column.title) for column in shown], *([_cell(column, row) for column in shown] for row in rows)]
    head, *body = (f"{' & '.join(cells)} \\\\" for cells in lines)
    caption = f"{escaped(title)}. {escaped(note(rows, shown, MARKED))}"
    table = "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            f"\\caption{{{caption}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(shown) - 1)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )
    return f"{_needs(table)}\n{table}\n"


def _cell(column: Column, row: Row) -> str:
    return STYLES[column.mark(row)].format(escaped(column.text(row)))


def _needs(table: str) -> str:
    """A comment that says what the document must load."""
    further = any(not character.isascii() and character not in ACCENTED for character in table)
    engine = "; it has letters that pdflatex may lack: lualatex or xelatex, and a font that has them" if further else ""
    return f"% needs \\usepackage{{booktabs}}{engine}"
