"""What a page brings along: its scripts, its style, Plotly, and the policy that lets a browser run these alone."""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib import resources
from typing import Any

SHARED = "fedtrip.report"
"""The package whose assets other pages use too."""


def asset(name: str, package: str = SHARED) -> str:
    """The text of a file in a package's folder `assets`."""
    return resources.files(package).joinpath("assets", name).read_text(encoding="utf-8")


def script(name: str, package: str = SHARED) -> str:
    """A page's script, after what all pages share."""
    return asset("charts.js") + asset(name, package)


@cache
def template(name: str, package: str = SHARED) -> Any:
    """A page's template, in which every text is escaped unless it says that it is safe."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(asset(name, package))


def policy(script: str, **further: str) -> str:
    """What a browser lets the page do: run its two scripts and show itself, and nothing that comes from anywhere.

    Plotly writes styles into its elements, which no digest can allow; a style cannot run anything. `further` allows
    more, such as `connect_src="'self'"`.
    """
    digests = " ".join(f"'sha256-{_digest(source)}'" for source in (script.encode(), _plotly()))
    allowed = {
        "default-src": "'none'",
        "script-src": digests,
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **{kind.replace("_", "-"): sources for kind, sources in further.items()},
    }
    return "; ".join(f"{kind} {sources}" for kind, sources in allowed.items())


@cache
def packed_plotly() -> str:
    """plotly.js, compressed: 2 MB instead of 5 in every page; the page's script unpacks it."""
    return base64.b64encode(gzip.compress(_plotly(), mtime=0)).decode("ascii")


def _digest(source: bytes) -> str:
    return base64.b64encode(hashlib.sha256(source).digest()).decode("ascii")


@cache
def _plotly() -> bytes:
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
