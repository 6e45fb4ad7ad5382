"""docs/methods.md is what the methods say of themselves, and its formulas can be typeset without a network."""

from __future__ import annotations

import dataclasses
import html
import inspect
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tools.methods_page as tool
from tests.test_docs import table_rows
from tools.methods_seen import in_words, layout, run_of, seen

from fedtrip.families import METHOD
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.interface import CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors

ROOT = Path(__file__).parent.parent
KATEX = ROOT / "docs" / "assets" / "katex"
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "ε": "varepsilon", "η": "eta", "θ": "theta", "λ": "lambda", "μ": "mu",
    "ξ": "xi", "ρ": "rho", "τ": "tau", "Δ": "Delta", "∇": "nabla",
}  # fmt: skip


@cache
def page() -> str:
    return tool.PAGE.read_text(encoding="utf-8")


def section(name: str) -> str:
    return next(part for part in re.split(r"\n##+ ", page()) if part.startswith(f"{name}\n"))


def classes() -> list[tuple[str, type[Method]]]:
    return [(name, METHOD.find(name)) for name in METHOD.names()]  # type: ignore[misc]


def test_the_page_is_what_the_tool_writes() -> None:
    """`python -m tools.methods_page` writes it again."""
    assert tool.page() == page()


@pytest.mark.parametrize(("name", "cls"), classes(), ids=METHOD.names())
def test_every_method_has_a_formula_and_a_group_of_its_own(name: str, cls: type[Method]) -> None:
    """An inherited formula would be that of another method."""
    assert "formula" in vars(cls)
    assert cls.group in tool.GROUPS
    assert tool.typeset(cls.formula) in section(name)


@pytest.mark.parametrize(("name", "cls"), classes(), ids=METHOD.names())
def test_the_formula_has_the_letters_of_the_docstring(name: str, cls: type[Method]) -> None:
    """What `fedtrip list` prints and what the page typesets cannot drift apart in their letters."""
    plain, tex = inspect.getdoc(cls) or "", re.sub(r"\\text\{[^}]*\}", "", cls.formula)
    in_tex = {letter for letter, word in GREEK.items() if re.search(rf"\\(var)?{word}(?![a-z])", tex)}
    assert {letter for letter in GREEK if letter in plain.splitlines()[0]} <= in_tex
    helps = " ".join(option.help for option in tool.explain_rule(METHOD, name).options)
    assert in_tex <= set(plain + helps + "∇η")  # the page explains these two for all


@pytest.mark.parametrize(("name", "cls"), classes(), ids=METHOD.names())
def test_every_option_of_a_method_is_explained_with_its_default(name: str, cls: Any) -> None:
    rows = table_rows(section(name))
    fields = {field.name: field.default for field in dataclasses.fields(cls) if field.init}
    assert list(rows) == list(fields)
    for option, default in fields.items():
        assert rows[option][0].split("; ")[0] == f"`{json.dumps(default)}`"
        assert all(rows[option])  # what is accepted, and what it means


def test_every_method_is_in_the_table_with_its_momentum_and_its_cost() -> None:
    lines = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \| (.+) \|$", page(), re.MULTILINE)
    assert {name for name, _ in lines} == set(METHOD.names())
    described = re.findall(r"^### (.+)$", page(), re.MULTILINE)
    assert [name for name, _ in lines] == described  # the table is in the order of the page
    for name, rest in lines:
        cells = re.split(r" (?<!\\)\| ", rest)
        method = METHOD.find(name)()
        attaching = method.attaching(CostSymbols(K=8, M=50, n=400, w=100, FP=100.0, BP=200.0))
        assert attaching is not None
        assert cells[0] == str(method.momentum)
        assert cells[6].replace("\\|", "|") == attaching.formula
        assert cells[7] == ("paper" if attaching.from_paper else "ours")


def test_what_is_seen_is_what_travels() -> None:
    scaffold = seen("scaffold")
    assert [set(sizes) for sizes in scaffold.down] == [{"w", "buffers", "counters", "c"}]
    assert [set(sizes) for sizes in scaffold.up] == [{"w", "buffers", "counters", "delta_c"}]
    assert set(scaffold.client) == {"c_k"}
    assert set(scaffold.server) == {"c"}
    assert scaffold.bytes_client == 4 * layout().size("w")
    assert "| sent up | `w`, `delta_c` |" in section("scaffold")
    assert [set(sizes) for sizes in seen("feddane").up] == [{"gradient"}, {"w", "buffers", "counters"}]
    assert "`w`, then `g_t`" in section("feddane")
    assert "| sent down | `w` (\\|body\\|) |" in section("fedper")
    assert "| a client keeps | `w` (\\|head\\|) | 4,040 |" in section("fedper")


