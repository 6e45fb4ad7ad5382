"""What `make docs` does beside rendering: the order of the pages, and links that work here and in the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FROM_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that lie beside the code, and what they are called here."""
ORDER: dict[str, dict[str, str]] = {
    "Start": {
        "Overview": "index.md",
        "Five minutes": "start.md",
        "A notebook": "notebook.md",
        "The report": "report.md",
    },
    "Use it": {
        "Your own model and data": "own-model-and-data.md",
        "Tasks": "tasks.md",
        "Evaluation": "evaluation.md",
        "Adapters on a frozen model": "lora.md",
        "Fewer bytes": "codecs.md",
        "Choosing a method": "choosing.md",
        "Every method, measured": "evidence.md",
        "Tuning fairly": "tuning.md",
        "Adding a method": "add-a-method.md",
        "Recipes": "recipes.md",
        "Reliability": "reliability.md",
        "Deployment": "deploy.md",
    },
    "Look it up": {
        "Experiments, runs, comparisons": "experiments.md",
        "One rule of each family": "rules.md",
        "The methods": "methods.md",
        "Faults in other implementations": "audit.md",
        "The models": "models.md",
        "Costs": "costs.md",
        "Data": "data.md",
        "Reproducibility": "reproducibility.md",
        "Glossary": "glossary.md",
        "API": "api.md",
    },
    "The paper": {
        "How it was read": "reading.md",
        "Reproduction": "reproduction.md",
        "Which ξ?": "xi.md",
        "Why there is no FedMA": "fedma.md",
    },
    "The project": {"Contributing": "contributing.md", "Changelog": "changelog.md"},
}
FETCHED = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)|(!\[[^\]]*\])\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """The pages that are there, in their order; one that is missing here makes `--strict` fail."""
    config.nav = [
        {title: [{name: page} for name, page in pages.items() if _exists(page)]} for title, pages in ORDER.items()
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Take in the pages that lie beside the code."""
    for name, page in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the repository has them become links between pages; a file that is no page becomes its name."""
    folder = "" if page.file.src_uri in FROM_ROOT.values() else "docs"
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(lambda m: _link(m, folder), part) for part in parts)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Searching from files needs a small script, which the theme would fetch: here it lies with the pages."""
    above = "../" * page.url.count("/")
    return output.replace(FETCHED, f"{above}assets/iframe-worker/shim.js")


def _link(match: re.Match[str], folder: str) -> str:
    text, target, image, source = match.groups()
    if image is not None:
        return f"{image}({_here(source, folder) or source})"
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    here = _here(target, folder)
    return (
        f"[{text}]({here})" if here is not None else f"{text} (`{posixpath.normpath(posixpath.join(folder, target))}`)"
    )


def _here(target: str, folder: str) -> str | None:
    """The page or picture that a link of the repository means; None if it is neither."""
    path, hash_mark, anchor = target.partition("#")
    place = posixpath.normpath(posixpath.join(folder, path))
    if place in FROM_ROOT:
        return FROM_ROOT[place] + hash_mark + anchor
    return place.removeprefix("docs/") + hash_mark + anchor if place.startswith("docs/") else None


def _exists(page: str) -> bool:
    return page in FROM_ROOT.values() or (ROOT / "docs" / page).is_file()
