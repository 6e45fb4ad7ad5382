"""Samples that nobody trains on: how many, whose, and that none of them is ever trained on."""

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip import Experiment
from fedtrip.errors import UserError
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.held_out import held_out_rows
from fedtrip.training.workbench import Workbench

SMALL = {"rounds": 2, "samples_per_client": 100, "method": "fedavg"}


def rows_of(shares, clients=10):
    return {int(row) for client in range(clients) for row in shares.share(client)}


def test_of_every_class_the_same_share_is_taken():
    strata = np.array([0] * 10 + [1] * 4 + [2])
    test, validation, rest = held_out_rows(strata, (0.2, 0.25), seed=3)
    taken = [[int((strata[rows] == stratum).sum()) for stratum in (0, 1, 2)] for rows in (test, validation, rest)]
    assert taken == [[2, 1, 0], [3, 1, 0], [5, 2, 1]]  # ⌊2.0 + ½⌋, ⌊0.8 + ½⌋; ⌊2.5 + ½⌋, ⌊1 + ½⌋; the last row stays
    assert sorted(torch.cat([test, validation, rest]).tolist()) == list(range(15))
    again, other = held_out_rows(strata, (0.2, 0.25), seed=3), held_out_rows(strata, (0.2, 0.25), seed=4)
    assert again[0].tolist() == test.tolist()
    assert [part.tolist() for part in other] != [part.tolist() for part in again]


@pytest.mark.parametrize("draw", ["overlap", "nested", "disjoint"])
@pytest.mark.parametrize("at", ["server", "clients"])
def test_no_held_out_sample_is_trained_on_however_the_draws_overlap(draw, at):
    federation = prepare(Experiment(**SMALL, draw=draw, validation=0.1, validation_at=at, client_test=0.2))
    held_out, trained = federation.held_out, rows_of(federation.partition)
    tested = rows_of(held_out.own_tests)
    if at == "server":
        validated = set(held_out.validation.tolist())
        assert [federation.partition.samples(0), held_out.own_tests.samples(0), len(validated)] == [80, 20, 145]
    else:
        validated = rows_of(held_out.client_validation)
        sizes = [federation.partition.samples(0), held_out.own_tests.samples(0), held_out.client_validation.samples(0)]
        assert sizes == [70, 20, 10]
    assert not trained & tested
    assert not trained & validated
    assert not tested & validated
    assert max(trained | tested | validated) < len(federation.dataset.y_train)


def test_an_equal_part_for_everybody_is_enough_for_all_that_is_held_out():
    """By default a client has its part of the set: disjoint, with both shares, nothing is asked for twice."""
    x, y = np.random.default_rng(0).normal(size=(1003, 3)), np.arange(1003) % 4
    data = fedtrip.from_arrays(x, y, x, y)
    for at in ("server", "clients"):
        experiment = Experiment(rounds=1, draw="disjoint", partition="iid", validation=0.1, client_test=0.2)
        federation = prepare(experiment.but(validation_at=at), data=data)
        trained, tested = rows_of(federation.partition), rows_of(federation.held_out.own_tests)
        assert (len(trained), len(tested)) == ((720, 180) if at == "server" else (700, 200))


def test_validation_at_the_clients_without_a_share_is_none():
    federation = prepare(Experiment(**SMALL, validation_at="clients", client_test=0.2))
    assert not federation.held_out.validates


def test_without_it_nothing_changes():
    plain, zero = prepare(Experiment(**SMALL)), prepare(Experiment(**SMALL, validation=0.0, client_test=0.0))
    assert plain.partition.share(3).tolist() == zero.partition.share(3).tolist()
    assert plain.held_out.own_tests is None
    assert not plain.held_out.validates


def test_a_clients_own_test_set_looks_like_its_training_samples():
    fields = {**SMALL, "samples_per_client": 300}
    federation = prepare(Experiment(**fields, partition="dirichlet:0.1", client_test=0.25))
    labels = federation.dataset.y_train
    for client in range(10):
        train, test = (
            torch.bincount(labels[shares.share(client)], minlength=10) / shares.samples(client)
            for shares in (federation.partition, federation.held_out.own_tests)
        )
        assert float((train - test).abs().sum()) / 2 < 0.12  # total variation; two other clients are 0.5 apart and more


def test_data_that_come_split_lose_a_part_of_every_client():
    x, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    owners = np.array([0] * 20 + [1] * 9 + [2])
    data = fedtrip.from_arrays(x, y, x, y, client_train=owners)
    federation = prepare(Experiment(rounds=1, client_test=0.2, validation=0.1, validation_at="clients"), data=data)
    parts = federation.partition, federation.held_out.own_tests, federation.held_out.client_validation
    assert [[part.samples(client) for client in range(3)] for part in parts] == [[14, 6, 1], [4, 2, 0], [2, 1, 0]]
    assert {int(row) for part in parts for row in part.share(0)} == set(range(20))


def test_clients_may_bring_their_own_test_sets():
    pairs = [(np.full((6, 2), float(k)), np.arange(6) % 2) for k in range(3)]
    tests = [(np.full((2 + k, 2), 10.0 + k), np.arange(2 + k) % 2) for k in range(3)]
    data = fedtrip.from_clients(pairs, tests, mean=0.0, std=1.0)
    federation = prepare(Experiment(rounds=1, eval_clients=1), data=data)
    x, y = Workbench(federation)._samples("test", 1)
    assert (x[:, 0].tolist(), y.tolist()) == ([11.0] * 3, [0, 1, 0])
    assert Workbench(federation)._samples("test", None)[0].shape == (9, 2)
    with pytest.raises(UserError, match=r"client_test is 0\.2, but the data come with a test set of each client"):
        prepare(Experiment(rounds=1, client_test=0.2), data=fedtrip.from_clients(pairs, tests))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"validation": 1.0}, "validation is 1.0; accepted: less than 1"),
        ({"validation": 0.6, "client_test": 0.4}, "accepted: together below 1"),
        ({"patience": 3}, "patience is 3, but validation is 0; accepted: a share above 0"),
        ({"keep_best": True}, "keep_best is True, but validation is 0"),
        ({"eval_clients": 2}, "eval_clients is 2, but the clients have no test sets; accepted: client_test"),
        ({"eval_clients": "always"}, "eval_clients is 'always'; accepted: every:N"),
        ({"client_test": 0.001}, "of a client's 100 samples that is none; accepted: at least 0.005"),
        (
            {"client_test": 0.5, "validation": 0.499, "validation_at": "clients"},
            "samples_per_client is 100, of which 50 are held out to test and 50 to validate",
        ),
        ({"unseen_clients": 10}, "unseen_clients is 10; accepted: fewer than the 10 clients"),
        ({"unseen_clients": 7, "per_round": 4}, "at most the number of clients that take part, 3"),
    ],
)
def test_what_cannot_be_is_refused(fields, told):
    with pytest.raises(UserError) as refused:
        prepare(Experiment(**{**SMALL, **fields}))
    assert told in str(refused.value)


def test_rounds_between_are_written_as_every():
    assert Experiment(eval_clients="every:5").eval_clients == Experiment(eval_clients=5).eval_clients == 5
