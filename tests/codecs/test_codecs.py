"""Codecs: exact lengths, bounded errors, unbiasedness, the telescope of error feedback, and what is refused."""

import math

import numpy as np
import pytest
import torch

from fedtrip.families import UPLOAD_CODEC
from fedtrip.randomness import stream

RULES = ["int8", "topk:0.1", "topk:0.01", "topk:1", {"name": "topk:0.1", "feedback": False}]


def streams(number=0):
    return lambda name: stream(0, f"codec {name}", number)


def vector(d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(d).astype(np.float32))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("d", [1, 7, 8, 1000])
def test_the_length_is_what_is_promised(rule, d):
    codec = UPLOAD_CODEC.make(rule)
    payload = codec.pack(vector(d), streams()("w"))
    assert payload.dtype == torch.uint8
    assert payload.shape == (codec.length(d),)
    assert codec.unpack(payload, d, streams()("w")).shape == (d,)


def test_lengths_of_the_papers_mlp():
    assert UPLOAD_CODEC.make("int8").length(79_510) == 79_514
    assert UPLOAD_CODEC.make("topk:0.01").length(79_510) == 6_372


def test_int8_by_hand():
    codec = UPLOAD_CODEC.make("int8")
    x = torch.tensor([127.0, -127.0, 0.0, 3.0])  # σ = 1: whole numbers are exact, whatever was drawn
    payload = codec.pack(x, streams()("w"))
    assert payload[:4].numpy().view(np.float32)[0] == 1.0
    assert payload[4:].numpy().view(np.int8).tolist() == [127, -127, 0, 3]
    assert codec.unpack(payload, 4, streams()("w")).tolist() == x.tolist()


def test_int8_is_within_one_step_and_right_in_the_mean():
    codec, x = UPLOAD_CODEC.make("int8"), vector(50)
    step = float(x.abs().max()) / 127
    draws = torch.stack([codec.unpack(codec.pack(x, streams(n)("w")), 50, streams(n)("w")) for n in range(4000)])
    assert float((draws - x).abs().max()) <= step * 1.0001
    # the deviation of a mean of 4,000 draws is at most step/2/√4000
    assert float((draws.double().mean(0) - x).abs().max()) < 5 * step / 2 / math.sqrt(4000)


def test_int8_of_zero_is_zero():
    codec = UPLOAD_CODEC.make("int8")
    assert codec.unpack(codec.pack(torch.zeros(5), streams()("w")), 5, streams()("w")).tolist() == [0.0] * 5


def test_topk_by_hand_with_ties_to_the_lower_index():
    codec = UPLOAD_CODEC.make("topk:0.5")
    x = torch.tensor([1.0, -3.0, 1.0, 0.5])
    assert codec.unpack(codec.pack(x, streams()("w")), 4, streams()("w")).tolist() == [1.0, -3.0, 0.0, 0.0]


def test_topk_of_all_is_the_vector_to_the_bit():
    codec, x = UPLOAD_CODEC.make("topk:1"), vector(999)
    assert torch.equal(codec.unpack(codec.pack(x, streams()("w")), 999, streams()("w")), x)


def test_error_feedback_loses_nothing_in_the_sum():
    codec, kept = UPLOAD_CODEC.make("topk:0.05"), {}
    sent, meant = torch.zeros(200, dtype=torch.float64), torch.zeros(200, dtype=torch.float64)
    reference = {"w": torch.zeros(200)}
    for round_number in range(30):
        upload = {"w": vector(200, round_number)}
        payload, kept = codec.encode(upload, reference, kept, streams(round_number))
        decoded = codec.decode(payload, reference, upload, streams(round_number))
        sent += decoded["w"]
        meant += upload["w"]
    assert torch.allclose(sent + kept["w"], meant, atol=1e-4)
    assert float((sent - meant).abs().max()) > 0.1  # it does lose something on the way


