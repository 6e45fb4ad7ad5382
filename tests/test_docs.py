"""The documentation is true: its code runs, its links lead somewhere, its tables agree with the code.

All blocks of a page run in order, in one folder and one Python process, so that they share a namespace. A block
preceded by `<!-- not run: reason -->` is left out; one preceded by `<!-- file: NAME -->` is written to that file.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from tools.rules_page import rule_table, with_tables

import fedtrip
from fedtrip.experiment.description import Experiment
from fedtrip.families import FAMILIES
from fedtrip.registry import Choice

ROOT = Path(__file__).parent.parent
# deploy.md starts a federation, which takes minutes: tests/flower/test_deploy_page.py runs it
RUN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*RUN, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LANGUAGES = ("python", "sh", "console")
DEMO_TAKES = "about 20 seconds on two cores"
LONGEST = 300  # seconds for a page, on a machine that is busy with something else

DRIVER = """
import json, subprocess, sys
from pathlib import Path

sys.path.insert(0, "")
for block in json.loads(sys.stdin.read()):
    where = f"{block['page']}, line {block['line']}"
    print(f"--- {where} ({block['language']})", file=sys.stderr, flush=True)
    if block["file"]:
        Path(block["file"]).write_text(block["text"], encoding="utf-8")
    elif block["language"] == "python":
        exec(compile("\\n" * block["line"] + block["text"], block["page"], "exec"), globals())
    else:
        code = subprocess.run(["bash", "-e", "-u", "-o", "pipefail", "-c", block["text"]], stdin=subprocess.DEVNULL)
        if code.returncode:
            sys.exit(f"{where}: exit code {code.returncode}")
    sys.stdout.flush()
"""
"""Runs the blocks it reads from stdin; a traceback shows the page and the line in it."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is the line of its fence, from 1."""

    page: str
    line: int
    language: str
    text: str
    file: str | None
    skipped: str | None
    """why it is not run"""


def blocks_of(page: str, text: str) -> list[Block]:
    """Every fenced block that has a language, with the comment directly before it."""
    blocks, lines = [], text.splitlines()
    number = 0
    while number < len(lines):
        fence = re.fullmatch(r"```(\S*)", lines[number])
        if fence is None:
            number += 1
            continue
        end = lines.index("```", number + 1)
        before = lines[number - 1] if number else ""
        told = re.fullmatch(r"<!-- (file|not run): (.+) -->", before)
        assert told or not before.startswith("<!--"), f"{page}, line {number}: unknown comment {before}"
        what, value = told.groups() if told else ("", "")
        body = "\n".join(lines[number + 1 : end]) + "\n"
        if fence[1] == "console":
            body = commands_of(body)
        blocks.append(
            Block(page, number + 1, fence[1], body, value if what == "file" else None, value if "not" in what else None)
        )
        number = end + 1
    return blocks


def commands_of(console: str) -> str:
    """The lines of a console block that were typed: `$ command`, going on after a backslash; the rest is output."""
    typed, goes_on = [], False
    for line in console.splitlines():
        if goes_on or line.startswith("$ "):
            typed.append(line if goes_on else line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return "\n".join(typed) + "\n"


def run_blocks(blocks: list[Block], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run blocks as a reader would: in an empty folder, this environment's `fedtrip` first on the path."""
    environment = {name: value for name, value in os.environ.items() if name != "FEDTRIP_DATA"}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "100",
    }
    work = folder / "work"
    work.mkdir()
    return subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([asdict(block) for block in blocks]),
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


@pytest.fixture(scope="module")
def pages_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Path, Future[subprocess.CompletedProcess[str]]]]:
    """The selected pages, run two at a time: most of a page's time is the start of one program after the other."""
    selected = [item for item in request.session.items if getattr(item, "originalname", "") == "test_every_block_runs"]
    pages = [item.callspec.params["page"] for item in selected]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(2) as pool:
        yield {page: pool.submit(run_blocks, blocks_to_run(page), tmp_path_factory.mktemp(page.stem)) for page in pages}


def blocks_to_run(page: Path) -> list[Block]:
    blocks = blocks_of(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    return [block for block in blocks if block.skipped is None and (block.file or block.language in LANGUAGES)]


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in RUN if p.name != "deploy.md"], ids=lambda page: page.name)
def test_every_block_runs(page: Path, pages_run: dict[Path, Future[subprocess.CompletedProcess[str]]]) -> None:
    ended = pages_run[page].result()
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_block_has_a_known_language(page: Path) -> None:
    for block in blocks_of(page.name, page.read_text(encoding="utf-8")):
        assert block.language in (*LANGUAGES, "text", "toml"), f"{page.name}, line {block.line}: {block.language!r}"
        assert block.language != "toml" or block.file, f"{page.name}, line {block.line}: TOML that nothing reads"


