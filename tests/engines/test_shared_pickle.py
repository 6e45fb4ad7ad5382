"""Objects handed over with their numbers in shared memory: the same on the other side, and written to by nobody."""

import pytest
import torch
from torch import nn

from fedtrip.engines.shared import SharedBlock
from fedtrip.engines.shared_pickle import SharedPickle


class Tied(nn.Module):
    """Two layers that share their weight, a buffer that is a view of another one, and types of all sorts."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(30, 30), nn.Linear(30, 30, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.arange(12.0).view(3, 4))
        self.register_buffer("row", self.table[1])
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("nothing", torch.empty(0))
        self.register_buffer("brain", torch.ones(3, dtype=torch.bfloat16))
        self.note = "a word"


@pytest.fixture
def block():
    block = SharedBlock()
    yield block
    block.close()


def test_a_module_is_the_same_afterwards(block):
    module = Tied()
    handed = SharedPickle.of(module, block)
    found = handed.content()
    state, expected = found.state_dict(), module.state_dict()
    assert state.keys() == expected.keys()
    for name, tensor in expected.items():
        assert state[name].dtype == tensor.dtype
        assert torch.equal(state[name], tensor)
    assert found.note == "a word"
    assert found.second.weight is found.first.weight
    found.table[1, 0] = 99  # still the same memory as `row`
    assert found.row[0] == 99


def test_the_numbers_are_not_in_the_pickle_and_there_once(block):
    weights = torch.rand(100_000)
    handed = SharedPickle.of({"one": weights, "same": weights[10:], "transposed": weights.view(10, -1).T}, block)
    assert len(handed.pickled) < 2000
    assert block.append({"next": torch.zeros(1)})["next"].offset == 4 * 100_000  # behind one copy
    found = handed.content()
    assert torch.equal(found["same"], weights[10:])
    assert torch.equal(found["transposed"], weights.view(10, -1).T)


def test_who_writes_to_it_writes_to_a_copy(block):
    handed = SharedPickle.of({"w": torch.ones(5000)}, block)
    one, other = handed.content(), handed.content()
    one["w"].zero_()
    assert other["w"].sum() == 5000
    assert handed.content()["w"].sum() == 5000


def test_nothing_but_words(block):
    assert SharedPickle.of({"no": "tensor"}, block).content() == {"no": "tensor"}
