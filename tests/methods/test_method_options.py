"""Options of the methods: what is refused, and that the message says method, option, value and range."""

import math

import pytest
from tests.reference.setting import Net, made, samples

import fedtrip
from fedtrip.experiment.federation import prepare
from fedtrip.families import METHOD
from fedtrip.methods.fedprox import FedProx
from fedtrip.methods.interface import make_method

RANGES = [
    ("fedprox", "mu", -0.1, "greater than or equal to 0"),
    ("fedprox", "mu", math.nan, "finite"),
    ("fedprox", "mu", math.inf, "finite"),
    ("fedtrip", "mu", -1, "greater than or equal to 0"),
    ("fedtrip", "mu", math.nan, "finite"),
    ("fedtrip", "mu", math.inf, "finite"),
    ("fedtrip-auto", "push", -0.5, "greater than or equal to 0"),
    ("fedtrip-auto", "push", math.nan, "finite"),
    ("fedtrip-auto", "tau", 0, "greater than 0"),
    ("fedtrip-auto", "tau", math.inf, "finite"),
    ("fedtrip.paper.study_rules:ConstantXi", "value", -0.5, "greater than or equal to 0"),
    ("fedtrip.paper.study_rules:ConstantXi", "value", math.nan, "finite"),
    ("fedtrip.paper.study_rules:AnnealedXi", "tau", -1, "greater than 0"),
    ("slowmo", "beta", 1, "less than 1"),
    ("slowmo", "beta", 1.5, "less than 1"),
    ("slowmo", "beta", -0.1, "greater than or equal to 0"),
    ("slowmo", "beta", math.nan, "less than 1"),
    ("slowmo", "beta", math.inf, "less than 1"),
    ("slowmo", "alpha", 0, "greater than 0"),
    ("slowmo", "alpha", -1, "greater than 0"),
    ("slowmo", "alpha", math.nan, "finite"),
    ("slowmo", "alpha", math.inf, "finite"),
    ("moon", "mu", -1, "greater than or equal to 0"),
    ("moon", "mu", math.nan, "finite"),
    ("moon", "tau", 0, "greater than 0"),
    ("moon", "tau", -0.5, "greater than 0"),
    ("moon", "tau", math.inf, "finite"),
    ("moon", "tau", math.nan, "finite"),
    ("feddyn", "alpha", 0, "greater than 0"),
    ("feddyn", "alpha", -1, "greater than 0"),
    ("feddyn", "alpha", math.nan, "finite"),
    ("feddyn", "alpha", math.inf, "finite"),
    ("scaffold", "option", "III", "'I' or 'II'"),
    ("scaffold", "option", "i", "'I' or 'II'"),
    ("scaffold", "eta_g", 0, "greater than 0"),
    ("scaffold", "eta_g", -1, "greater than 0"),
    ("scaffold", "eta_g", math.nan, "finite"),
    ("scaffold", "eta_g", math.inf, "finite"),
    ("mimelite", "beta", 1, "less than 1"),
    ("mimelite", "beta", -0.1, "greater than or equal to 0"),
    ("mimelite", "beta", math.nan, "less than 1"),
    ("mimelite", "beta", math.inf, "less than 1"),
    ("feddane", "mu", -0.1, "greater than or equal to 0"),
    ("feddane", "mu", math.nan, "finite"),
    ("feddane", "mu", math.inf, "finite"),
    ("fedgkd", "gamma", -0.1, "greater than or equal to 0"),
    ("fedgkd", "gamma", math.nan, "finite"),
    ("fedgkd", "gamma", math.inf, "finite"),
    ("fedgkd", "temperature", 0, "greater than 0"),
    ("fedgkd", "temperature", -1, "greater than 0"),
    ("fedgkd", "temperature", math.nan, "finite"),
    ("fedgkd", "models", 0, "greater than or equal to 1"),
    ("fedgkd", "models", -5, "greater than or equal to 1"),
    ("fedgkd", "models", 2.5, "integer"),
]
TYPES = [
    ("fedprox", "mu", "much", "number"),
    ("fedprox", "mu", None, "number"),
    ("fedprox", "mu", [0.1], "number"),
    ("fedtrip", "mu", "auto", "number"),
    ("fedtrip-auto", "push", "far", "number"),
    ("slowmo", "beta", {"value": 0.9}, "number"),
    ("moon", "tau", "warm", "number"),
    ("feddyn", "alpha", "α", "number"),
    ("scaffold", "option", 1, "'I' or 'II'"),
    ("scaffold", "eta_g", "fast", "number"),
    ("mimelite", "beta", None, "number"),
    ("feddane", "mu", [0.1], "number"),
    ("fedgkd", "models", "all", "integer"),
]


