"""Run the notebook of examples/ and write its outputs into it, and the page of the documentation that shows it.

    python -m tools.notebook

A notebook's cells are plain Python here: they run in one fresh process, in order, in an empty folder, and what a cell's
last line gives is shown as a notebook would, as text, HTML or a picture. So neither Jupyter nor a kernel is needed to
make sure that it runs; in Jupyter it opens and runs as any other.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "from_data_to_decision.ipynb"
PAGE = ROOT / "docs" / "notebook.md"
PICTURES = ROOT / "docs" / "notebook"
LONGEST = 300  # seconds, on a machine that is busy with something else

DRIVER = """
import sys as _sys
_sys.path.insert(0, "")

def _run(cell, names):
    import ast, base64, contextlib, io

    body = ast.parse(cell).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    shown = {} if value is None else {"text/plain": repr(value)}
    if value is not None:
        for kind, method in (("text/html", "_repr_html_"), ("image/png", "_repr_png_")):
            made = getattr(value, method)() if hasattr(value, method) else None
            if made is not None:
                shown[kind] = made if isinstance(made, str) else base64.b64encode(made).decode("ascii")
    return {"printed": printed.getvalue(), "shown": shown}

if __name__ == "__main__":
    import json as _json
    _made = [_run(cell, globals()) for cell in _json.load(_sys.stdin)]
    print(_json.dumps(_made))
"""


def run_cells(cells: list[str], folder: Path) -> list[dict[str, Any]]:
    """What each cell printed, and what its last line shows; raises if a cell does."""
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(cells),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    made: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return made


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    """The notebook's own form: JSON."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Its cells of code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source_of(cell: dict[str, Any]) -> str:
    """A cell's text."""
    return "".join(cell["source"])


def outputs_of(number: int, made: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell left, as a notebook stores it."""
    outputs: list[dict[str, Any]] = []
    if made["printed"]:
        text = made["printed"].splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if made["shown"]:
        data = {
            kind: content if kind.startswith("image/") else content.splitlines(keepends=True)
            for kind, content in made["shown"].items()
        }
        result = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
        outputs.append(result)
    return outputs


def executed(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs that its cells have now; paths of the folder it ran in are left out of them."""
    cells = code_cells(notebook)
    for number, (cell, made) in enumerate(zip(cells, run_cells([source_of(c) for c in cells], folder), strict=True), 1):
        plain = json.loads(json.dumps(made).replace(json.dumps(f"{folder.resolve()}/")[1:-1], ""))
        cell.update(execution_count=number, outputs=outputs_of(number, plain))
    return notebook


def page_of(notebook: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The notebook as a page of the documentation, and its pictures by name."""
    place = NOTEBOOK.relative_to(ROOT)
    parts, pictures = [f"<!-- written by `python -m tools.notebook` from {place} -->"], {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = source_of(cell).replace("](../docs/", "](")
            parts.append(text.replace("This notebook", f"[This notebook](../{place})"))
            continue
        parts.append(f"```python\n{source_of(cell)}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
                continue
            data = output["data"]
            if "text/html" in data:
                text, found = _without_pictures("".join(data["text/html"]), cell["execution_count"])
                pictures.update(found)
                parts.append(text)
            elif "image/png" in data:
                name = f"cell-{cell['execution_count']}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![what the cell shows](notebook/{name})")
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def _without_pictures(shown: str, number: int) -> tuple[str, dict[str, bytes]]:
    """A piece of HTML in which pictures are files, and what they hold; styles are left to the page."""
    pictures = {}
    for place, found in enumerate(re.findall(r'<img alt="[^"]*" src="data:image/png;base64,([^"]*)">', shown)):
        name = f"cell-{number}{'' if not place else f'-{place}'}.png"
        pictures[name] = base64.b64decode(found)
        shown = re.sub(r'<img alt="([^"]*)" src="data:[^"]*">', rf"\n\n![\1](notebook/{name})", shown, count=1)
    shown = re.sub(r' (style|border|class)="[^"]*"', "", shown)
    shown = re.sub(r"<style.*?</style>", "", shown, flags=re.DOTALL)
    shown = re.sub(r"</?div>", "", shown).replace("<p>", "\n\n").replace("</p>", "").replace("<br>", " ")
    shown = re.sub(r"<strong>(.*?)</strong>", r"**\1**\n\n", shown)
    return "\n".join(line for line in shown.strip().splitlines()), pictures


def main() -> None:
    """Write notebook, page and pictures."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(read(), Path(folder))
    write(notebook)


def write(notebook: dict[str, Any]) -> None:
    """Write the notebook, its page and its pictures."""
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page, pictures = page_of(notebook)
    PAGE.write_text(page, encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    for name, content in pictures.items():
        (PICTURES / name).write_bytes(content)


if __name__ == "__main__":
    main()
