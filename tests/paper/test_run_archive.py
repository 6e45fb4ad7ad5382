"""The archive of finished runs: what comes back is what was run, found by the experiment however it is written."""

import json
from dataclasses import replace

import pytest

import fedtrip
from fedtrip import Experiment, UserError
from fedtrip.paper.archive import Archive, identity

SMALL = {"rounds": 3, "samples_per_client": 20}


@pytest.fixture(scope="module")
def result():
    return fedtrip.run(Experiment(method="fedtrip", **SMALL), workers=1)


def test_a_run_comes_back_with_all_its_rounds(result, tmp_path):
    Archive(tmp_path).add(result)
    found = Archive(tmp_path).find(Experiment(method="fedtrip", **SMALL))
    assert found is not None
    assert found.curve == [(number, pytest.approx(accuracy, rel=1e-5)) for number, accuracy in result.curve]
    for stored, record in zip(found.records, result.records, strict=True):
        assert stored.scores == pytest.approx(record.scores, rel=1e-5)
        assert replace(stored, seconds=0, scores={}) == replace(record, seconds=0, scores={})
    assert found.model_sha256 == result.model_sha256
    assert found.gflops_per_round == result.gflops_per_round
    assert found.costs(2) == result.costs(2)


@pytest.mark.parametrize(
    "same",
    [
        {"target": 0.5},  # changes what is read off a run, not the run
        {"snapshot": (1, 2)},
        {"clients": 10, "per_round": 4, "partition": "dirichlet:0.5", "momentum": 0.9},  # the defaults, written out
        {"method": {"name": "fedtrip", "mu": 1.0}},  # the paper's of an MLP
        {"optimizer": "sgd", "attack": "none", "combine": {"name": "mean"}},
    ],
)
def test_found_by_the_same_run_however_it_is_written(result, tmp_path, same):
    archive = Archive(tmp_path)
    archive.add(result)
    wanted = Experiment(**{"method": "fedtrip", **SMALL, **same})
    found = archive.find(wanted)
    assert found is not None
    assert found.experiment.target == same.get("target", 0.9)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1}, {"rounds": 4}, {"method": "fedavg"}, {"method": {"name": "fedtrip", "mu": 0.9}}, {"lr": 0.02},
        {"method": "fedtrip-auto"}, {"method": "fedtrip.paper.study_rules:AnnealedXi"}, {"attack": "dropout:0.5"},
        {"stop_at_target": True}, {"draw": "nested"}, {"mean": 0.5, "std": 0.5}, {"keep_optimizer_state": True},
    ],
)  # fmt: skip
def test_not_found_by_another_run(result, tmp_path, other):
    archive = Archive(tmp_path)
    archive.add(result)
    assert archive.find(Experiment(**{"method": "fedtrip", **SMALL, **other})) is None


def test_a_target_counts_where_the_run_stops_there():
    at = [identity(Experiment(stop_at_target=True, target=target)) for target in (0.5, 0.6)]
    assert at[0] != at[1]


def test_trials_of_a_setting_share_a_file_in_the_order_of_their_seeds(tmp_path):
    archive = Archive(tmp_path)
    for seed in (2, 0, 1):
        archive.add(fedtrip.run(Experiment(method="fedavg", **SMALL, seed=seed), workers=1))
    (path,) = tmp_path.glob("*/*.jsonl")
    assert path.parent.name == "digits-mlp-dirichlet-0.5-4of10"
    assert [json.loads(line)["experiment"]["seed"] for line in path.read_text().splitlines()] == [0, 1, 2]
    assert len(Archive(tmp_path)) == 3


def test_a_run_added_again_replaces_its_line(result, tmp_path):
    archive = Archive(tmp_path)
    archive.add(result)
    archive.add(result)
    (path,) = tmp_path.glob("*/*.jsonl")
    assert len(path.read_text().splitlines()) == 1


def test_a_loss_that_is_not_finite_is_kept_as_missing(result, tmp_path):
    scores = {"accuracy": 0.5, "loss": float("inf")}
    worse = replace(result, records=tuple(replace(r, scores=scores) for r in result.records))
    Archive(tmp_path).add(worse)
    (run,) = Archive(tmp_path)
    assert [(record.accuracy, record.loss) for record in run.records] == [(0.5, None)] * 3


def test_a_round_that_was_not_evaluated_has_no_scores(tmp_path):
    experiment = Experiment(method="fedavg", eval_every=2, **SMALL)
    result = fedtrip.run(experiment, workers=1)
    Archive(tmp_path).add(result)
    found = Archive(tmp_path).find(experiment)
    assert [sorted(record.scores) for record in found.records] == [sorted(record.scores) for record in result.records]
    assert not found.records[0].scores


def test_a_rule_of_the_study_is_kept_and_found_and_foreign_code_is_not(tmp_path):
    """The study's rules are named like anybody's own, but they are of this package: reading them runs no other code."""
    experiment = Experiment(method="fedtrip.paper.study_rules:AnnealedXi", **SMALL)
    result = fedtrip.run(experiment, workers=1)
    Archive(tmp_path).add(result)
    (path,) = tmp_path.glob("*/AnnealedXi-*.jsonl")
    assert Archive(tmp_path).find(experiment).model_sha256 == result.model_sha256
    for foreign in ("somebodys.code:Method", "fedtripp.paper:Method"):
        path.write_text(path.read_text().replace(json.loads(path.read_text())["experiment"]["method"]["name"], foreign))
        with pytest.raises(UserError, match=f"it names code, method '{foreign}'"):
            Archive(tmp_path)


def test_a_line_of_version_1_that_names_fedtrip_is_refused(result, tmp_path):
    Archive(tmp_path).add(result)
    (path,) = tmp_path.glob("*/*.jsonl")
    path.write_text(path.read_text().replace('"schema_version":2', '"schema_version":1'))
    with pytest.raises(UserError, match="'fedtrip-auto'"):
        Archive(tmp_path)


@pytest.mark.parametrize("line", ["{", "{}", '{"rounds": 1, "columns": {}}', "[]"])
def test_a_damaged_line_is_named(tmp_path, line):
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "fedavg-0.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"fedavg-0\.jsonl' is damaged at line 1"):
        Archive(tmp_path)
