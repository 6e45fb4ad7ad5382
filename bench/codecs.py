"""What a codec costs in time: `python -m bench.codecs [--quick]`. Nothing else should run meanwhile.

Encoding and decoding one vector as long as the paper's CNN, and one as long as McMahan's, on one thread, all codecs in
turns; with error feedback encoding decodes too. Beside them the bytes, and what a server needs for the uploads of a
round of ten clients. The measure is a client's training of the CNN on 600 samples, in the same turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch

from bench.cases import CASES
from bench.intervals import Interval, ratios
from bench.turns import Work, interleaved
from fedtrip.codecs.interface import Codec
from fedtrip.engines.serial import SerialEngine
from fedtrip.families import UPLOAD_CODEC
from fedtrip.methods.interface import Memory
from fedtrip.one_thread import one_thread
from fedtrip.randomness import normals, stream
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job

SIZES = {"CNN": 61_706, "McMahan's CNN": 1_663_370}
QUICK = {"tiny": 5_000}
CODECS = (
    "int8", "int4", "int:4:256", "qsgd:7:512", "sign", "topk:0.1", "topk:0.01", "randk:0.1", "randk:0.01", "eden:1",
    "eden:2", "eden:4",
)  # fmt: skip
TURNS, PER_ROUND = 15, 10


def works(codec: Codec, x: torch.Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """Encoding a vector as a client does, and decoding it as the server does."""
    received, upload = {"w": torch.zeros_like(x)}, {"w": x}

    def drawn(name: str) -> np.random.Generator:
        return stream(0, f"codec {name}", 1)

    payload, kept = codec.encode(upload, received, {}, drawn)
    return (
        lambda: codec.encode(upload, received, kept, drawn),
        lambda: codec.decode(payload, received, upload, drawn),
    )


def training() -> Callable[[], object]:
    """One client's round with the CNN."""
    federation = CASES["cnn"].federation()
    engine, received = SerialEngine(federation), initial_state(federation, ClientStore()).server.model
    return lambda: list(engine.work([Job(0, 1, 0, received, Memory())]))


def measure(name: str, d: int, turns: int) -> None:
    """Print a line for each codec."""
    x = torch.from_numpy((0.01 * normals(stream(0, "bench"), d)).astype(np.float32))
    made = {text: UPLOAD_CODEC.make(text) for text in CODECS}
    todo = {"training": Work(training())}
    for text, codec in made.items():
        encode, decode = works(codec, x)
        todo |= {f"{text} encode": Work(encode, 3), f"{text} decode": Work(decode, 3)}
    seconds = interleaved(todo, turns)
    print(f"{name}: {d:,} numbers, {4 * d:,} bytes")
    print(
        "codec        bytes      encode, ms            decode, ms            server, 10 uploads, ms   of the training"
    )
    for text, codec in made.items():
        encoding, decoding = (Interval.of([1e3 * s for s in seconds[f"{text} {way}"]]) for way in ("encode", "decode"))
        share = Interval.of(ratios(seconds[f"{text} encode"], seconds["training"]))
        print(
            f"{text:12} {codec.length(d):<10,} {_shown(encoding):21} {_shown(decoding):21} "
            f"{PER_ROUND * decoding.median:<24.2f} {100 * share.median:.1f} %",
            flush=True,
        )


def _shown(found: Interval) -> str:
    return f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]"


def main() -> None:
    """Measure all codecs on both lengths."""
    parser = argparse.ArgumentParser(prog="python -m bench.codecs", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="a short vector, one turn: only to see that it runs")
    quick = parser.parse_args().quick
    with one_thread():
        for name, d in (QUICK if quick else SIZES).items():
            measure(name, d, 1 if quick else TURNS)


if __name__ == "__main__":
    main()