def test_a_page_whose_code_fails_is_found_out(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n\n```python\nassert x == 1\nassert x == 2\n```\n"
    for number, (text, told) in enumerate(
        [
            (page, 'File "a.md", line 7'),
            ("```sh\nfalse | true\necho done\n```\n", "a.md, line 1: exit code 1"),
            ("```console\n$ exit 3\nwhat it prints\n```\n", "a.md, line 1: exit code 3"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = run_blocks(blocks_of("a.md", text), folder)
        assert ended.returncode != 0
        assert told in ended.stderr


def test_blocks_share_a_folder_and_a_namespace(tmp_path: Path) -> None:
    page = "<!-- file: a.py -->\n```python\nx = 2\n```\n```python\nimport a\ny = a.x\n```\n"
    page += "```console\n$ echo 2 \\\n  > b\nno command\n```\n```python\nassert open('b').read() == f'{y}\\n'\n```\n"
    page += "<!-- not run: it would fail -->\n```sh\nfalse\n```\n"
    blocks = blocks_of("a.md", page)
    assert [block.skipped for block in blocks] == [None, None, None, None, "it would fail"]
    ended = run_blocks(blocks[:-1], tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\[[^\]]+\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_file(), f"{page.name}: {target}"
        assert linked.is_relative_to(ROOT), f"{page.name}: {target}"
        assert not anchor or anchor in anchors_of(linked), f"{page.name}: {target}"


def prose_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted(ROOT.glob("results/*/*.md"))], ids=lambda page: f"{page.relative_to(ROOT)}"
)
def test_every_row_of_a_table_has_as_many_cells_as_its_header(page: Path) -> None:
    for first, second in pairwise(prose_of(page).splitlines()):
        if first.startswith("|") and second.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", second)) == len(re.findall(r"(?<!\\)\|", first)), second


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_names_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_knows_a_machine(page: Path) -> None:
    found = re.findall(r"/(?:work|tmp|home|root|opt)/\S*", page.read_text(encoding="utf-8"))
    assert not found


def test_the_readme_and_the_help_say_the_same_about_how_long_a_comparison_takes() -> None:
    from fedtrip.cli.compare import compare

    for text in ((ROOT / "README.md").read_text(encoding="utf-8"), compare.__doc__ or ""):
        assert re.findall(r"about [\w ]*?(?:minute|second)s?[\w ]*? cores", " ".join(text.split())) == [DEMO_TAKES]


def test_every_field_of_an_experiment_is_explained_with_its_default() -> None:
    rows = table_rows((ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").split("\n## ")[1])
    fields = Experiment.model_fields
    assert list(rows) == list(fields)
    for name, field in fields.items():
        default = field.default.as_toml() if isinstance(field.default, Choice) else field.default
        shown = rows[name][0]
        if default is None:  # it depends on other fields: said in words
            assert shown
            assert not shown.startswith("`")
        else:
            assert shown == f"`{json.dumps(default)}`", name


@pytest.mark.parametrize("field", FAMILIES)
def test_the_page_of_rules_has_every_rule_as_its_class_explains_it(field: str) -> None:
    """`python -m tools.rules_page` writes the tables again."""
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    family = FAMILIES[field]
    section = next((part for part in page.split("\n## ") if part.startswith(f"{field}\n")), "")
    assert rule_table(family) in section
    assert f"`{family.folder}/`" in section
    assert with_tables(page) == page


def test_the_api_page_names_what_is_there() -> None:
    for name in re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_the_api_page_names_everything_that_is_public() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    assert set(fedtrip.__all__) - {"__version__", "Vectors", "Correction"} <= shown


def test_what_is_to_be_touched_for_a_change_is_one_place() -> None:
    """CONTRIBUTING's table: one file for the thing itself, and every place it names is there."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## To change X")[1].split("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in section.splitlines() if line.startswith("| a")]
    things = [row[0].strip() for row in rows]
    assert things == [
        "a method", "a task", "a metric", "an optimizer", "a schedule", "a selection", "a codec", "a combining rule",
        "a server optimizer", "an attack", "a partition", "a data set", "a model",
    ]  # fmt: skip
    for row in rows:
        (place,) = re.findall(r"`(src/[^`]+)`", row[1])
        assert (ROOT / place.replace("NAME.py", "")).exists(), place


def test_no_word_of_the_glossary_is_explained_twice_and_all_are_in_order() -> None:
    words = re.findall(r"^\*\*([^*]+)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert words == sorted(set(words), key=str.lower)
    for word in (
        "archive", "client", "client's device", "codec", "combining rule", "comparison", "data archive", "engine",
        "exchange", "job", "layout", "memory", "part", "payload", "push", "record", "round", "server optimizer",
        "task", "travel", "trial", "upload", "variant", "worker",
    ):  # fmt: skip
        assert word in words


def table_rows(text: str) -> dict[str, list[str]]:
    """Every table row that begins with one name in backticks: the name, and the other cells."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("| `") and re.fullmatch(r"`[\w-]+`", cells[0]):
            rows[cells[0].strip("`")] = cells[1:]
    return rows
