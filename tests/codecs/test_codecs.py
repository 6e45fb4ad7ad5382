"""Codecs: exact lengths, bounded errors, unbiasedness, the telescope of error feedback, and what is refused."""

import math

import numpy as np
import pytest
import torch
from tests.reference.coding import FED_BACK, RULES, UNBIASED, is_refused, made, streams, there_and_back, vector

from fedtrip.codecs import _packing
from fedtrip.families import UPLOAD_CODEC


def test_every_codec_is_tested():
    assert {type(made(rule)) for rule in RULES} == {
        UPLOAD_CODEC.find(name) for name in UPLOAD_CODEC.names() if name != "none"
    }
    assert {str(rule) for rule in FED_BACK} == {str(rule) for rule in RULES if made(rule).keeps_error}


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("d", [0, 1, 7, 8, 1000])
def test_the_length_is_what_is_promised(rule, d):
    codec = UPLOAD_CODEC.make(rule)
    payload = codec.pack(vector(d), streams()("w"))
    assert payload.dtype == torch.uint8
    assert payload.shape == (codec.length(d),)
    assert codec.unpack(payload, d, streams()("w")).shape == (d,)


def test_lengths_of_the_papers_mlp():
    assert UPLOAD_CODEC.make("int8").length(79_510) == 79_514
    assert UPLOAD_CODEC.make("topk:0.01").length(79_510) == 6_372
    assert UPLOAD_CODEC.make("int4").length(79_510) == 39_759
    assert UPLOAD_CODEC.make("sign").length(79_510) == 9_943
    assert UPLOAD_CODEC.make("eden:1").length(79_510) == 10_280  # ten blocks of 8,192
    assert UPLOAD_CODEC.make("eden:4").length(79_510) == 4 * 10_240 + 40
    assert UPLOAD_CODEC.make("randk:0.01").length(79_510) == 4 * 796
    assert UPLOAD_CODEC.make("qsgd:1").length(79_510) == 19_878 + 4  # two bits each
    assert UPLOAD_CODEC.make("qsgd:7").length(79_510) == 39_755 + 4
    assert UPLOAD_CODEC.make("qsgd:127").length(79_510) == 79_514
    assert UPLOAD_CODEC.make("int:3:1000").length(79_510) == 29_817 + 4 * 80


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


@pytest.mark.parametrize("rule", UNBIASED, ids=str)
def test_the_mean_of_many_draws_is_the_vector(rule):
    codec, x, count = made(rule), vector(20, seed=3), 2000
    draws = torch.stack([there_and_back(codec, x, number) for number in range(count)]).double()
    error = draws.std(0) / math.sqrt(count)
    assert bool(((draws.mean(0) - x).abs() <= 5 * error + 1e-6).all())
    assert float(error.max()) > 0


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_parts_in_which_it_is_computed_change_nothing(rule, monkeypatch):
    codec, x = made(rule), vector(1003)
    whole, there = codec.pack(x, streams()("w")), there_and_back(codec, x)
    monkeypatch.setattr(_packing, "PART", 64)
    assert len(list(_packing.parts(1003))) == 16
    assert torch.equal(codec.pack(x, streams()("w")), whole)
    assert torch.equal(there_and_back(codec, x), there)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_zero_is_zero(rule):
    for d in (1, 5, 100):
        assert there_and_back(made(rule), torch.zeros(d)).tolist() == [0.0] * d


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_wherever_it_stands(rule, wrong):
    for place in (0, 50, 99):
        x = vector(100)
        x[place] = wrong
        assert is_refused(made(rule), x)
    assert not is_refused(made(rule), vector(100))


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("power", [100, -100])
def test_huge_and_tiny_vectors_are_coded_as_their_multiples(rule, power):
    """To the bit: a power of two changes no rounding, unless something overflows or vanishes on the way."""
    codec, x = made(rule), vector(300)
    assert torch.equal(there_and_back(codec, x * 2.0**power), there_and_back(codec, x) * 2.0**power)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_smallest_and_the_largest_numbers_there_are(rule):
    codec, smallest = made(rule), 2.0**-149
    for x in (torch.full((9,), smallest), smallest * torch.arange(9), vector(9) * 1e-43):
        assert bool(torch.isfinite(there_and_back(codec, x)).all())
    largest = torch.full((9,), 3e38)
    assert is_refused(codec, largest) or float(there_and_back(codec, largest).abs().max()) >= 3e37


