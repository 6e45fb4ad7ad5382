"""The notebook of examples/: it runs, what it shows is what it shows today, and the documentation has it as it is."""

from __future__ import annotations

import ast
import base64
import copy
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from tools.notebook import NOTEBOOK, PAGE, PICTURES, code_cells, executed, page_of, read, run_cells, source_of

from fedtrip.native.library import library


def texts(notebook: dict[str, object]) -> list[str]:
    """What the cells show, without pictures: they depend on the fonts of a machine."""
    shown = [json.dumps(cell["outputs"], ensure_ascii=False) for cell in code_cells(notebook)]
    return [re.sub(r'iVBOR[^"\\]*', "picture", text) for text in shown]


@pytest.mark.slow
def test_every_cell_shows_today_what_it_shows_in_the_file(tmp_path: Path) -> None:
    if library() is None:
        pytest.skip("torch alone gives other bits than the native library")
    stored = read()
    again = executed(copy.deepcopy(stored), tmp_path)
    assert texts(again) == texts(stored), "python -m tools.notebook writes it again"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None or find_spec("ipykernel") is None, reason="needs nbclient, ipykernel")
def test_it_runs_in_a_kernel_of_jupyter(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_it_is_a_notebook_that_was_run_from_top_to_bottom() -> None:
    notebook = read()
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(re.fullmatch(r"[\w-]{1,64}", cell["id"]) for cell in cells)
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    for cell in cells:
        wanted = {"cell_type", "id", "metadata", "source"}
        assert set(cell) == (wanted | {"outputs", "execution_count"} if cell["cell_type"] == "code" else wanted)
    for cell in code_cells(notebook):
        ast.parse(source_of(cell))
        assert all(output["output_type"] in ("stream", "execute_result") for output in cell["outputs"])


def test_it_shows_tables_curves_and_a_decision_and_knows_no_machine() -> None:
    notebook = read()
    kinds = {kind for cell in code_cells(notebook) for output in cell["outputs"] for kind in output.get("data", {})}
    assert {"text/plain", "text/html"} <= kinds
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert "chosen: " in text
    assert "data:image/png;base64," in text
    assert not re.findall(r"/(?:work|tmp|home|root|opt)/", text)


def test_the_page_is_the_notebook() -> None:
    page, pictures = page_of(read())
    assert PAGE.read_text(encoding="utf-8") == page
    assert {path.name: path.read_bytes() for path in PICTURES.iterdir()} == pictures
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert pictures


def test_links_lead_somewhere_from_the_notebook_too() -> None:
    for cell in read()["cells"]:
        if cell["cell_type"] == "markdown":
            for target in re.findall(r"\]\(([^)\s]+)\)", source_of(cell)):
                assert (NOTEBOOK.parent / target).is_file(), target


def test_cells_share_a_namespace_and_show_their_last_line(tmp_path: Path) -> None:
    shown = run_cells(["x = 1\nprint('said')", "x + 1", "x;", "class Picture:\n    def _repr_png_(self):\n"
                       "        return b'png'", "Picture()"], tmp_path)  # fmt: skip
    assert [one["printed"] for one in shown] == ["said\n", "", "", "", ""]
    assert shown[1]["shown"] == {"text/plain": "2"}
    assert base64.b64decode(shown[4]["shown"]["image/png"]) == b"png"


def test_a_cell_that_fails_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_cells(["x = 0", "1 / x"], tmp_path)
