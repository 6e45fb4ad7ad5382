"""The momentum has one value, wherever it is written."""

import pytest

from fedtrip import Experiment, UserError
from fedtrip.experiment.rules import make_rules


def momentum(**fields):
    return make_rules(Experiment(**fields)).momentum


def test_it_is_the_fields_the_optimizers_or_the_methods():
    assert momentum(method="fedavg") == 0.9
    assert momentum(method="feddyn") == 0.0
    assert momentum(momentum=0.5) == 0.5
    assert momentum(optimizer={"name": "sgd", "momentum": 0.5}) == 0.5
    assert momentum(momentum=0.5, optimizer={"name": "sgd", "momentum": 0.5}) == 0.5
    assert momentum(optimizer="adam") == 0.0


def test_two_that_differ_are_refused():
    with pytest.raises(UserError, match=r"momentum is 0\.8, but optimizer 'sgd momentum=0\.5'"):
        momentum(momentum=0.8, optimizer={"name": "sgd", "momentum": 0.5})
    with pytest.raises(UserError, match=r"momentum is 0\.8, which optimizer 'adam' does not have"):
        momentum(momentum=0.8, optimizer="adam")
