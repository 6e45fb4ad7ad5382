"""What an answer takes on Flower's wire: the payloads, byte for byte, and a framing of which every part has a name."""

from collections import Counter
from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from tests.flower.test_coded_uploads import CLIENTS, NearGrid, engine_of, federation_of, identity  # noqa: F401

from fedtrip.flower.records import outcome_content, serialised_size
from fedtrip.methods.interface import Memory
from fedtrip.one_thread import one_thread
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job

HEAD_ENDS = b"\x00"
"""what Flower puts between the head of an object (its type, its children's digests, its length) and its body"""


def parts_of(content):
    """The bytes of everything that Flower sends of a message's content, by what they are, and the vectors' own."""
    counted, vectors = Counter(), []

    def look(node):
        head, body = node.deflate().split(HEAD_ENDS, 1)
        counted["heads of objects"] += len(head) + len(HEAD_ENDS)
        kind = type(node).__name__
        if kind == "ArrayChunk":
            stream = BytesIO(body)
            np.lib.format.read_magic(stream)
            np.lib.format.read_array_header_1_0(stream)
            counted["headers of NumPy"] += stream.tell()
            vectors.append(body[stream.tell() :])
            counted["vectors"] += len(vectors[-1])
        else:
            counted[{"ConfigRecord": "description"}.get(kind, "names, types and digests")] += len(body)
        for child in (node.children or {}).values():
            look(child)

    look(content)
    return counted, vectors


def answers(tmp_path, **rules):
    """The outcomes of one round on the grid, and what their nodes sent."""
    sent = {}

    def seen(outcome):
        sent[outcome.client] = outcome
        return outcome

    federation = federation_of(**rules)
    server = initial_state(federation, ClientStore()).server
    broadcast = {name: vector.float() for name, vector in federation.method.broadcast(server).items()}
    jobs = [Job(client, 1, 0, broadcast, Memory()) for client in range(CLIENTS)]
    with one_thread():
        outcomes = list(engine_of(federation, NearGrid(tmp_path, seen)).work(jobs))
    return outcomes, sent


@pytest.mark.parametrize("method", ["fedtrip", "scaffold"])
def test_the_wire_carries_the_payloads_and_a_framing_that_is_named(method, tmp_path):
    framings = {}
    for codec in ("none", "int8", "eden:1", "topk:0.01"):
        outcomes, sent = answers(tmp_path / codec.replace(":", "-"), method=method, upload_codec=codec)
        for outcome in outcomes:
            bytes_up = sum(v.nbytes for v in outcome.upload.values())
            content = outcome_content(sent[outcome.client])
            counted, vectors = parts_of(content)
            assert sorted(vectors) == sorted(v.numpy().tobytes() for v in outcome.upload.values())
            assert counted["vectors"] == bytes_up
            assert counted.total() == serialised_size(content) == outcome.wire_up
            assert counted["headers of NumPy"] == 128 * len(outcome.upload)
            framings[codec, outcome.client] = counted.total() - bytes_up
    # the same for all codecs, but for the digits of sizes and of counted operations
    assert max(framings.values()) - min(framings.values()) <= 12 * len(outcomes[0].upload)
    assert max(framings.values()) < {"fedtrip": 900, "scaffold": 1500}[method]
