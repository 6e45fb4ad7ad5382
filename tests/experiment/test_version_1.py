"""Experiment files of version 1: read where they mean what they meant, refused where a name means another thing."""

import pytest

from fedtrip import Experiment, UserError


@pytest.mark.parametrize(
    "method",
    [
        "",
        'method = "fedtrip"',
        '[method]\nname = "fedtrip"\nmu = 0.4\nxi = "inverse-gap"',
        '[method]\nname = "fedtrip"\n[method.options]\nmu = "auto"',
        "[method]\nmu = 0.4",
    ],
    ids=["the old default", "by name", "with options", "with a table of options", "with options alone"],
)
def test_fedtrip_of_version_1_is_refused_with_both_new_names(method):
    with pytest.raises(UserError) as refused:
        Experiment.from_text(f"schema_version = 1\nrounds = 3\n{method}", "experiment file 'old.toml'")
    message = str(refused.value)
    assert message.startswith("experiment file 'old.toml': ")
    for part in ("schema_version is 1", "method 'fedtrip'", "the paper's", "'fedtrip-auto'", "accepted: "):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ('method = "fedavg"', Experiment(method="fedavg")),
        ('[method]\nname = "fedprox"\nmu = 0.3', Experiment(method={"name": "fedprox", "mu": 0.3})),
        ('[method]\nname = "fedprox"\n[method.options]\nmu = 0.3', Experiment(method={"name": "fedprox", "mu": 0.3})),
        ('dropout = 0.0\ncorrupt = 0.0\nmethod = "moon"', Experiment(method="moon")),
        ('dropout = 0.1\nmethod = "moon"', Experiment(method="moon", attack="dropout:0.1")),
        ('corrupt = 0.2\nmethod = "moon"', Experiment(method="moon", attack="corrupt:0.2")),
        (
            'dropout = 0.1\ncorrupt = 0.2\nmethod = "moon"',
            Experiment(method="moon", attack={"name": "corrupt:0.2", "dropout": 0.1}),
        ),
    ],
)
def test_other_files_of_version_1_mean_what_they_meant(old, now):
    assert Experiment.from_text(f"schema_version = 1\n{old}") == now


def test_a_file_without_a_version_is_of_this_one():
    assert Experiment.from_text('method = "fedtrip"') == Experiment(method="fedtrip")
    with pytest.raises(UserError, match="'dropout' is unknown"):
        Experiment.from_text("dropout = 0.1")


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("schema_version = true", "schema_version is True; accepted: 2"),
        ("schema_version = 1\nmethod = 3", "method is 3"),
        ('schema_version = 1\nmethod = "moon"\ndropout = 2.0', "dropout:2.0"),
    ],
)
def test_what_is_wrong_in_an_old_file_is_named(old, told):
    with pytest.raises(UserError, match=told):
        Experiment.from_text(old)
