"""Changing a stored, complete experiment: what was only a default becomes the new one's, what was chosen stays."""

import fedtrip
from fedtrip.experiment.defaults import changed, chosen_options
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.presets import preset_options
from fedtrip.methods.fedtrip import FedTrip


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
    stored = complete(method={"name": "fedtrip", "reach": 0.0})
    assert stored.method.options["mu"] == 1.0
    assert changed(stored, model="cnn").method.options == {"reach": 0.0}
    assert changed(complete(method={"name": "fedtrip", "mu": 0.7}), model="cnn").method.options["mu"] == 0.7


def test_nothing_changes_where_nothing_is_changed():
    stored = complete(method="feddyn")
    assert changed(stored) == stored
    assert changed(stored, seed=3) == stored.but(seed=3)


def test_options_that_were_chosen_are_told_from_the_defaults_they_bring():
    for given in ({}, {"mu": 0.7}, {"mu": 1.0, "xi": "gap"}, {"reach": 0.5}, {"reach": 0.0}, {"penalty": "norm"}):
        stored = complete(method={"name": "fedtrip", **given})
        chosen = chosen_options(stored)
        assert complete(method={"name": "fedtrip", **chosen}).method == stored.method
        assert len(chosen) <= len(given)


def test_a_stored_automatic_mu_gives_way_to_a_number_and_to_the_papers():
    stored = complete(method="fedtrip")
    assert (stored.method.options["mu"], stored.method.options["reach"]) == ("auto", FedTrip.reach)

    def with_options(base=stored, **options):
        given = changed(base, method={"name": "fedtrip", **{**chosen_options(base), **options}})
        return prepare(given).experiment.method.options

    assert (with_options(mu=3.0)["mu"], with_options(mu=3.0)["reach"]) == (3.0, 0.0)
    assert (with_options(reach=0.5)["mu"], with_options(reach=0.5)["reach"]) == ("auto", 0.5)
    assert with_options(xi="inverse-gap")["mu"] == "auto"
    assert with_options(complete(method={"name": "fedtrip", "mu": 0.7}), mu="auto") == stored.method.options
    paper = preset_options("paper", "fedtrip")
    for base in (stored, complete(method={"name": "fedtrip", "penalty": "norm"})):
        assert with_options(base, **paper)["mu"] == 1.0  # the model is an MLP
        assert with_options(base, **paper).items() >= paper.items()
