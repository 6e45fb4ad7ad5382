"""docs/fedma.md is what `python -m tools.fedma_matching` stored and wrote, and its matching is right."""

import json
from dataclasses import asdict
from itertools import pairwise, permutations

import numpy as np
import pytest
import tools.fedma_matching as tool
import torch
from tools.fedma_page import PAGE, is_usual, page

import fedtrip
from fedtrip.native.library import library
from fedtrip.randomness import permutation, stream


@pytest.fixture(scope="module")
def stored():
    return json.loads(tool.STORED.read_text(encoding="utf-8"))


def test_the_page_is_written_from_what_is_stored(stored):
    assert PAGE.read_text(encoding="utf-8") == page(stored)


@pytest.mark.skipif(library() is None, reason="what is stored was computed by the native engine")
@pytest.mark.parametrize(("number", "rounds"), [(0, (1, 5)), (7, (1,)), (9, (1, 5))])
def test_what_is_stored_is_what_is_measured(stored, number, rounds):
    """A part of it again: clients from one model with the usual rate and with the largest, and from their own."""
    case = stored["cases"][number]
    wanted = tool.CASES[number]
    assert {name: case[name] for name in asdict(wanted)} == asdict(wanted)
    for t, found in tool.measure(wanted, 0, rounds).items():
        again, before = asdict(found), case["after"][str(t)][0]
        assert {name: again[name] for name in ("units", "stayed", "is_fedavg")} == {
            name: before[name] for name in ("units", "stayed", "is_fedavg")
        }
        assert again["plain"] == pytest.approx(before["plain"], abs=1e-9)
        assert again["after"] == pytest.approx(before["after"], abs=1e-9)


def test_everything_is_stored(stored):
    assert stored["seeds"] == list(tool.SEEDS)
    assert len(stored["cases"]) == len(tool.CASES)
    for case in stored["cases"]:
        assert [len(found) for found in case["after"].values()] == [len(tool.SEEDS)] * len(tool.ROUNDS)
        assert list(case["after"]) == [str(number) for number in tool.ROUNDS]


def test_what_the_page_says_is_so(stored):
    for case in stored["cases"]:
        rounds = [one for found in case["after"].values() for one in found]
        if case["start"] == "its own":
            assert 0.5 < sum(one["stayed"] for one in rounds) / (sum(one["units"] for one in rounds) / 100) < 2
        elif is_usual(case):
            assert all(one["stayed"] == one["units"] and one["is_fedavg"] for one in rounds)
            assert all(one["plain"] == one["after"] for one in rounds)
        for number in ("20", "50"):  # only in the first rounds
            assert case["start"] == "its own" or all(one["is_fedavg"] for one in case["after"][number])
    left = [case for case in stored["cases"] if case["start"] == "one model" and not is_usual(case)]
    gains = [
        sum(one["after"] - one["plain"] for one in found) for case in left for found in case["after"].values()
    ]  # fmt: skip
    assert min(gains) < -0.01  # both ways
    assert max(gains) > 0.01
    assert stored["shuffled"] == {"copies": [[300, 300]] * 5, "clients": [[300, 300]] * 5}


def networks(count, sizes=(6, 9, 7, 3), seed=0, spread=1.0):
    """Networks with two hidden layers, near a common one if the spread is small."""
    rng = np.random.default_rng(seed)
    common = [(rng.normal(size=(o, i)), rng.normal(size=o)) for i, o in pairwise(sizes)]
    return [
        [(w + spread * rng.normal(size=w.shape), b + spread * rng.normal(size=b.shape)) for w, b in common]
        for _ in range(count)
    ]


def shuffled(layers, seed):
    generator = stream(seed, "test of a matching")
    return tool.permuted(layers, [permutation(generator, len(bias)) for _, bias in layers[:-1]])


