"""The page of `fedtrip watch`: the report's style and charts, with a script of its own that asks for news."""

from __future__ import annotations

from fedtrip._version import __version__
from fedtrip.report.inlined import asset, packed_plotly, policy, script, template

PACKAGE = "fedtrip.watch"


def page_and_policy() -> tuple[bytes, str]:
    """The page, and what a browser lets it do: beside the report's, ask this server for news, and be framed by nobody.

    It holds nothing of any run: all that comes later, as data, and is shown as text.
    """
    code = script("watch.js", PACKAGE)
    page: str = template("watch.html.j2", PACKAGE).render(
        fedtrip_version=__version__,
        style=asset("report.css") + asset("watch.css", PACKAGE),
        script=code,
        plotly=packed_plotly(),
    )
    return page.encode("utf-8"), policy(code, connect_src="'self'", frame_ancestors="'none'")
