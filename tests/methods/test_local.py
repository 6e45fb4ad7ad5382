"""Local only: each client goes on from its own w_k; nothing travels, the server's model stays w⁰."""

import pytest
from tests.reference.naive_personal_methods import (
    COST,
    assert_follows_personally,
    play_apart,
    run_library,
    same,
)
from tests.reference.setting import Setting, normalised, samples
from tests.reference.watching import watched

import fedtrip
from fedtrip import Experiment
from fedtrip.methods.local import LocalOnly

PERSONAL = ("local", "fedbn", "fedper", "lg-fedavg", "fedrep", "fedbabu", "ditto", "pfedme", "apfl")


def test_three_rounds_by_hand():
    # η = ½, two steps: w ← w/4 + ¾b. Client 0 (b 4, 8) has 3, 6 after its first round, 3.75, 7.5 after its second;
    # client 1 (b 8, −4) has 6, −3 and, whatever went on between, 7.5, −3.75 after its second, in round 3.
    history = play_apart(LocalOnly(), b=[[4.0, 8.0], [8.0, -4.0]], samples=[1, 3], chosen=[(0, 1), (0,), (1,)])
    assert [w for w, _ in history] == [[0.0, 0.0]] * 3
    assert [own for _, own in history] == [
        {0: [3.0, 6.0], 1: [6.0, -3.0]},
        {0: [3.75, 7.5], 1: [6.0, -3.0]},
        {0: [3.75, 7.5], 1: [7.5, -3.75]},
    ]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_runs_like_the_reference(momentum):
    assert_follows_personally(Setting(momentum=momentum, weight_decay=0.03, local_epochs=2), "local")


def test_batch_norm_is_each_clients_own():
    assert_follows_personally(normalised(weight_decay=0.02, rounds=4), "local")


def test_the_other_clients_change_nothing():
    setting = Setting()
    others = samples(seed=9)
    for k in range(len(setting.pairs)):
        alone = setting.but(pairs=[pair if j == k else others[j] for j, pair in enumerate(setting.pairs)])
        assert same(run_library(alone, "local")[1][k], run_library(setting, "local")[1][k])
    model, own, _ = run_library(setting, "local")
    assert same(model, setting.module.state_dict())
    assert len({tuple(one["head.bias"].tolist()) for one in own}) > 2


def test_nothing_travels_and_the_model_is_kept():
    setting = normalised(rounds=3)
    _, records, _ = watched(setting, "local")
    model = sum(v.nbytes for v in setting.module.state_dict().values())
    for record in records:
        assert (record.bytes_down, record.bytes_up, record.client_memory) == (0, 0, model)
    assert LocalOnly().attaching(COST).flops == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"combine": "median"},
        {"upload_codec": "int8"},
        {"upload_codec": "topk:0.5"},
        {"server_optimizer": "adam"},
        {"attack": "corrupt:0.5"},
    ],
    ids=str,
)
def test_other_rules_have_nothing_to_work_on(changes):
    setting = Setting(rounds=3)
    experiment = setting.experiment("local").but(**changes)
    result = fedtrip.run(experiment, model=setting.module, data=setting.data, workers=1)
    assert result.ended is None
    assert same(result.state, setting.module.state_dict())


@pytest.mark.parametrize("method", PERSONAL)
def test_both_scores_of_every_personal_method_are_told_and_workers_change_nothing(method, tmp_path):
    experiment = Experiment(
        method=method,
        rounds=3,
        samples_per_client=60,
        client_test=0.2,
        eval_clients=1,
        unseen_clients=2,
        lr=0.1,
        seed=5,
    )
    one = fedtrip.run(experiment, workers=1, out=tmp_path / "one")
    two = fedtrip.run(experiment, workers=2)
    assert one.model_sha256 == two.model_sha256
    assert [record.client_scores for record in one.records] == [record.client_scores for record in two.records]
    assert list(one.client_scores) == (["global"] if method == "fedbn" else ["global", "personal"])
    assert fedtrip.load_result(tmp_path / "one").client_scores == one.client_scores
    if method != "fedbn":  # the model has no norm layers
        assert one.client_scores["global"] != one.client_scores["personal"]
        assert "clients_personal_mean" in one.frame()


def test_both_scores_are_in_the_table_and_the_report_of_a_comparison(tmp_path):
    experiment = Experiment(rounds=2, samples_per_client=60, client_test=0.2, eval_clients=1, lr=0.1)
    compared = fedtrip.compare(experiment, methods=["fedavg", "local", "ditto"], trials=1, workers=1, out=tmp_path)
    assert {"global", "personal"} == set(compared.rows[1].client_scores) == set(compared.rows[2].client_scores)
    assert "personal" not in compared.rows[0].client_scores
    assert "personal client mean" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_client_that_starts_anew_each_round_is_caught(monkeypatch):
    monkeypatch.setattr(LocalOnly, "stays", lambda self, layout: frozenset())  # noqa: ARG005
    with pytest.raises(AssertionError):
        test_three_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(0.0)