@pytest.mark.parametrize("rule", RULES)
def test_the_difference_to_what_was_received_is_coded_and_buffers_are_not(rule):
    codec = UPLOAD_CODEC.make(rule)
    received = {"w": vector(100, 1), "c": vector(100, 2)}
    upload = {
        "w": received["w"] + 0.01 * vector(100, 3),
        "delta_c": vector(100, 4),
        "buffers": vector(3, 5),
        "counters": torch.tensor([7]),
    }
    payload, _ = codec.encode(upload, received, {}, streams())
    assert payload["w"].dtype == payload["delta_c"].dtype == torch.uint8
    assert payload["buffers"] is upload["buffers"]
    assert payload["counters"] is upload["counters"]
    decoded = codec.decode(payload, received, upload, streams())
    assert float((decoded["w"] - upload["w"]).abs().max()) <= float((0.01 * vector(100, 3)).abs().max())
    assert decoded["w"].shape == decoded["delta_c"].shape == (100,)


def test_no_codec_changes_nothing():
    codec, upload = UPLOAD_CODEC.make("none"), {"w": vector(10)}
    payload, kept = codec.encode(upload, {}, {}, streams())
    assert payload is upload
    assert kept == {}
    assert codec.decode(payload, {}, upload, streams()) is payload


@pytest.mark.parametrize("rule", RULES)
def test_a_payload_of_another_length_or_type_is_refused(rule):
    codec, like = UPLOAD_CODEC.make(rule), {"w": vector(100)}
    payload, _ = codec.encode(like, {}, {}, streams())
    for wrong in (payload["w"][:-1], torch.cat([payload["w"], payload["w"][:1]]), vector(100)):
        with pytest.raises(ValueError, match="'w'"):
            codec.decode({"w": wrong}, {}, like, streams())


def test_a_payload_of_topk_that_lies_is_refused():
    codec, like = UPLOAD_CODEC.make("topk:0.02"), {"w": vector(100)}
    payload = codec.encode(like, {}, {}, streams())[0]["w"].clone()
    announced, outside = payload.clone(), payload.clone()
    announced[0] = 99
    outside[-4:] = 255
    for wrong in (announced, outside):
        with pytest.raises(ValueError, match=r"announced|cannot be"):
            codec.decode({"w": wrong}, {}, like, streams())


def test_a_payload_of_topk_that_names_a_place_twice_is_refused():
    codec, like = UPLOAD_CODEC.make("topk:0.02"), {"w": vector(100)}  # k = 2: indices are shorter than 100 bits
    payload = codec.encode(like, {}, {}, streams())[0]["w"].clone()
    payload[-4:] = payload[-8:-4]
    with pytest.raises(ValueError, match="cannot be"):
        codec.decode({"w": payload}, {}, like, streams())


@pytest.mark.parametrize("rule", RULES)
def test_vectors_of_any_shape_and_precision_are_coded(rule):
    codec = UPLOAD_CODEC.make(rule)
    upload = {"table": vector(6).double().reshape(2, 3), "number": torch.tensor(0.5), "none": torch.zeros(0)}
    expected = {name: v.float() for name, v in upload.items()}
    payload, kept = codec.encode(upload, {}, {}, streams())
    again, _ = codec.encode(upload, {}, kept, streams(1))
    for sent in (payload, again):
        decoded = codec.decode(sent, {}, expected, streams())
        assert {name: (v.shape, v.dtype) for name, v in decoded.items()} == {
            name: (v.shape, v.dtype) for name, v in expected.items()
        }
    assert float(codec.decode(payload, {}, expected, streams())["number"]) == pytest.approx(0.5)


def test_not_a_number_stays_one_so_that_the_server_can_refuse_it():
    for rule in ("topk:0.02", "int8"):
        codec, x = UPLOAD_CODEC.make(rule), vector(100)
        x[50] = math.nan
        decoded = codec.unpack(codec.pack(x, streams()("w")), 100, streams()("w"))
        assert not torch.isfinite(decoded).all(), rule
