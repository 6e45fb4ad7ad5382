"""Vectors that take memory only while they are used."""

import sys

import pytest
import torch
from torch import nn

from fedtrip.training.flat_model import FlatModel
from fedtrip.training.lazy_memory import LazyVector

SIZE = 4_000_000


def resident():
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, which Linux has")
def test_a_vector_takes_memory_from_when_it_is_written_until_it_is_given_back():
    before = resident()
    vector = LazyVector(SIZE)
    assert resident() - before < SIZE
    vector.tensor.fill_(2.5)
    assert resident() - before > 3.5 * SIZE
    vector.give_back()
    assert resident() - before < SIZE
    assert vector.tensor.sum() == 0


def test_it_is_an_ordinary_vector_of_zeros():
    vector = LazyVector(10).tensor
    assert vector.dtype == torch.float32
    assert vector.shape == (10,)
    assert vector.data_ptr() % 64 == 0
    assert vector.tolist() == [0.0] * 10


def test_a_model_that_was_given_back_is_loaded_again():
    torch.manual_seed(0)
    flat = FlatModel(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (6,))
    model, x = flat.model(), torch.randn(4, 6)
    expected = flat.logits(x)
    flat.give_back()
    flat.load(model)
    assert torch.equal(flat.logits(x), expected)
    assert torch.equal(flat.model()["w"], model["w"])