@pytest.mark.parametrize(("method", "option", "value", "accepted"), RANGES + TYPES)
def test_what_is_out_of_range_is_refused_with_the_range(method, option, value, accepted):
    with pytest.raises(fedtrip.UserError) as refused:
        make_method(method, {option: value}, model="cnn", dataset="mnist")
    message = str(refused.value)
    for part in (f"'{method}'", f"'{option}'", repr(value), accepted):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize("method", METHOD.names())
def test_an_unknown_option_is_refused_by_name(method):
    with pytest.raises(fedtrip.UserError) as refused:
        make_method(method, {"gamma_ray": 1.0}, model="cnn", dataset="mnist")
    assert f"'{method}'" in str(refused.value)
    assert "'gamma_ray'" in str(refused.value)


def test_a_misspelt_option_gets_a_suggestion():
    with pytest.raises(fedtrip.UserError, match="did you mean 'push'"):
        make_method("fedtrip-auto", {"psuh": 0.5}, model="cnn", dataset="mnist")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fedprox", {"mu": 0}),
        ("fedtrip", {"mu": 0}),
        ("fedtrip-auto", {"push": 0, "tau": 1e-3}),
        ("slowmo", {"beta": 0, "alpha": 2}),
        ("moon", {"mu": 0, "tau": 1e-3}),
        ("feddyn", {"alpha": 1e-6}),
        ("scaffold", {"option": "I", "eta_g": 1e-6}),
        ("mimelite", {"beta": 0}),
        ("feddane", {"mu": 0}),
        ("fedgkd", {"gamma": 0, "temperature": 1e-3, "models": 1}),
    ],
)
def test_the_edges_of_the_ranges_are_accepted(method, options):
    made = make_method(method, options, model="cnn", dataset="mnist")
    assert {name: getattr(made, name) for name in options} == options
    assert type(made) is METHOD.find(method)


@pytest.mark.parametrize(
    "choice", [{"name": "fedprox", "mu": -1}, {"name": "fedprox", **{"mu": -1}}, FedProx(mu=-1)], ids=str
)
def test_a_run_refuses_before_it_loads_anything(choice):
    experiment = fedtrip.Experiment(method=choice, dataset="npz:there-is-no-such-file.npz")
    with pytest.raises(fedtrip.UserError, match="'fedprox': option 'mu' is -1"):
        fedtrip.run(experiment)


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(fedtrip.UserError, match="method 'fedpox' is unknown; did you mean 'fedprox'"):
        make_method("fedpox", {}, model="cnn", dataset="mnist")


def arrays():
    pairs = samples([40, 12])
    return (*pairs[0], *pairs[1])


def test_a_model_of_ones_own_does_not_take_the_mlps_default():
    experiment = fedtrip.Experiment(method="fedtrip", clients=4, samples_per_client=9, mean=0.0, std=1.0)
    federation = prepare(experiment, model=made(Net), data=fedtrip.from_arrays(*arrays()))
    assert federation.method.mu == 0.4


def test_data_of_ones_own_are_split_equally_by_default():
    result = fedtrip.run(fedtrip.Experiment(clients=4, rounds=1), model=made(Net), data=arrays(), workers=1)
    assert result.experiment.samples_per_client == 10
    assert result.experiment.target is None
