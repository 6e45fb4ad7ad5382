"""The tables of docs/codecs.md: what each codec sends (from the classes), and what it took (from what is stored)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedtrip.comparison.tables import interval, markdown_row
from fedtrip.families import UPLOAD_CODEC
from fedtrip.files.atomic import write_text
from fedtrip.statistics import Ratio, estimate, paired_ratio
from tools.codec_table import METHODS, ROOT, Run, stored
from tools.evidence_page import between

PAGE = ROOT / "docs" / "codecs.md"
MLP = 79_510
"""parameters of the paper's MLP"""
SHOWN = ("none", "int8", "int4", "int:4:256", "int:2:256", "qsgd:7:512", "qsgd:1:512", "sign", "topk:0.1", "topk:0.01",
         "randk:0.1", "randk:0.01", "eden:1", "eden:2", "eden:4")  # fmt: skip
UNBIASED = {
    "none": "exact", "int8": "yes", "int4": "yes", "int": "yes", "qsgd": "yes", "randk": "yes, without feedback",
    "eden": "nearly", "sign": "no", "topk": "no",
}  # fmt: skip
"""What tests/codecs sees in the mean of many draws."""
AIM = 10.0
"""How many times less FedTrip is to send until its target."""
NOT_YET = "Not measured yet: `python -m tools.codec_table`."


def sizes() -> str:
    """What a client sends of the MLP, keeps and computes, by codec."""
    lines = [["codec", "bytes of the MLP", "of float32", "right in the mean", "error feedback",
              "multiply-adds a number, client + server"], ["---"] * 6]  # fmt: skip
    upload = {"w": torch.zeros(MLP)}
    for text in SHOWN:
        codec, name = UPLOAD_CODEC.make(text), text.partition(":")[0]
        size = 4 * MLP if codec.is_identity else codec.length(MLP)
        feedback = getattr(codec, "feedback", None)
        told = "–" if feedback is None else "by default" if feedback else "on demand"
        client, server = codec.client_operations(upload) // MLP, codec.server_operations(upload) // MLP
        lines.append(
            [f"`{text}`", f"{size:,}", f"1/{4 * MLP / size:.1f}" if size < 4 * MLP else "1", UNBIASED[name], told,
             f"{client} + {server}"]
        )  # fmt: skip
    return "\n".join(map(markdown_row, lines))


def ratio_of(base: Sequence[Run], other: Sequence[Run], what: str) -> Ratio | None:
    """What the first runs took over what the others took, paired by seed."""
    common = {run.seed: run for run in base}
    pairs = [(common[run.seed], run) for run in other if run.seed in common]
    if not pairs:
        return None
    return paired_ratio(
        [float(getattr(b, what)) for b, _ in pairs],
        [float(getattr(o, what)) for _, o in pairs],
        [not b.reached for b, _ in pairs],
        [not o.reached for _, o in pairs],
    )


def meets_aim(upload: Ratio | None, rounds: Ratio | None) -> bool:
    """A tenth of the upload, and rounds of which it cannot be told that they are more."""
    if upload is None or rounds is None or upload.bound or upload.mean < AIM:
        return False
    return rounds.high is not None and rounds.high >= 1


def verdict(runs: Sequence[Run], method: str) -> str:
    """Which codecs meet the aim with a method."""
    by_codec = _by_codec(runs, method)
    base = by_codec.get("none", [])
    good = [
        f"`{codec}`"
        for codec, own in by_codec.items()
        if meets_aim(ratio_of(base, own, "bytes_up"), ratio_of(base, own, "rounds"))
    ]
    told = "At most a tenth of the upload, in rounds that are fewer or not told apart from those of `none`"
    return f"{told}: {', '.join(good) or 'none of them'}."


def _by_codec(runs: Sequence[Run], method: str) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.method == method:
            found.setdefault(run.codec, []).append(run)
    return found


def table(runs: Sequence[Run], method: str) -> str:
    """The codecs with one method, the least upload to target first; bold is a codec that meets the aim."""
    by_codec = _by_codec(runs, method)
    base = by_codec.get("none", [])
    lines = [["codec", "rounds to target", "reached", "upload MB to target", "MB both ways", "times less upload [95 %]",
              "rounds, none's over its own [95 %]"], ["---"] * 7]  # fmt: skip
    found = []
    for codec, own in by_codec.items():
        upload, rounds = (ratio_of(base, own, what) if codec != "none" else None for what in ("bytes_up", "rounds"))
        mean, reached = estimate([run.bytes_up / 1e6 for run in own]), sum(run.reached for run in own)
        both = estimate([(run.bytes_up + run.bytes_down) / 1e6 for run in own])
        bound, name = ">" if reached < len(own) else "", f"`{codec}`"
        found.append((reached < len(own), mean.mean, [
            f"**{name}**" if meets_aim(upload, rounds) else name,
            bound + _spread([float(run.rounds) for run in own], 1), f"{reached}/{len(own)}", f"{bound}{mean.mean:.2f}",
            f"{bound}{both.mean:.2f}", interval(upload), interval(rounds),
        ]))  # fmt: skip
    lines += [cells for _, _, cells in sorted(found, key=lambda one: one[:2])]
    return "\n".join(map(markdown_row, lines))


def _spread(values: Sequence[float], digits: int) -> str:
    known = estimate(values)
    return f"{known.mean:.{digits}f}" + ("" if known.std is None else f"±{known.std:.{digits}f}")


def tables(runs: Sequence[Run]) -> str:
    """One for each method, or that nothing was measured."""
    if not runs:
        return NOT_YET
    parts = [
        f"### {method}\n\n{verdict(runs, method)}\n\n{table(runs, method)}"
        for method in METHODS
        if any(run.method == method for run in runs)
    ]
    seeds, minutes = sorted({run.seed for run in runs}), sum(run.seconds for run in runs) / 60
    told = f"{len(runs)} runs, seeds {seeds[0]} to {seeds[-1]}, {minutes:.0f} minutes of one core."
    return "\n\n".join([told, *parts])


def with_tables(page: str) -> str:
    """The page with both tables as they are now."""
    return between(between(page, "sizes", sizes()), "measured", tables(stored()))


def write() -> None:
    """docs/codecs.md again."""
    write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8")))