@dataclass(frozen=True)
class KeepsMore(FedAvg):
    """FedAvg whose clients keep what they have no use for."""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:  # noqa: ARG002
        trained = local.train(received)
        return Reply(upload=trained, keep={"twice": trained["w"].repeat(2)})

    def kept(self, server: Server) -> Vectors:
        return {"twice": server.w.repeat(2)}


def test_a_vector_more_is_seen() -> None:
    found = run_of(KeepsMore())
    assert tool._kept(found) == "`twice` (2|w|)"
    assert found.bytes_client == 2 * 4 * layout().size("w")


def test_sizes_are_told_in_letters() -> None:
    assert [in_words(n) for n in (7710, 5 * 7710, 1010, 6700, 200, 7510, 3)] == [
        "|w|", "5|w|", "|head|", "|body|", "|norm layers|", "|w| − |norm layers|", "3",
    ]  # fmt: skip


def test_a_method_without_a_formula_or_with_a_row_that_is_none_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="empty"):
        tool.typeset("")
    with pytest.raises(AssertionError, match="what: TeX"):
        tool.typeset("step: g\nw \\leftarrow \\bar w")
    monkeypatch.delattr(METHOD.find("fedtrip-auto"), "formula")  # FedTrip's is left
    with pytest.raises(AssertionError, match="'fedtrip-auto' has no `formula` of its own"):
        tool.method_class("fedtrip-auto")
    monkeypatch.setattr(METHOD.find("fedavg"), "group", "others")
    with pytest.raises(AssertionError, match="`group` is 'others'; accepted: paper, server"):
        tool.method_class("fedavg")


def test_a_row_may_go_on_in_a_line_that_is_indented() -> None:
    assert "& a + b \\\\\n" in tool.typeset("\n    step: a\n        + b\n    server: w\n    ")


def test_indices_are_lowered_and_code_is_not() -> None:
    assert tool.lowered("w_k, β^K and `tau_eff`") == "w<sub>k</sub>, β<sup>K</sup> and `tau_eff`"


def test_the_site_has_all_that_it_typesets_with() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"assets/[\w./-]+\.(?:css|js)", settings)
    assert len(named) == 4
    for name in named:
        assert (ROOT / "docs" / name).is_file()
    style = (KATEX / "katex.min.css").read_text(encoding="utf-8")
    fonts = re.findall(r"url\(([^)]+)\)", style)
    assert {KATEX / font for font in fonts} == set((KATEX / "fonts").iterdir())
    assert "MIT" in (KATEX / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Chromium: apt-get install chromium chromium-driver"
)
def test_katex_typesets_every_formula_of_the_page(tmp_path: Path) -> None:
    displays = re.findall(r"^\$\$\n(.+?)\n\$\$$", page(), re.MULTILINE | re.DOTALL)
    inline = re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", page())
    assert len(displays) == len(METHOD.names())
    wrapped = [f"\\[{tex}\\]" for tex in displays] + [f"\\({tex}\\)" for tex in inline]
    body = "".join(f'<div class="arithmatex">{html.escape(tex)}</div>' for tex in wrapped)
    scripts = "".join(f'<script src="{(KATEX / name).as_uri()}"></script>' for name in ("katex.min.js", "render.js"))
    shown = tmp_path / "formulas.html"
    shown.write_text(f"<!doctype html><meta charset='utf-8'>{body}{scripts}", encoding="utf-8")
    with chromium() as driver:
        driver.get(shown.as_uri())
        assert driver.execute_script("return document.querySelectorAll('.katex-display').length") == len(displays)
        assert driver.execute_script("return document.querySelectorAll('.katex').length") == len(wrapped)
        refused = [tex for tex in [*displays, *inline, r"\nosuchthing"] if driver.execute_script(TYPESET, tex)]
    assert refused == [r"\nosuchthing"]


TYPESET = """
try { katex.renderToString(arguments[0], {throwOnError: true, strict: "error"}); return ""; }
catch (problem) { return String(problem); }
"""


@contextmanager
def chromium() -> Iterator[Any]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()
