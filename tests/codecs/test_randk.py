"""rand-k: the same places at both ends, the factor d/k, all of them to the bit."""

import numpy as np
import pytest
import torch
from tests.reference.coding import made, payload_of, streams, there_and_back, vector

FED_BACK = {"name": "randk:0.5", "feedback": True}


def test_by_hand():
    """Two of four: what travels are the numbers at the drawn places, in their order; d/k = 2."""
    codec, x = made("randk:0.5"), torch.tensor([1.0, 2.0, 3.0, 4.0])
    places = codec.places(4, streams()("w"))
    assert len(places) == 2
    assert places[0] < places[1]
    assert payload_of(codec, x).numpy().tobytes() == x[places].numpy().tobytes()
    expected = [2 * v if place in places else 0.0 for place, v in enumerate(x.tolist())]
    assert there_and_back(codec, x).tolist() == expected


def test_with_error_feedback_numbers_arrive_as_they_are():
    codec, x = made(FED_BACK), vector(100)
    places = codec.places(100, streams()("w"))
    decoded = there_and_back(codec, x)
    assert torch.equal(decoded[places], x[places])
    assert int((decoded != 0).sum()) == 50


@pytest.mark.parametrize("rule", ["randk:1", {"name": "randk:1", "feedback": True}], ids=str)
def test_all_numbers_are_the_vector_to_the_bit(rule):
    x = vector(999)
    assert torch.equal(there_and_back(made(rule), x), x)


def test_every_place_is_drawn_equally_often():
    codec = made("randk:0.1")
    counts = np.zeros(30)
    for number in range(3000):
        counts[codec.places(30, streams(number)("w"))] += 1
    # a place's count is binomial with p = 0.1; the deviation is √(3000·0.1·0.9) = 16.4
    assert np.abs(counts - 300).max() < 5 * 16.4


def test_a_payload_of_numbers_that_overflow_or_are_none_is_not_finite():
    codec = made("randk:0.1")
    for number in (3e38, np.nan, np.inf):
        payload = torch.from_numpy(np.full(10, number, dtype=np.float32).view(np.uint8))
        assert not torch.isfinite(codec.unpack(payload, 100, streams()("w"))).all()
