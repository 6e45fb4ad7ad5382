"""Work in turns, and what is counted of layers."""

import torch
from bench.cases import CASES, small3
from bench.layers import products, size_after
from bench.turns import Work, by_turn, interleaved, sgemm_rates
from torch import nn

from fedtrip.models.chain import trace_chain


def test_every_other_turn_goes_backwards_and_the_first_does_not_count():
    done = []
    works = {name: Work(lambda name=name: done.append(name), at_once) for name, at_once in (("a", 1), ("b", 2))}
    seconds = interleaved(works, 2)
    assert done == ["a", "b", "b", "b", "b", "a", "a", "b", "b"]
    assert [len(values) for values in seconds.values()] == [2, 2]


def test_a_turns_value_is_the_mean_of_its_rounds():
    assert by_turn([9.0, 9.0, 9.0, 1.0, 3.0, 5.0, 7.0], turns=2, at_once=2) == [2.0, 6.0]


def test_the_rate_of_sgemm_is_its_multiply_adds_over_its_seconds():
    assert sgemm_rates([0.5]) == [2 * 1024**3]


def test_multiply_adds_and_sizes_of_layers_are_the_modules():
    module, shape = small3(), (3, 32, 32)
    layers = trace_chain(module, shape).layers
    macs = {3 * 16 * 9 * 32 * 32, 16 * 32 * 9 * 16 * 16, 32 * 32 * 9 * 8 * 8, 512 * 10}
    assert {products(layer) for layer in layers} == {0, *macs}
    x = torch.zeros(1, *shape)
    for count, layer in enumerate(module, 1):
        x = layer(x)
        assert size_after(shape, layers[:count]) == x.numel()


def test_the_models_are_those_of_the_table():
    def parameters(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    mcmahan = CASES["mcmahan"].federation().module
    assert parameters(mcmahan) == 832 + 51_264 + 3136 * 512 + 512 + 5130 == 1_663_370
    assert parameters(small3()) == 448 + 4640 + 9248 + 5130
    assert CASES["alexnet"].federation().experiment.momentum == 0.9
