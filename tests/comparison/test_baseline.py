"""`--baseline METHOD`: what speed-ups are over, in table, note, words and report."""

import json
from dataclasses import replace

import pytest
from tests.comparison.test_labels import Named
from tests.comparison.test_marks import runs, summary

from fedtrip import Experiment, UserError, compare
from fedtrip.comparison.baseline import baselines_of, check_baseline
from fedtrip.comparison.labels import with_labels
from fedtrip.comparison.tables import columns, note
from fedtrip.comparison.variants import make_variants
from fedtrip.methods.fedprox import FedProx
from fedtrip.report.parts import make_parts
from fedtrip.report.words import in_words

RUNS = {"fedtrip": [10, 12], "fedavg": [30, 33], "moon": [20, 21]}
SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "target": 0.05}


def made():
    return {label: runs(label, rounds) for label, rounds in RUNS.items()}


def test_speed_ups_are_over_the_baseline():
    usual, other = summary(made()), summary(made(), baseline="moon")
    assert usual["fedtrip"].speedup.mean == pytest.approx((30 * 33 / 10 / 12) ** 0.5)
    assert other["fedtrip"].speedup.mean == pytest.approx((20 * 21 / 10 / 12) ** 0.5)
    assert other["fedavg"].speedup.mean == pytest.approx((20 * 21 / 30 / 33) ** 0.5)
    assert other["moon"].speedup is None
    assert usual["fedavg"].speedup is None


def test_the_note_says_whose_rounds():
    for baseline, told in (("fedavg", "Speed-up: fedavg's rounds over"), ("moon", "Speed-up: moon's rounds over")):
        rows = list(summary(made(), baseline=baseline).values())
        assert told in note(rows, columns(rows))
        assert {one.baseline for one in rows} == {baseline}


def test_the_words_of_the_report_name_it():
    (part,) = make_parts(made(), baseline="moon")
    sentences = " ".join(in_words(part, None).sentences)
    assert "moon needed" in sentences
    (usual,) = make_parts(made())
    assert "fedavg needed" in " ".join(in_words(usual, None).sentences)


def variants(methods, sweeps=None):
    return make_variants(Experiment(), methods, sweeps or {})


def test_a_variant_a_method_or_a_class_may_be_meant():
    some = variants(["fedprox", Named(), "fedavg"], {"fedprox.mu": [0.1, 0.4]})
    assert baselines_of(some, "fedprox mu=0.4") == ["fedprox mu=0.4"]
    assert baselines_of(some, "fedprox") == ["fedprox mu=0.1", "fedprox mu=0.4"]
    for name in ("Named", "Ours (2026)", some[2].name):
        assert baselines_of(some, name) == ["Ours (2026)"]
    assert check_baseline(some, None) == "fedavg"


def test_of_a_swept_setting_each_value_has_its_own():
    some = variants(["fedavg", "fedprox"], {"lr": [0.1, 0.2]})
    assert check_baseline(some, "fedprox") == "fedprox"
    assert baselines_of(some, "fedprox") == ["fedprox lr=0.1", "fedprox lr=0.2"]


def test_a_method_means_its_tuned_variant_too_where_that_is_compared_with_others():
    plain = variants(["fedavg", "fedprox"])
    tuned = [replace(one, label=f"{one.label} tuned", name="", tuned=frozenset({"lr"})) for one in plain]
    assert baselines_of([*plain, *tuned], "fedavg") == ["fedavg", "fedavg tuned"]
    assert baselines_of([*plain, *tuned], "fedavg tuned") == ["fedavg tuned"]
    assert check_baseline([*plain, *tuned], "fedprox") == "fedprox"


def test_the_plain_method_is_meant_where_a_variant_of_it_has_the_same_settings():
    some = variants(["fedavg", "fedprox", FedProx(mu=0.5)])
    assert baselines_of(some, "fedprox") == ["fedprox"]
    assert check_baseline(some, "fedprox") == "fedprox"


def test_what_is_stored_is_the_label_so_that_a_report_finds_it():
    some = with_labels(variants(["fedavg", "fedprox"]), {"fedprox": "Theirs"})
    assert check_baseline(some, "fedprox") == check_baseline(some, "Theirs") == "Theirs"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("fedpox", "--baseline 'fedpox' is unknown; did you mean 'fedprox mu=0.4'? accepted: fedavg, fedprox mu=0.1, "),
        ("moon", "--baseline 'moon' is unknown;"),
        (
            "fedprox",
            "--baseline 'fedprox' is two variants with the same settings, 'fedprox mu=0.1' and 'fedprox mu=0.4'",
        ),
    ],
)
def test_a_baseline_that_is_not_one(asked, told, fedtrip, here):
    options = ("--methods", "fedavg,fedprox", "--set", "fedprox.mu=0.1,0.4")
    ended = fedtrip("compare", *options, "--baseline", asked)
    assert ended.code == 2
    assert told in ended.err
    assert not list(here.iterdir())
    with pytest.raises(UserError, match="baseline is 3; accepted: a text or None"):
        compare(Experiment(**SMALL), methods=["fedavg"], baseline=3)


def test_it_is_stored_and_the_report_has_it_again(fedtrip, here):
    options = ("--methods", "fedtrip,fedavg,moon", "--trials", 2, "--workers", 1, "-q", "--out", "cmp")
    small = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", value)]
    ended = fedtrip("compare", *small, *options, "--baseline", "moon")
    assert ended.code == 0, ended.err
    assert "moon's rounds over" in " ".join(ended.out.split())
    assert json.loads((here / "cmp/comparison.json").read_text())["baseline"] == "moon"
    rows = {one["variant"]: one for one in json.loads((here / "cmp/table.json").read_text())}
    assert rows["moon"]["speedup"] is None
    assert rows["fedavg"]["speedup"]["mean"] > 0
    assert {one["baseline"] for one in rows.values()} == {"moon"}
    for extra, told in (((), "moon"), (("--baseline", "fedtrip"), "fedtrip")):
        assert fedtrip("report", "cmp", *extra).code == 0
        assert f"Speed-up: {told}&#39;s rounds over" in (here / "cmp/report.html").read_text(encoding="utf-8")
    refused = fedtrip("report", "cmp", "--baseline", "nobody", "--out", "other.html")
    assert (refused.code, (here / "other.html").exists()) == (2, False)
    again = fedtrip("compare", *small, *options, "--resume")  # another baseline is the same comparison
    assert again.code == 0, again.err
    assert json.loads((here / "cmp/comparison.json").read_text())["baseline"] == "fedavg"
