"""Attacks by a share of the clients: who attacks, what they send and train on, by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from fedtrip.attacks.alie import hidden_zeta, quantile
from fedtrip.attacks.interface import Samples, View
from fedtrip.errors import UserError
from fedtrip.families import ATTACK
from fedtrip.inputs import InputSpec
from fedtrip.randomness import stream

HOSTILE = ["signflip", "labelflip", "gaussian", "alie", "ipm", "backdoor"]
IMAGES = InputSpec.numbers(1, 4, 4)


def attackers(rule, clients=40, seed=0):
    return ATTACK.make(rule).attackers(seed, clients)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_attackers_are_a_share_drawn_from_the_seed_and_a_larger_one_only_adds(name):
    few, many = attackers(f"{name}:0.1"), attackers(f"{name}:0.4")
    assert (len(few), len(many)) == (4, 16)
    assert few < many < frozenset(range(40))
    assert few == attackers("signflip:0.1")  # the same ones, whatever they do
    assert attackers(f"{name}:0.4", seed=1) != many
    assert not attackers(f"{name}:0")
    assert [len(attackers(f"{name}:{share}", 10)) for share in (0.04, 0.05, 0.3, 1)] == [0, 1, 3, 10]
    faults = ATTACK.make(f"{name}:0.4").faults(0, 1, range(40))
    assert (faults.dropped, faults.spoiled) == ((), {})


def test_every_client_attacks_for_some_seed():
    drawn = [attackers("ipm:0.1", 10, seed) for seed in range(200)]
    times = [sum(client in one for one in drawn) for client in range(10)]
    assert min(times) > 8
    assert max(times) < 40


@pytest.mark.parametrize("name", HOSTILE)
def test_a_share_that_is_nobody_is_refused(name):
    ATTACK.make(f"{name}:0").check(IMAGES, 10, 10)
    ATTACK.make(f"{name}:0.05").check(IMAGES, 10, 10)
    with pytest.raises(UserError, match=rf"attack '{name}:0.04.*none of 10 clients; accepted: 0, or at least 0.05"):
        ATTACK.make(f"{name}:0.04").check(IMAGES, 10, 10)


def sent(rule, own, honest=((0.0,),), clients=4, count=1, key=0):
    view = View(clients, count, torch.tensor(honest, dtype=torch.float64))
    return ATTACK.make(rule).crafted(torch.tensor(own, dtype=torch.float64), view, stream(0, "test", key)).tolist()


def test_the_opposite_by_hand():
    assert sent("signflip:0.2", [1.0, -2.0]) == [-1.0, 2.0]
    assert sent("signflip:0.2:3", [1.0, -2.0]) == [-3.0, 6.0]


def test_the_opposite_of_the_honest_mean_by_hand():
    assert sent("ipm:0.2", [9.0, 9.0], [[1.0, 0.0], [3.0, -10.0]]) == pytest.approx([-0.2, 0.5], rel=1e-15)
    assert sent("ipm:0.2:2", [9.0, 9.0], [[1.0, 0.0], [3.0, -10.0]]) == [-4.0, 10.0]


def test_a_little_by_hand():
    # mean 2 and −5; squares 1 + 1 over n − 1 = 1: √2; 25 + 25: √50
    honest = [[1.0, 0.0], [3.0, -10.0]]
    assert sent("alie:0.2", [9.0, 9.0], honest) == pytest.approx([2 - 1.5 * 2**0.5, -5 - 1.5 * 50**0.5], rel=1e-15)
    assert sent("alie:0.2:-1", [9.0, 9.0], honest) == pytest.approx([2 + 2**0.5, -5 + 50**0.5], rel=1e-15)
    assert sent("alie:0.2", [9.0], [[3.0]]) == [3.0]  # of one client there is no deviation
    apart = sent("alie:0.2:auto", [9.0, 9.0], honest, clients=20, count=4)
    assert apart == pytest.approx([2 - 0.15731 * 2**0.5, -5 - 0.15731 * 50**0.5], rel=1e-5)


def test_how_far_a_little_may_go():
    assert hidden_zeta(10, 2) == 0  # harmless
    assert hidden_zeta(20, 4) == pytest.approx(0.1573, abs=5e-5)
    assert hidden_zeta(50, 12) == pytest.approx(0.3360, abs=5e-5)
    for n, m in [(4, 1), (9, 3), (30, 11), (100, 45)]:
        share = (n - m - (math.floor(n / 2 + 1) - m)) / (n - m)
        assert hidden_zeta(n, m) == pytest.approx(stats.norm.ppf(share), rel=1e-12)
    assert hidden_zeta(10, 7) == pytest.approx(stats.norm.ppf(1 - 0.5 / 3))  # a majority: s = −1
    assert hidden_zeta(2, 1) == hidden_zeta(1, 1) == 0


def test_the_normal_quantile():
    for p in (1e-4, 0.01, 0.2, 0.5, 0.77, 0.999, 0.9999):
        assert quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9)


def test_noise_as_large_as_what_was_computed():
    own = [1.0, 3.0] * 5000  # mean 2, deviation 1: not the root mean square, √5
    noise, other = np.array(sent("gaussian:0.2", own)), np.array(sent("gaussian:0.2", own, key=1))
    assert noise.mean() == pytest.approx(0, abs=0.05)
    assert noise.std() == pytest.approx(1, rel=0.03)
    assert abs(np.corrcoef(noise, own)[0, 1]) < 0.05
    assert abs(np.corrcoef(noise, other)[0, 1]) < 0.05
    assert np.array(sent("gaussian:0.2:7", own)) == pytest.approx(7 * noise)
    assert sent("gaussian:0.2", [2.0, 2.0]) == [0.0, 0.0]
    assert sent("gaussian:0.2", []) == []


def test_replacing_the_model_by_hand():
    assert sent("backdoor:0.2", [1.0, -2.0], clients=10, count=2) == [5.0, -10.0]  # γ = |S|/m
    assert sent({"name": "backdoor:0.2", "gamma": 2}, [1.0, -2.0], clients=10, count=2) == [2.0, -4.0]


def images(count=6, side=4):
    x = torch.arange(count * side * side, dtype=torch.float32).reshape(count, 1, side, side) / 1000
    return Samples(x, torch.arange(count) % 4, 4, lambda: torch.full((1, 1, side, side), 9.0))


def test_labels_in_reverse_order():
    samples = images()
    x, y = ATTACK.make("labelflip:0.2").poisoned(samples, stream(0, "test"))
    assert y.tolist() == [3, 2, 1, 0, 3, 2]
    assert x is samples.x
    assert samples.y.tolist() == [0, 1, 2, 3, 0, 1]


def test_half_of_the_images_have_the_patch_and_the_label():
    samples = images(7)
    x, y = ATTACK.make("backdoor:0.2:3").poisoned(samples, stream(0, "test"))
    changed = (x != samples.x).flatten(1).any(1)
    assert int(changed.sum()) == 4  # ⌊3.5 + ½⌋
    assert y[changed].tolist() == [3] * 4
    assert y[~changed].tolist() == samples.y[~changed].tolist()
    patched = x[changed]
    assert bool((patched[..., 1:, 1:] == 9).all())
    assert bool((patched[..., 0, :] == samples.x[changed][..., 0, :]).all())
    assert bool((patched[..., :, 0] == samples.x[changed][..., :, 0]).all())
    other = ATTACK.make("backdoor:0.2:3").poisoned(samples, stream(1, "test"))[0]
    assert not torch.equal(other, x)
    assert float(samples.x.max()) < 1  # as it was


def test_other_options_of_the_patch():
    rule = {"name": "backdoor:0.2:1", "patch": 1, "poisoned_share": 1}
    x, y = ATTACK.make(rule).poisoned(images(), stream(0, "test"))
    assert y.tolist() == [1] * 6
    assert (x == 9).sum() == 6


def test_success_is_of_images_with_another_label():
    samples, attack = images(), ATTACK.make("backdoor:0.2:1")
    assert attack.probed(samples.y).tolist() == [True, False, True, True, True, False]
    x, y = attack.probe(samples)
    assert y.tolist() == [1] * 4
    assert bool((x[..., 1:, 1:] == 9).all())
    assert torch.equal(x[..., 0, :], samples.x[[0, 2, 3, 4]][..., 0, :])
    assert float(samples.x.max()) < 1


@pytest.mark.parametrize(
    ("inputs", "classes", "told"),
    [
        (InputSpec.numbers(6), 10, r"patch of 3×3 pixels on images, but the samples have shape \(6,\)"),
        (InputSpec.numbers(1, 2, 8), 10, r"but the samples have shape \(1, 2, 8\)"),
        (InputSpec.tokens(8, 8, vocabulary=5), 10, "type int64"),
        (IMAGES, 7, "target is 7; accepted: a class, 0 to 6"),
    ],
)
def test_a_backdoor_needs_images_and_a_class(inputs, classes, told):
    with pytest.raises(UserError, match=rf"attack 'backdoor:0.2:7.*{told}"):
        ATTACK.make("backdoor:0.2:7").check(inputs, classes, 10)
    ATTACK.make("backdoor:0.2:7").check(IMAGES, 8, 10)
    ATTACK.make("backdoor:0.2:7").check(InputSpec.numbers(8, 8), 8, 10)  # without channels


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("signflip:-0.1", "attack 'signflip:-0.1': option 'share' is"),
        ("signflip:1.1", "attack 'signflip:1.1': option 'share' is"),
        ("signflip", "attack 'signflip' needs the option 'share'; accepted: signflip:SHARE"),
        ("signflip:0.2:0", "attack 'signflip:0.2:0': option 'scale' is"),
        ("gaussian:0.2:-1", "attack 'gaussian:0.2:-1': option 'scale' is"),
        ("alie:0.2:often", "attack 'alie:0.2:often': option 'zeta' is.*auto"),
        ("alie:0.2:inf", "attack 'alie:0.2:inf': option 'zeta' is"),
        ("ipm:0.2:0", "attack 'ipm:0.2:0': option 'epsilon' is"),
        ("backdoor:0.2:-1", "attack 'backdoor:0.2:-1': option 'target' is"),
        ({"name": "backdoor:0.2", "gamma": 0}, "attack 'backdoor:0.2': option 'gamma' is"),
        ({"name": "backdoor:0.2", "patch": 0}, "attack 'backdoor:0.2': option 'patch' is"),
        ({"name": "backdoor:0.2", "poisoned_share": 0}, "attack 'backdoor:0.2': option 'poisoned_share' is"),
        ("labelflip:0.2:1", "labelflip"),
    ],
)
def test_bad_options_are_refused_by_name(rule, told):
    with pytest.raises(UserError, match=told):
        ATTACK.make(rule)
