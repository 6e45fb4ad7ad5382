"""APFL: FedAvg's w_k, and along its steps v_k ← v_k − ηα·g(u), u = αv_k + (1−α)w_k; own model αv_k + (1−α)w."""

import pytest
import torch
from tests.reference.naive import CLOSE
from tests.reference.naive_personal_methods import COST, assert_follows_personally, run_library, same
from tests.reference.quadratic import gradient_of, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised
from tests.reference.watching import bytes_of, watched
from torch import nn

from fedtrip.methods.apfl import Apfl, Mixture
from fedtrip.methods.interface import Memory
from fedtrip.training.costs import pass_cost

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)]}


def test_two_rounds_by_hand():
    # The global model is FedAvg's: 5.25, then 0.3125. α = ½, η = ½: v ← v − ¼(u − b), u = (v + w_k)/2.
    # Round 1: client 0 (b 4): u 0, v 1, w_k 2; u 1.5, v 1.625. Client 1 (b 8) has twice that.
    # Round 2: client 0 (v 1.625, w 5.25): u 3.4375, v 1.765625, w_k 4.625; u 3.1953125, v 1.966796875.
    # Client 2 (b −4) is new: u = v = 5.25; v 2.9375, w_k 0.625; u 1.78125, v 1.4921875.
    history = play(Apfl(), **QUADRATICS)
    assert w_of(history) == [[5.25], [0.3125]]
    own = [{k: float(memory["v"]) for k, memory in memories.items()} for _, memories in history]
    assert own == [{0: 1.625, 1: 3.25}, {0: 1.966796875, 1: 3.25, 2: 1.4921875}]
    server, memories = history[-1]
    assert float(Apfl().personal_model(server.model, memories[0])["w"]) == (1.966796875 + 0.3125) / 2
    assert Apfl().personal_model(server.model, Memory()) == server.model


def test_an_adaptive_share_by_hand():
    # b 1, η = ¼, α = ½, v 2, w_k 1.5: u 1.75, g(u) 0.75; v 2 − ⅛·0.75 = 1.90625; α ½ − ¼·½·0.75 = 0.40625.
    # The next step takes it, and leaves it: w_k 1, u = 1 + 0.40625·0.90625, v ← v − ¼·0.40625·(u − 1).
    mixture = Mixture(torch.tensor([2.0]), 0.5, 0.25, adaptive=True)

    def beside(w):
        return lambda offset=None: torch.tensor([w]) + (0 if offset is None else offset) - 1

    assert float(mixture.at(torch.tensor([1.5]), beside(1.5), 0)) == 0.5  # the gradient at w_k as it is
    assert (float(mixture.v), mixture.alpha) == (1.90625, 0.40625)
    mixture.at(torch.tensor([1.0]), beside(1.0), 1)
    assert mixture.alpha == 0.40625
    assert float(mixture.v) == pytest.approx(1.90625 - 0.25 * 0.40625**2 * 0.90625, rel=1e-6)


@pytest.mark.parametrize(("b", "wanted"), [(0.0, 0.0), (30.0, 1.0)])
def test_an_adaptive_share_stays_a_share(b, wanted):
    # w_k 0, v 20, u 10, η = 1: α ← ½ − 20·(10 − b), which is far below 0 or far above 1.
    mixture = Mixture(torch.tensor([20.0]), 0.5, 1.0, adaptive=True)
    mixture.at(torch.tensor([0.0]), lambda offset=None: (torch.zeros(1) if offset is None else offset) - b, 0)
    assert mixture.alpha == wanted


def test_the_slope_of_the_share_and_of_v_are_autograds():
    v, w_k, b = vectors(3)
    mixture = Mixture(v.clone(), 0.3, 0.01, adaptive=True)
    mixture.at(w_k, lambda offset=None: w_k + (0 if offset is None else offset) - b, 0)

    def objective(own, alpha):
        return 0.5 * (alpha * own + (1 - alpha) * w_k.double() - b.double()).square().sum()

    torch.testing.assert_close(mixture.v, v - 0.01 * gradient_of(lambda x: objective(x, 0.3), v), rtol=1e-5, atol=1e-6)
    slope = gradient_of(lambda alpha: objective(v.double(), alpha), torch.tensor(0.3))
    assert mixture.alpha == pytest.approx(0.3 - 0.01 * float(slope), rel=1e-5)


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.3, "adaptive": True}], ids=str)
def test_runs_like_the_reference(options, weight_decay):
    assert_follows_personally(Setting(weight_decay=weight_decay, local_epochs=2), "apfl", **options)


def test_statistics_of_batch_norm_are_the_global_models():
    assert_follows_personally(normalised(rounds=3), "apfl", adaptive=True)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.9, "adaptive": True}], ids=str)
@pytest.mark.parametrize("everything", [False, True])
def test_the_global_model_is_fedavgs_to_the_bit(options, everything):
    setting = Setting(momentum=0.0)
    if everything:
        module = made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2)))
        setting = setting.but(module=module, weight_decay=0.01, local_epochs=2)
    assert setting.run("apfl", **options).model_sha256 == setting.run("fedavg").model_sha256


def test_a_share_of_nothing_is_the_global_model_to_the_bit():
    model, own, _ = run_library(Setting(), "apfl", alpha=0.0)
    assert all(same(one, model) for one in own)


def test_a_share_of_everything_is_local_only():
    setting = Setting(per_round=5, rounds=3)  # all in round 1, so that all start from w⁰
    own, alone = run_library(setting, "apfl", alpha=1.0)[1], run_library(setting, "local")[1]
    for one, other in zip(own, alone, strict=True):
        assert max(float((one[name] - other[name]).abs().max()) for name in one) < CLOSE


def test_v_and_the_share_are_kept_and_nothing_more_travels():
    setting = normalised(rounds=3)
    _, records, history = watched(setting, "apfl", adaptive=True)
    _, usual, _ = watched(setting, "fedavg")
    w, model = bytes_of(setting)
    for record, fedavg in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * model
        assert record.client_memory == w + 4
        n = [len(setting.pairs[k][1]) for k in record.clients]
        steps = sum(-(-size // setting.batch_size) for size in n)
        more = sum(n) * pass_cost(setting.module, (6,)).training + 4 * steps * (w // 4)
        assert record.macs - fedavg.macs == more
    assert len({float(memory["alpha"]) for memory in history[-1][1] if not memory.is_new}) > 1
    assert Apfl().attaching(COST).flops == 7 * 4 * 300 + 4 * 7 * 10
    assert (Apfl().alpha, Apfl().adaptive, Apfl.momentum) == (0.5, False, 0.0)


@pytest.mark.parametrize("wrong", ["no share in the step of v", "the gradient at v", "gradients of w weighed too"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    def at(self, w_k, gradient, step):  # noqa: ARG001
        apart, slope = self.v - w_k, gradient()
        mixed = gradient(apart if wrong == "the gradient at v" else self.alpha * apart)
        self.v = self.v - self.lr * (1 if wrong == "no share in the step of v" else self.alpha) * mixed
        return (1 - self.alpha) * slope if wrong == "gradients of w weighed too" else slope

    monkeypatch.setattr(Mixture, "at", at)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, 0.0)
