"""The benchmark of large models: they are as large as it says, and its loop is FedAvg."""

import copy

import pytest
import torch
from bench.plain import PlainLoop
from bench.sizes import QUICK, SIZES, LeanLoop, told_of_the_store


@pytest.mark.parametrize(("name", "parameters"), [("25 M", 25e6), ("110 M", 110e6)])
def test_the_transformers_are_as_large_as_they_are_called(name, parameters):
    with torch.device("meta"):
        found = sum(parameter.numel() for parameter in SIZES[name].module().parameters())
    assert found == pytest.approx(parameters, rel=0.03)


def test_the_lean_loop_is_the_plain_one():
    (size,) = QUICK.values()
    data, module = size.dataset(), size.module()
    sets = (data.x_train, data.y_train), (data.x_test, data.y_test)
    models = []
    for loop in (PlainLoop, LeanLoop):
        running = loop(copy.deepcopy(module), *sets, [list(range(60)), list(range(60, 100))])
        torch.manual_seed(0)
        running.round()
        models.append(running.model.state_dict())
    for name, value in models[0].items():
        assert torch.allclose(value, models[1][name], atol=1e-6), name


def test_a_store_of_a_thousand_models_is_known_beforehand():
    assert told_of_the_store("resnet8", 1000) == 1000 * 4 * 78_042
