"""int4, int in blocks, QSGD and sign: bytes by hand, bounds of the error, and payloads that lie."""

import math

import numpy as np
import pytest
import torch
from tests.reference.coding import made, payload_of, streams, there_and_back, vector

ONE = "0000803f"
"""1.0 as float32"""


def test_int4_by_hand():
    """σ = 1: whole numbers whatever was drawn. 7, −7, 0, 3, −1 are 7, 9, 0, 3, F in four bits, the first in the low."""
    x = torch.tensor([7.0, -7.0, 0.0, 3.0, -1.0])
    payload = payload_of(made("int4"), x)
    assert payload.numpy().tobytes().hex() == ONE + "97" + "30" + "0f"
    assert there_and_back(made("int4"), x).tolist() == x.tolist()


def test_int_in_blocks_by_hand():
    """Three bits, L = 3, blocks of two: σ = 1 and ¼, q = 3, −1, 3, −2, that is 011 111 011 110 with the lowest bit
    first, and so 11011111 0011 from the lowest bit of the first byte on."""
    x = torch.tensor([3.0, -1.0, 0.75, -0.5])
    payload = payload_of(made("int:3:2"), x)
    assert payload.numpy().tobytes().hex() == ONE + "0000803e" + "fb" + "0c"
    assert there_and_back(made("int:3:2"), x).tolist() == x.tolist()


def test_qsgd_by_hand():
    """‖x‖ = 5, s = 5: levels 3, −4, 0, sent as 5 more in four bits: 8, 1, 5."""
    x = torch.tensor([3.0, -4.0, 0.0])
    payload = payload_of(made("qsgd:5"), x)
    assert payload.numpy().tobytes().hex() == "0000a040" + "18" + "05"
    assert there_and_back(made("qsgd:5"), x).tolist() == x.tolist()


def test_sign_by_hand():
    """‖x‖₁/d = 18/9 = 2; +−+++−++ from the lowest bit on is DD, and one more +. Both zeros count as +."""
    x = torch.tensor([1.0, -2.0, 0.0, -0.0, 3.0, -1.0, 1.0, 1.0, 9.0])
    payload = payload_of(made("sign"), x)
    assert payload.numpy().tobytes().hex() == "00000040" + "dd" + "01"
    assert there_and_back(made("sign"), x).tolist() == [2.0, -2.0, 2.0, 2.0, 2.0, -2.0, 2.0, 2.0, 2.0]


def test_qsgd_takes_as_many_bits_as_its_levels_need():
    bits = {s: math.ceil(math.log2(2 * s + 1)) for s in range(1, 128)}
    assert {s: made(f"qsgd:{s}").bits for s in bits} == bits
    assert (bits[1], bits[7], bits[127]) == (2, 4, 8)


@pytest.mark.parametrize(("rule", "levels", "block"), [("int4", 7, 200), ("int:2:7", 1, 7), ("int:8:64", 127, 64)])
def test_whole_numbers_are_within_a_step_of_their_block(rule, levels, block):
    codec, x = made(rule), vector(200) * torch.exp(vector(200, 1))
    steps = [float(part.abs().max()) / levels for part in torch.split(x, block)]
    for number in range(50):
        error = (there_and_back(codec, x, number) - x).abs()
        for step, part in zip(steps, torch.split(error, block), strict=True):
            assert float(part.max()) <= step * 1.0001


def test_blocks_help_where_numbers_are_of_many_sizes():
    x = vector(512)
    x[:256] *= 1000
    whole, blocks = (float((there_and_back(made(rule), x) - x)[256:].norm()) for rule in ("int4", "int:4:256"))
    assert blocks < whole / 10


@pytest.mark.parametrize(("s", "bucket"), [(1, 100), (7, 100), (16, 30)])
def test_qsgd_is_within_a_level_of_its_norm(s, bucket):
    codec, x = made(f"qsgd:{s}:{bucket}"), vector(100)
    for number in range(50):
        error = (there_and_back(codec, x, number) - x).abs()
        for part, of in zip(torch.split(error, bucket), torch.split(x, bucket), strict=True):
            assert float(part.max()) <= float(of.norm()) / s * 1.0001


def test_qsgd_without_a_bucket_is_one_bucket():
    x = vector(100)
    assert torch.equal(payload_of(made("qsgd:7"), x), payload_of(made("qsgd:7:100"), x))


def test_qsgd_where_float32_has_no_such_norm():
    """‖x‖ is above float32's largest number M, which takes its place: levels of M/s, and still right in the mean."""
    codec, x = made("qsgd:2"), torch.tensor([3e38, -3e38, 1e38])
    largest = float(np.finfo(np.float32).max)
    draws = torch.stack([there_and_back(codec, x, number) for number in range(2000)]).double() / largest
    assert set(draws.abs().unique().round(decimals=6).tolist()) <= {0.0, 0.5, 1.0}
    assert bool(((draws.mean(0) - x.double() / largest).abs() <= 5 * draws.std(0) / math.sqrt(2000)).all())


def test_signs_lose_what_the_formula_says():
    """‖x − x̂‖² = ‖x‖² − ‖x‖₁²/d."""
    x = vector(1000)
    lost = (there_and_back(made("sign"), x) - x).double().square().sum()
    assert float(lost) == pytest.approx(float(x.double().square().sum() - x.double().abs().sum() ** 2 / 1000), rel=1e-5)


def changed(payload, place, content):
    """The payload with other bytes from a place on."""
    new = payload.clone()
    new[place : place + len(content)] = torch.tensor(list(content), dtype=torch.uint8)
    return new


SCALES = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "-1.0": -1.0}


@pytest.mark.parametrize("rule", ["int8", "int4", "int:3:16", "qsgd:7", "qsgd:1:50", "sign", "eden:1", "eden:4"])
@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_that_cannot_be_is_refused(rule, scale):
    codec, like = made(rule), {"w": vector(100)}
    payload = payload_of(codec, like["w"])
    with pytest.raises(ValueError, match=rf"^'w': a scale is {scale}; accepted: finite numbers from 0$"):
        codec.decode({"w": changed(payload, 0, np.float32(SCALES[scale]).tobytes())}, {}, like, streams())


@pytest.mark.parametrize(
    ("rule", "byte", "told"),
    [
        ("int8", 0x80, "a number is -128 steps; accepted: −127 to 127"),
        ("int4", 0x08, "a number is -8 steps; accepted: −7 to 7"),
        ("int:2:100", 0x02, "a number is -2 steps; accepted: −1 to 1"),
        ("qsgd:7", 0x0F, "a level is 8; accepted: −7 to 7"),
        ("qsgd:1", 0x03, "a level is 2; accepted: −1 to 1"),
        ("qsgd:127", 0xFF, "a level is 128; accepted: −127 to 127"),
    ],
)
def test_a_code_that_cannot_be_is_refused(rule, byte, told):
    codec, like = made(rule), {"w": vector(100)}
    payload = payload_of(codec, like["w"])
    with pytest.raises(ValueError, match=told):
        codec.decode({"w": changed(payload, 4, bytes([byte]))}, {}, like, streams())
