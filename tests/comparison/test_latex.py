r"""The table for a paper: it is LaTeX, whatever the names, and it says by which rule it is marked.

Without LaTeX on the machine its structure is tested: braces, specials, cells. With it, it is set.
"""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.comparison.test_tables import row

from fedtrip.comparison.latex import as_latex, escaped
from fedtrip.statistics import Ratio, estimate

SPECIALS = "& % $ # _ { } ~ ^ \\"
EVIL = [
    SPECIALS, "\\input{/etc/passwd}", "\\end{tabular}", "[0.5em] first", "*starred", "a -- b --- c",
    "μ=0.4, η ≤ 1 × 2 ± 3",
    "``quoted'' \"so\" ?`", "line\nbreak\x1b[2J", "Größe, naïve, façade", "100 %% \\\\", "<b>bold</b> | x",
]  # fmt: skip
COMMANDS = re.compile(r"\\(?:[A-Za-z]+|.)")
"""A control word, or a control symbol such as an escaped special."""


def structure_of(text):
    """The text without its commands; fails where braces or dollars do not go together, or a special stands bare."""
    depth, dollars = 0, 0
    for character in (bare := COMMANDS.sub("", text)):
        depth += {"{": 1, "}": -1}.get(character, 0)
        dollars += character == "$"
        assert depth >= 0, text
    assert depth == 0, text
    assert dollars % 2 == 0, text
    assert not re.search(r"[%#~]", bare), text
    for part in bare.split("$")[::2]:  # outside of mathematics
        assert not re.search(r"[_^]", part), text
    return bare


def rows_of(table):
    """The cells of each row between the rules."""
    body = table.partition(r"\toprule")[2].partition(r"\bottomrule")[0].replace(r"\midrule", "")
    return [re.split(r"(?<!\\)&", line) for line in body.strip().splitlines() if line]


def check(table, count):
    comment, _, rest = table.partition("\n")
    assert comment.startswith("% needs \\usepackage{booktabs}")
    structure_of(rest.replace("\\\\\n", "\n"))
    rows = rows_of(rest)
    assert len(rows) == count + 1
    assert len({len(cells) for cells in rows}) == 1
    columns = re.search(r"\\begin\{tabular\}\{(l r*|lr*)\}", rest)[1]
    assert len(columns) == len(rows[0])
    assert rest.count(r"\begin{") == rest.count(r"\end{") == 2
    assert all(line.endswith(r"\\") for line in rest.splitlines() if " & " in line and "caption" not in line)
    return rows


@pytest.mark.parametrize("name", EVIL)
def test_any_name_is_text(name):
    table = as_latex([row(variant=name), row(variant="fedavg", speedup=None)], name)
    check(table, 2)
    assert "\\input{" not in table
    assert table.count(r"\end{tabular}") == 1
    first = rows_of(table)[1][0].strip()
    assert not first.startswith(("[", "*")), "after a row's end these would be its arguments"


@given(st.text(max_size=40))
def test_any_text_at_all(text):
    structure_of(escaped(text))
    assert "\n" not in escaped(text)


def test_specials_are_written_as_themselves():
    assert escaped(SPECIALS) == (
        r"\& \% \$ \# \_ \{ \} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )  # fmt: skip
    assert escaped("12.0±2.0 >1.5× –") == r"12.0$\pm$2.0 $>$1.5$\times$ --"
    assert escaped("a--b") == "a-{}-b"


def test_bounds_intervals_and_marks():
    rows = [
        row(rounds_mark="best", speedup_p=0.01, score_mark="level"),
        row(variant="fedprox", rounds_mark="level", censored=0, speedup=Ratio(0.9, 0.7, 1.1, "")),
        row(variant="fedavg", speedup=None, censored=1, score_mark="best"),
    ]
    best, level, other = check(as_latex(rows, "digits"), 3)[1:]
    assert best[1].strip() == r"\textbf{12.0$\pm$2.0}"
    assert best[3].strip() == r"1.25$\times$ [1.10, 1.42]$^{*}$"
    assert best[4].strip() == r"\underline{96.00$\pm$1.00}"
    assert level[1].strip() == r"\underline{12.0$\pm$2.0}"
    assert level[3].strip() == r"0.90$\times$ [0.70, 1.10]"
    assert other[1].strip() == r"$>$12.0$\pm$2.0"
    assert other[3].strip() == "--"
    assert other[4].strip() == r"\textbf{96.00$\pm$1.00}"


def test_the_caption_says_the_rule_and_only_if_something_is_marked():
    marked = as_latex([row(rounds_mark="best", speedup_p=0.01), row(variant="b", rounds_mark="level")], "digits, mlp")
    caption = re.search(r"\\caption\{(.*)\}\n", marked)[1]
    assert caption.startswith("digits, mlp. Mean $\\pm$ standard deviation over trials.")
    for part in ("Bold: the best, underlined: not significantly worse", "*: a speed-up told from 1", "5 \\%",
                 "Holm's correction", "Student's t test on pairs of a seed", "$^{\\circ}$"):  # fmt: skip
        assert (part in caption) == (part != "$^{\\circ}$")
    assert "Holm" not in as_latex([row(), row(variant="b")], "digits")


def test_letters_that_pdflatex_lacks_are_told():
    for name, told in {"Größe μ ± Ωψ": False, "方法": True, "łódź": True, "«x»": True}.items():
        assert ("lualatex" in as_latex([row(variant=name)], "x").splitlines()[0]) is told


def test_without_a_target_deviation_or_costs():
    bare = row(variant="x", trials=1, target=None, rounds=estimate([5.0]), speedup=None, gflops=None, final_score=None)
    (cells,) = check(as_latex([bare], "t"), 1)[1:]
    assert [cell.strip() for cell in cells[1:4]] == ["no target", "--", "--"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs a LaTeX: apt-get install texlive-latex-recommended")
def test_a_real_latex_sets_it(tmp_path):
    tables = "\n".join(
        as_latex([row(variant=name, rounds_mark="best", speedup_p=0.01), row(variant="b", rounds_mark="level")], name)
        for name in EVIL
    )
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "paper.tex").write_text(f"{head}{tables}\\clearpage\n\\end{{document}}\n", encoding="utf-8")
    ended = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:]
    assert (tmp_path / "paper.pdf").is_file()
