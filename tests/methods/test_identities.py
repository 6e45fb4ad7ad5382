"""Methods that must coincide at the edges of their options: to the last bit, or to rounding."""

import pytest
from tests.reference.naive import apart
from tests.reference.setting import Net, Setting, made
from torch import nn

from fedtrip.experiment.federation import prepare

SETTINGS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "everything": {
        "momentum": 0.9,
        "weight_decay": 0.01,
        "local_epochs": 2,
        "keep_optimizer_state": True,
        "module": made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2))),
    },
}


@pytest.fixture(params=SETTINGS)
def setting(request):
    return Setting(**SETTINGS[request.param])


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fedprox", {"mu": 0.0}),
        ("fedtrip", {"mu": 0.0}),
        ("fedtrip-auto", {"push": 0.0}),
        ("moon", {"mu": 0.0}),
    ],
    ids=str,
)
def test_without_weight_it_is_fedavg_to_the_bit(setting, method, options):
    assert setting.run(method, **options).model_sha256 == setting.run("fedavg").model_sha256


def test_the_first_round_of_fedtrip_is_fedprox_to_the_bit(setting):
    first = setting.but(rounds=1)
    assert first.run("fedtrip", mu=0.3).model_sha256 == first.run("fedprox", mu=0.3).model_sha256
    assert setting.run("fedtrip", mu=0.3).model_sha256 != setting.run("fedprox", mu=0.3).model_sha256


def test_slowmo_without_momentum_is_fedavg_to_rounding(setting):
    setting = setting.but(momentum=0.0)
    assert apart(setting.run("slowmo", alpha=1.0, beta=0.0).state, setting.run("fedavg").module) < 1e-6


@pytest.mark.parametrize(
    ("name", "momentum"),
    [
        ("fedavg", 0.9),
        ("fedprox", 0.9),
        ("fedtrip", 0.9),
        ("fedtrip-auto", 0.9),
        ("moon", 0.9),
        ("feddane", 0.9),
        ("fedgkd", 0.9),
        ("slowmo", 0.0),
        ("feddyn", 0.0),
        ("scaffold", 0.0),
        ("mimelite", 0.0),
        ("fedcm", 0.0),
        ("fedacg", 0.0),
        ("feddc", 0.0),
        ("fedinit", 0.9),
        ("fedsam", 0.0),
        ("mofedsam", 0.0),
        ("fedspeed", 0.0),
        ("fedsmoo", 0.0),
        ("fedlesam", 0.0),
        ("fedlesam-s", 0.0),
        ("fedlesam-d", 0.0),
    ],
)
def test_the_default_optimizer_is_the_methods_own(name, momentum):
    setting = Setting(rounds=1)
    experiment = setting.experiment(name).but(momentum=None)
    assert prepare(experiment, model=setting.module, data=setting.data).experiment.momentum == momentum


def test_the_same_experiment_gives_the_same_bits_and_another_seed_others(setting):
    once = setting.run("fedtrip")
    assert setting.run("fedtrip").model_sha256 == once.model_sha256
    assert setting.but(seed=4).run("fedtrip").model_sha256 != once.model_sha256
