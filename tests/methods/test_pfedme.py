"""pFedMe: θ by R steps η_p(g(θ) + λ(θ − w_k)) on each batch, w_k ← w_k − ηλ(w_k − θ); w ← (1−β)w + β·mean."""

import pytest
import torch
from tests.reference.naive_personal_methods import COST, assert_follows_personally, run_library
from tests.reference.quadratic import gradient_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised
from tests.reference.watching import watched

from fedtrip.errors import UserError
from fedtrip.experiment.rules import make_rules
from fedtrip.methods.pfedme import Envelope, PFedMe
from fedtrip.training.costs import pass_cost

QUADRATICS = {"b": [[4.0], [8.0]], "samples": [1, 3], "chosen": [(0,), (0, 1)]}


def test_two_rounds_by_hand():
    # λ = 1, R = 1, η_p = ¼: θ ← θ − ¼(θ − b + θ − w_k) = θ/2 + (b + w_k)/4; η = ½: w_k ← (w_k + θ)/2; β = ½.
    # Round 1, client 0 (b 4): θ 1, w_k 0.5; θ 0.5 + 4.5/4 = 1.625, w_k 1.0625; w = 0.53125.
    # Round 2, from θ = w = 0.53125, not from the θ that was kept: client 0: θ 1.3984375, w_k 0.96484375;
    # θ 1.9404296875, w_k 1.45263671875. Client 1 (b 8): θ 2.3984375, w_k 1.46484375; θ 3.5654296875, w_k 2.51513671875.
    # The mean is (1.45263671875 + 3·2.51513671875)/4 = 2.24951171875, w = ½(0.53125 + 2.24951171875).
    history = play(PFedMe(lam=1.0, steps=1, eta_p=0.25, beta=0.5), **QUADRATICS)
    assert w_of(history) == [[0.53125], [1.390380859375]]
    own = [{k: float(memory["w"]) for k, memory in memories.items()} for _, memories in history]
    assert own == [{0: 1.625}, {0: 1.9404296875, 1: 3.5654296875}]


def test_theta_descends_the_written_objective():
    w_k, theta, b = vectors(3)
    envelope = Envelope(theta.clone(), 3.0, 1, 0.01)
    h = envelope.at(w_k, lambda offset: w_k + offset - b, 0)

    def objective(x):
        return 0.5 * (x - b.double()).square().sum() + 1.5 * (x - w_k.double()).square().sum()

    wanted = theta - 0.01 * gradient_of(objective, theta)
    torch.testing.assert_close(envelope.theta, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(h, 3.0 * (w_k - wanted), rtol=1e-5, atol=1e-5)


def test_with_many_steps_it_is_the_gradient_of_the_moreau_envelope():
    # min_θ ½(θ − b)² + (λ/2)(θ − w)² has the value ½·λ/(1+λ)·(w − b)², whose slope is λ/(1+λ)·(w − b).
    w_k, b = vectors(2)
    h = Envelope(w_k.clone(), 3.0, 200, 0.1).at(w_k, lambda offset: w_k + offset - b, 0)
    torch.testing.assert_close(h, 0.75 * (w_k - b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("options", [{}, {"lam": 4.0, "steps": 2, "eta_p": 0.2, "beta": 0.7}], ids=str)
def test_runs_like_the_reference(options, weight_decay):
    assert_follows_personally(Setting(weight_decay=weight_decay, local_epochs=2, lr=0.05), "pfedme", **options)


def test_statistics_of_batch_norm_see_each_batch_once():
    assert_follows_personally(normalised(rounds=3), "pfedme", lam=5.0, steps=2)


def test_without_inner_steps_nothing_moves():
    setting = Setting(rounds=3)
    model, own, _ = run_library(setting, "pfedme", steps=0)
    for name, value in setting.module.state_dict().items():
        assert torch.equal(model[name], value)
        assert all(torch.equal(one[name], value) for one in own)


def test_with_lambda_eta_one_a_local_model_is_theta():
    setting = Setting(rounds=1, per_round=1, lr=0.125)
    model, own, records = run_library(setting, "pfedme", lam=8.0)
    (k,) = records[0].clients
    for name in model:
        torch.testing.assert_close(model[name], own[k][name], rtol=1e-5, atol=1e-6)


def test_it_takes_plain_steps():
    assert PFedMe.momentum == 0.0
    with pytest.raises(UserError, match="does not fit method 'pfedme'"):
        make_rules(Setting().experiment("pfedme").but(optimizer="adam", momentum=None))


def test_theta_is_kept_and_every_inner_step_counts():
    setting = normalised(rounds=3)
    _, three, _ = watched(setting, "pfedme", steps=3)
    _, two, _ = watched(setting, "pfedme", steps=2)
    model = sum(v.nbytes for v in setting.module.state_dict().values())
    w = sum(p.numel() for p in setting.module.parameters())
    for more, less in zip(three, two, strict=True):
        assert more.bytes_down == more.bytes_up == 2 * model
        assert more.client_memory == model
        n = [len(setting.pairs[k][1]) for k in more.clients]
        steps = sum(-(-size // setting.batch_size) for size in n)
        assert more.macs - less.macs == sum(n) * pass_cost(setting.module, (6,)).training + 3 * steps * w
    assert PFedMe().attaching(COST).flops == 4 * 7 * 4 * 300 + 15 * 7 * 10
    method = PFedMe()
    assert (method.lam, method.steps, method.eta_p, method.beta) == (15.0, 5, 0.09, 1.0)


@pytest.mark.parametrize("wrong", ["theta begins anew at each step", "no lambda in the step"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    right = Envelope.at

    def at(self, w_k, gradient, step):
        if wrong == "no lambda in the step":
            return right(self, w_k, gradient, step) / self.weight
        self.theta = w_k.clone()
        return right(self, w_k, gradient, step)

    monkeypatch.setattr(Envelope, "at", at)
    if wrong == "theta begins anew at each step":  # with λ = 1 the other one is right by chance
        with pytest.raises(AssertionError):
            test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, 0.0)
