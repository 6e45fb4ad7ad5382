"""Wrong variants of the codecs: the ordinary tests of each find them out."""

import math

import numpy as np
import pytest
import torch
from tests.codecs import test_codecs, test_eden, test_quantised, test_randk

from fedtrip.codecs import _integers, eden, qsgd, sign
from fedtrip.codecs.eden import Eden
from fedtrip.codecs.interface import Codec
from fedtrip.codecs.randk import RandK
from fedtrip.codecs.sign import Sign


def half(_rng, d):
    return np.full(d, 0.5)


def high_first(d, bits, codes):
    rows = np.unpackbits(codes(slice(0, d))[:, None], axis=1, bitorder="big")[:, -bits:]
    return np.packbits(rows.reshape(-1), bitorder="big")


def of_the_whole(x, block):
    """in_blocks whose every block has the largest number of all."""
    rows = RIGHT_BLOCKS(x, block)
    return np.broadcast_to(np.abs(x).max(initial=0), rows.shape)


def minus_for_zero(self, x, rng):
    return RIGHT_SIGNS(self, torch.where(x == 0, -torch.finfo().tiny, x), rng)


def without_factor(self, payload, d, rng):
    result = torch.zeros(d)
    result[self.places(d, rng)] = torch.from_numpy(payload.numpy().view(np.float32).copy())
    return result


def least_error(self, x, rng):
    """EDEN with the scale that makes the error least, 2/π of the one that is right in the mean (one bit)."""
    payload = RIGHT_EDEN(self, x, rng)
    scale = payload[:4].numpy().view(np.float32) * np.float32(2 / math.pi)
    return torch.cat([torch.from_numpy(scale.view(np.uint8).copy()), payload[4:]])


def silent(self, upload, reference, kept, stream_of):
    quiet = {name: torch.nan_to_num(v, posinf=0.0, neginf=0.0) for name, v in upload.items()}
    return RIGHT_ENCODE(self, quiet, reference, kept, stream_of)


def one_stream(self, upload, reference, kept, stream_of):
    return RIGHT_ENCODE(self, upload, reference, kept, lambda _name: stream_of("w"))


RIGHT_BLOCKS, RIGHT_SIGNS, RIGHT_EDEN, RIGHT_ENCODE = _integers.in_blocks, Sign.pack, Eden.pack, Codec.encode
RIGHT_TURN = eden.hadamard


def mean_of(rule):
    return lambda: test_codecs.test_the_mean_of_many_draws_is_the_vector(rule)


QSGD, SIGN = test_quantised.test_qsgd_by_hand, test_quantised.test_sign_by_hand
VARIANTS = {
    "int4 high half first": (_integers, "packed", high_first, test_quantised.test_int4_by_hand),
    "int4 to the nearest": (_integers, "uniforms", half, mean_of("int4")),
    "one scale for all blocks": (_integers, "in_blocks", of_the_whole, test_quantised.test_int_in_blocks_by_hand),
    "qsgd to the nearest": (qsgd, "uniforms", half, mean_of("qsgd:7")),
    "qsgd of the largest number": (qsgd, "row_dots", lambda a, b: (a * b).amax(1).double(), QSGD),
    "qsgd's squares in float32": (
        qsgd,
        "row_dots",
        lambda a, b: (a * b).sum(1).double(),
        lambda: test_codecs.test_huge_and_tiny_vectors_are_coded_as_their_multiples("qsgd:7", 100),
    ),
    "sign(0) = −": (Sign, "pack", minus_for_zero, SIGN),
    "signs of the largest size": (sign, "total", lambda x: float(x.amax()) * x.numel(), SIGN),
    "sign without feedback": (
        Sign,
        "keeps_error",
        property(lambda _: False),
        test_codecs.test_every_codec_is_tested,
    ),
    "randk without d/k": (RandK, "unpack", without_factor, mean_of("randk:0.1")),
    "randk of the first ones": (
        RandK,
        "places",
        lambda self, d, _rng: np.arange(self.count(d)),
        test_randk.test_every_place_is_drawn_equally_often,
    ),
    "eden without signs": (
        eden,
        "_signs",
        lambda _rng, count: np.ones(count),
        lambda: test_eden.test_it_is_the_formulas(1, 64),
    ),
    "eden without √n": (eden, "hadamard", lambda x: RIGHT_TURN(x) * math.sqrt(len(x)), test_eden.test_by_hand),
    "eden of least error": (Eden, "pack", least_error, test_eden.test_by_hand),
    "evenly spaced points": (
        eden,
        "UPPER_POINTS",
        {**eden.UPPER_POINTS, 2: (0.5, 1.5)},
        lambda: test_eden.test_the_points_are_the_means_of_their_cells(2),
    ),
    "what is not finite made 0": (
        Codec,
        "encode",
        silent,
        lambda: test_codecs.test_what_is_not_finite_is_refused_wherever_it_stands("eden:2", math.nan),
    ),
    "all vectors with the same draws": (
        Codec,
        "encode",
        one_stream,
        lambda: test_codecs.test_each_vector_is_coded_with_its_own_draws_and_its_own_residual("randk:0.1"),
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_found_out(name, monkeypatch):
    owner, attribute, wrong, test = VARIANTS[name]
    test()
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises((AssertionError, ValueError)):
        test()
