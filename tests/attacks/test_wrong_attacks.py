"""Wrong variants of the attacks that the ordinary tests catch: an attack that does less flatters every defence."""

import pytest
import torch
from tests.attacks import test_hostile

from fedtrip.attacks import _hostile, alie, gaussian, ipm
from fedtrip.attacks.alie import Alie
from fedtrip.attacks.backdoor import Backdoor
from fedtrip.attacks.ipm import Ipm
from fedtrip.attacks.labelflip import LabelFlip
from fedtrip.attacks.signflip import SignFlip
from fedtrip.randomness import choice, stream
from fedtrip.vectors import total

TESTS = test_hostile
RIGHT_POISONED, RIGHT_PROBE = Backdoor.poisoned, Backdoor.probe


def population(self, _own, view, _rng):
    return alie.honest_mean(view.honest) - self.zeta * view.honest.std(0, correction=0)


def added(self, _own, view, _rng):
    return alie.honest_mean(view.honest) + self.zeta * view.honest.std(0)


def with_itself(self, own, view, _rng):
    return -self.epsilon * ipm.honest_mean(torch.cat([view.honest, own[None]]))


def in_place(self, samples, rng):
    x, y = RIGHT_POISONED(self, samples, rng)
    samples.x.copy_(x)
    return x, y


def without_labels(self, samples, rng):
    return RIGHT_POISONED(self, samples, rng)[0], samples.y


def of_all(self, samples):
    return self._patched(samples.x.clone(), samples.brightest()), torch.full_like(samples.y, self.target)


WHO = lambda: TESTS.test_the_attackers_are_a_share_drawn_from_the_seed_and_a_larger_one_only_adds("ipm")  # noqa: E731
VARIANTS = {
    "another set for another share": (
        _hostile, "_drawn",
        lambda seed, clients, count: frozenset(choice(stream(seed, "attackers", count), clients, count)), WHO,
    ),
    "the first clients": (
        _hostile, "_drawn", lambda _seed, _clients, count: frozenset(range(count)),
        TESTS.test_every_client_attacks_for_some_seed,
    ),
    "rounded down": (_hostile, "_count", lambda share, clients: int(share * clients), WHO),
    "nothing flipped": (SignFlip, "crafted", lambda self, own, _view, _rng: self.scale * own,
                        TESTS.test_the_opposite_by_hand),
    "deviation of the population": (Alie, "crafted", population, TESTS.test_a_little_by_hand),
    "the other direction": (Alie, "crafted", added, TESTS.test_a_little_by_hand),
    "the variance": (alie, "square_root", lambda x: x, TESTS.test_a_little_by_hand),
    "one supporter more": (
        alie, "hidden_zeta", lambda n, m, right=alie.hidden_zeta: right(n + 2, m), TESTS.test_a_little_by_hand,
    ),
    "itself among the honest": (Ipm, "crafted", with_itself, TESTS.test_the_opposite_of_the_honest_mean_by_hand),
    "the root mean square": (
        gaussian, "deviation", lambda x: (total(x * x) / max(x.numel(), 1)) ** 0.5,
        TESTS.test_noise_as_large_as_what_was_computed,
    ),
    "the norm": (
        gaussian, "deviation", lambda x: total(x * x) ** 0.5, TESTS.test_noise_as_large_as_what_was_computed,
    ),
    "C − y": (
        LabelFlip, "poisoned", lambda _self, samples, _rng: (samples.x, samples.classes - samples.y),
        TESTS.test_labels_in_reverse_order,
    ),
    "not as long": (Backdoor, "crafted", lambda _self, own, _view, _rng: own, TESTS.test_replacing_the_model_by_hand),
    "the client's own images painted": (
        Backdoor, "poisoned", in_place, TESTS.test_half_of_the_images_have_the_patch_and_the_label,
    ),
    "a patch without the label": (
        Backdoor, "poisoned", without_labels, TESTS.test_half_of_the_images_have_the_patch_and_the_label,
    ),
    "success of the class itself": (Backdoor, "probe", of_all, TESTS.test_success_is_of_images_with_another_label),
    "success without the patch": (
        Backdoor, "_patched", lambda _self, x, _brightest: x, TESTS.test_success_is_of_images_with_another_label,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_caught(name, monkeypatch):
    owner, attribute, wrong, test = VARIANTS[name]
    test()  # the attack as it is passes
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        test()