def test_topk_by_hand_with_ties_to_the_lower_index():
    codec = UPLOAD_CODEC.make("topk:0.5")
    x = torch.tensor([1.0, -3.0, 1.0, 0.5])
    assert codec.unpack(codec.pack(x, streams()("w")), 4, streams()("w")).tolist() == [1.0, -3.0, 0.0, 0.0]


def test_topk_of_all_is_the_vector_to_the_bit():
    codec, x = UPLOAD_CODEC.make("topk:1"), vector(999)
    assert torch.equal(codec.unpack(codec.pack(x, streams()("w")), 999, streams()("w")), x)


@pytest.mark.parametrize("rule", ["topk:0.05", *(rule for rule in FED_BACK if rule != "topk:1")], ids=str)
def test_error_feedback_loses_nothing_in_the_sum(rule):
    """Σ x̂ + e = Σ Δ."""
    codec, kept = UPLOAD_CODEC.make(rule), {}
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


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_each_vector_is_coded_with_its_own_draws_and_its_own_residual(rule):
    codec = made(rule)
    received, same = {"w": vector(100, 1)}, vector(100, 2)
    upload = {"w": received["w"] + same, "delta_c": same, "again": same}
    payload, kept = codec.encode(upload, received, {}, streams())
    assert set(kept) == (set(upload) if codec.keeps_error else set())
    for name in upload:
        x = upload[name] - received.get(name, torch.zeros(100))
        assert torch.equal(payload[name], codec.pack(x, streams()(name)))
        decoded = codec.unpack(payload[name], 100, streams()(name))
        if codec.keeps_error:
            assert torch.equal(kept[name], x - decoded)
        base = received.get(name, torch.zeros(100))
        assert torch.equal(codec.decode(payload, received, upload, streams())[name], base + decoded)
    if not any(name in str(rule) for name in ("topk", "sign", "randk:1")):  # which draw nothing, or take all
        there = codec.decode(payload, {}, upload, streams())
        assert not torch.equal(there["delta_c"], there["again"])  # the same numbers, other draws


@pytest.mark.parametrize("rule", ["int8", "topk:0.1", "topk:0.01", {"name": "topk:0.1", "feedback": False}], ids=str)
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


@pytest.mark.parametrize("rule", RULES, ids=str)
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


@pytest.mark.parametrize("rule", RULES, ids=str)
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


@pytest.mark.parametrize("rule", FED_BACK, ids=str)
def test_what_the_server_will_refuse_leaves_a_client_that_can_go_on(rule):
    """A vector that is not finite is no error at the client; with the older residual it codes the next one."""
    codec, like = made(rule), {"w": vector(100)}
    _, kept = codec.encode(like, {}, {}, streams())
    codec.encode({"w": torch.full((100,), math.nan)}, {}, kept, streams(1))
    payload, _ = codec.encode(like, {}, kept, streams(2))
    assert bool(torch.isfinite(codec.decode(payload, {}, like, streams(2))["w"]).all())


def test_costs_are_counted_for_what_is_coded():
    """Of 10 numbers, beside buffers: Δ is 1 a number, then pack; with feedback unpack, x = Δ + e and e = x − x̂ too."""
    upload = {"w": torch.zeros(7), "delta_c": torch.zeros(3), "buffers": torch.zeros(5), "counters": torch.tensor([1])}
    counted = {
        "none": (0, 0), "int8": (20, 20), "int4": (20, 20), "int:3:16": (20, 20), "qsgd:7": (30, 20), "sign": (50, 20),
        "topk:0.1": (30, 10), "randk:0.1": (10, 20), "eden:2": (180, 160),
    }  # fmt: skip
    for rule, (client, server) in counted.items():
        codec = made(rule)
        assert (codec.client_operations(upload), codec.server_operations(upload)) == (client, server), rule
        assert codec.kept_bytes(upload) == (40 if rule in ("sign", "topk:0.1") else 0)