def test_permuted_copies_of_a_network_are_matched_back():
    (network,) = networks(1)
    x = np.random.default_rng(1).normal(size=(20, 6))
    copies, samples = [shuffled(network, seed) for seed in range(4)], [3, 9, 2, 5]
    for copy in copies:
        np.testing.assert_allclose(tool.outputs(copy, x), tool.outputs(network, x), rtol=1e-9, atol=1e-12)
    orders = tool.matched(copies, samples)
    together = [tool.permuted(copy, order) for copy, order in zip(copies, orders, strict=True)]
    for copy in together:
        for (weight, bias), (goal, other) in zip(copy, copies[1], strict=True):  # the one with the most samples
            assert np.array_equal(weight, goal)
            assert np.array_equal(bias, other)
    mean = tool.mean(together, samples)
    np.testing.assert_allclose(tool.outputs(mean, x), tool.outputs(network, x), rtol=1e-9, atol=1e-12)
    plain = tool.outputs(tool.mean(copies, samples), x)
    assert float(np.abs(plain - tool.outputs(network, x)).max()) > 0.1  # what the matching is for


def test_units_that_were_shuffled_are_matched_as_if_they_were_not():
    clients, samples = networks(4, spread=0.1), [4, 2, 7, 1]
    assert all(
        np.array_equal(places, np.arange(len(places))) for order in tool.matched(clients, samples) for places in order
    )
    orders = tool.matched([shuffled(layers, seed) for seed, layers in enumerate(clients)], samples)
    together = [
        tool.permuted(shuffled(layers, seed), order)
        for seed, (layers, order) in enumerate(zip(clients, orders, strict=True))
    ]
    x = np.random.default_rng(1).normal(size=(20, 6))
    wanted = tool.outputs(tool.mean(clients, samples), x)
    np.testing.assert_allclose(tool.outputs(tool.mean(together, samples), x), wanted, rtol=1e-9, atol=1e-12)


def test_the_assignment_is_the_best_of_all():
    rows, reference = (np.random.default_rng(seed).normal(size=(5, 3)) for seed in (1, 2))

    def cost(places):
        return sum(((rows[i] - reference[j]) ** 2).sum() for j, i in enumerate(places))

    assert tuple(tool._assigned(rows, reference)) == min(permutations(range(5)), key=cost)


def test_if_all_stay_the_mean_is_fedavgs_to_the_bit():
    clients, samples = networks(4, spread=0.1), [4, 2, 7, 1]
    together = [
        tool.permuted(layers, order) for layers, order in zip(clients, tool.matched(clients, samples), strict=True)
    ]
    for one, other in zip(tool.mean(together, samples), tool.mean(clients, samples), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_plain_mean_is_the_servers():
    """Round 1 of a case, by the tool and by a run."""
    case = tool.CASES[1]
    federation = tool._federation(case, 0)
    ((_, outcomes),) = tool._in_rounds(federation, [1])
    flat = tool.PreparedModel.of(federation).flat
    mean = tool.mean([tool._layers(flat.state_dict(o.upload)) for o in outcomes], [o.samples for o in outcomes])
    result = fedtrip.run(federation.experiment.but(rounds=1), workers=1)
    for name, number in (("1", 0), ("3", 1)):
        for part, array in zip(("weight", "bias"), mean[number], strict=True):
            torch.testing.assert_close(
                result.state[f"{name}.{part}"].double(), torch.from_numpy(array), rtol=1e-6, atol=1e-7
            )


def without_the_next_layer(layers, orders):
    """Rows are permuted, but not the inputs of the layer above."""
    return [
        (weight, bias) if depth == len(orders) else (weight[orders[depth]], bias[orders[depth]])
        for depth, (weight, bias) in enumerate(layers)
    ]


def from_the_unit(rows, reference):
    """The inverse: where a unit goes to, in place of which unit comes."""
    return np.argsort(RIGHT(rows, reference))


RIGHT = tool._assigned


@pytest.mark.parametrize(("name", "wrong"), [("permuted", without_the_next_layer), ("_assigned", from_the_unit)])
def test_wrong_matchings_are_caught(monkeypatch, name, wrong):
    monkeypatch.setattr(tool, name, wrong)
    with pytest.raises(AssertionError):
        test_permuted_copies_of_a_network_are_matched_back()
