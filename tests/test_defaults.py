"""Changing a stored, complete experiment: what was only a default becomes the new one's, what was chosen stays."""

import fedtrip
from fedtrip.defaults import changed
from fedtrip.federation import prepare
from fedtrip.methods.fedtrip import REACH


def complete(**fields):
    return prepare(fedtrip.Experiment(**fields)).experiment


def test_another_method_brings_its_own_momentum():
    stored = complete(method="fedtrip")
    assert stored.momentum == 0.9
    slowmo = changed(stored, method="slowmo")
    assert prepare(slowmo).experiment.momentum == 0.0
    assert changed(complete(method="fedtrip", momentum=0.5), method="slowmo").momentum == 0.5
    assert changed(stored, method="slowmo", momentum=0.9).momentum == 0.9


def test_another_data_set_brings_its_own_samples_target_and_normalisation():
    mnist = changed(complete(), dataset="mnist")
    assert (mnist.samples_per_client, mnist.target, mnist.mean, mnist.std) == (None, None, None, None)
    chosen = changed(complete(samples_per_client=30, target=0.5), dataset="mnist", mean=0.1, std=0.2)
    assert (chosen.samples_per_client, chosen.target, chosen.mean, chosen.std) == (30, 0.5, (0.1,), (0.2,))


def test_another_model_brings_its_own_mu_and_target():
    stored = complete()
    assert stored.method.options["mu"] == 1.0
    assert "mu" not in changed(stored, model="cnn").method.options
    assert changed(complete(method={"name": "fedtrip", "mu": 0.7}), model="cnn").method.options["mu"] == 0.7


def test_nothing_changes_where_nothing_is_changed():
    stored = complete(method="feddyn")
    assert changed(stored) == stored
    assert changed(stored, seed=3) == stored.but(seed=3)


def test_a_mu_of_ones_own_is_not_limited_by_the_default_reach():
    stored = complete(method="fedtrip")
    assert stored.method.options["reach"] == REACH
    mine = changed(stored, method={"name": "fedtrip", "options": {**stored.method.options, "mu": 3.0}})
    assert prepare(mine).experiment.method.options["reach"] == 0.0
    other = changed(stored, method={"name": "fedtrip", "options": {**stored.method.options, "xi": "inverse-gap"}})
    assert prepare(other).experiment.method.options["reach"] == REACH
    limited = changed(mine, method={"name": "fedtrip", "options": {"mu": 3.0, "reach": 0.5}})
    assert prepare(limited).experiment.method.options["reach"] == 0.5
