"""Simulated faults: how often, the same for every method, more of them only adds, and what is sent instead."""

import pytest
import torch

from fedtrip.families import ATTACK

CHOSEN = tuple(range(40))


def over_rounds(rule, rounds=50):
    return [ATTACK.make(rule).faults(0, t, CHOSEN) for t in range(1, rounds + 1)]


def test_nobody_fails_without_an_attack():
    faults = ATTACK.make("none").faults(0, 1, CHOSEN)
    assert faults.dropped == ()
    assert not faults.spoiled


def test_clients_drop_out_as_often_as_asked_and_a_larger_share_only_adds():
    few, many = over_rounds("dropout:0.1"), over_rounds("dropout:0.3")
    assert sum(len(f.dropped) for f in few) / 2000 == pytest.approx(0.1, abs=0.03)
    assert sum(len(f.dropped) for f in many) / 2000 == pytest.approx(0.3, abs=0.04)
    assert all(set(less.dropped) <= set(more.dropped) for less, more in zip(few, many, strict=True))


def test_corrupted_clients_are_among_those_that_answer_and_drop_outs_are_the_same():
    both = over_rounds({"name": "corrupt:0.2", "dropout": 0.3})
    alone = over_rounds("dropout:0.3")
    assert [f.dropped for f in both] == [f.dropped for f in alone]
    assert all(not set(f.dropped) & f.spoiled.keys() for f in both)
    assert sum(len(f.spoiled) for f in both) / 2000 == pytest.approx(0.2 * 0.7, abs=0.03)


def test_what_is_sent_instead_is_not_a_number_infinite_or_too_short():
    upload = {"w": torch.ones(5), "counters": torch.ones(1, dtype=torch.int64)}
    kinds = set()
    for faults in over_rounds("corrupt:0.5", rounds=3):
        for spoil in faults.spoiled.values():
            sent = spoil(upload)
            assert sent["counters"] is upload["counters"]
            shape, nan = sent["w"].shape != (5,), bool(sent["w"].isnan().any())
            kinds.add("shape" if shape else "nan" if nan else "inf" if bool(sent["w"].isinf().any()) else "sound")
    assert kinds == {"shape", "nan", "inf"}
    assert upload["w"].tolist() == [1.0] * 5
