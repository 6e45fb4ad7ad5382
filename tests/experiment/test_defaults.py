"""Changing a stored, complete experiment: what was only a default becomes the new one's, what was chosen stays."""

import fedtrip
from fedtrip.experiment.defaults import changed, chosen_options
from fedtrip.experiment.federation import prepare


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


def test_another_model_brings_its_own_mu():
    stored = complete(method="fedtrip")
    assert stored.method.options["mu"] == 1.0
    assert changed(stored, model="cnn").method.options == {}
    assert changed(complete(method={"name": "fedtrip", "mu": 0.7}), model="cnn").method.options["mu"] == 0.7


def test_nothing_changes_where_nothing_is_changed():
    stored = complete(method="feddyn")
    assert changed(stored) == stored
    assert changed(stored, seed=3) == stored.but(seed=3)


def test_options_that_were_chosen_are_told_from_the_defaults_they_bring():
    for name, given in (
        ("fedtrip", {}), ("fedtrip", {"mu": 0.7}), ("fedtrip", {"mu": 1.0}),
        ("fedtrip-auto", {}), ("fedtrip-auto", {"push": 0.5}), ("fedtrip-auto", {"push": 0.75, "tau": 5.0}),
    ):  # fmt: skip
        stored = complete(method={"name": name, **given})
        chosen = chosen_options(stored)
        assert complete(method={"name": name, **chosen}).method == stored.method
        assert len(chosen) <= len(given)


def test_a_stored_mu_of_the_model_gives_way_to_a_number_and_to_another_method():
    stored = complete(method="fedtrip")

    def with_options(**options):
        given = changed(stored, method={"name": "fedtrip", **{**chosen_options(stored), **options}})
        return prepare(given).experiment.method.options

    assert with_options() == {"mu": 1.0}  # the model is an MLP
    assert with_options(mu=3.0) == {"mu": 3.0}
    auto = prepare(changed(stored, method="fedtrip-auto")).experiment
    assert dict(auto.method.options) == {"push": 0.75, "tau": 10.0}
    assert dict(prepare(changed(auto, method="fedtrip")).experiment.method.options) == {"mu": 1.0}
