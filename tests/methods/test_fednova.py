"""FedNova: d_k = (w − w_k)/τ_k, τ_k how far the steps go on a gradient of one; w ← w − τ_eff·Σp_k·d_k."""

import math

import pytest
import torch
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import QuadraticLocal, added, combined, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised, samples
from tests.reference.watching import bytes_of, watched

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.fednova import FedNova
from fedtrip.methods.interface import CostSymbols, Memory, Method, Server, Upload, make_method
from fedtrip.optimizers.interface import Optimizer
from fedtrip.optimizers.sgd import Sgd

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)], "steps": [1, 3, 2]}


def test_two_rounds_by_hand():
    # η = ½; K = 1, 3, 2, so τ = ½, 1.5, 1. Round 1 from 0: client 0 (b 4) goes to 2: d = −2/½ = −4; client 1 (b 8) 4,
    # 6, 7: d = −7/1.5. p = ¼, ¾: τ_eff = 0.125 + 1.125 = 1.25; Σp·d = −1 − 3.5; w = 1.25·4.5 = 5.625.
    # Round 2: client 0 goes to 4.8125: d = 0.8125/½ = 1.625; client 2 (b −4) 0.8125, −1.59375: d = 7.21875.
    # p = ⅓, ⅔: τ_eff = (½ + 2)/3 = 5/6; Σp·d = (1.625 + 14.4375)/3 = 16.0625/3; w = 5.625 − 5/6·16.0625/3.
    history = play(FedNova(), **QUADRATICS)
    assert w_of(history) == [[5.625], [pytest.approx(5.625 - 5 / 6 * 16.0625 / 3, rel=1e-6)]]


def test_one_round_with_a_pull_by_hand():
    # μ = ½: a step is w ← w/4 + b/2 + w_glob/4, and on a gradient of one x ← ¾x − ½. K = 1, 3: x = −½; −½, −0.875,
    # −1.15625: τ = 0.5, 1.15625. From 0: client 0 goes to 2, client 1 (b 8) 4, 5, 5.25. d = −4, −5.25/1.15625.
    # τ_eff = ¼·0.5 + ¾·1.15625 = 0.9921875. With tau_eff = "steps" it is ¼·½ + ¾·1.5 = 1.25.
    d = -(0.25 * 4 + 0.75 * 5.25 / 1.15625)
    for tau_eff, value in (("travel", 0.9921875), ("steps", 1.25)):
        history = play(FedNova(mu=0.5, tau_eff=tau_eff), **{**QUADRATICS, "chosen": [(0, 1)]})
        assert w_of(history) == [[pytest.approx(-value * d, rel=1e-6)]]


@pytest.mark.parametrize(
    ("beta", "mu", "a"), [(0.0, 0.0, 7), (0.9, 0.0, 23.046721), (0.0, 0.5, 6.0332540781), (0.9, 0.5, 18.3115648281)]
)
def test_how_far_seven_steps_go(beta, mu, a):
    # In closed form: K; (K − β(1 − β^K)/(1 − β))/(1 − β); (1 − (1 − ημ)^K)/(ημ).
    sgd = Sgd(momentum=beta)
    distance = sgd.travel_with(mu, 0.1, 7, kept=False) if mu else sgd.travel(0.1, 7, kept=False)
    assert distance / 0.1 == pytest.approx(a, rel=1e-9)
    local = QuadraticLocal([0.0], round_number=1, lr=0.1, steps=7, initial=torch.zeros(1), momentum=beta)
    assert local.travel_with(mu) == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_a_vanishing_pull_changes_no_distance(beta, kept):
    sgd = Sgd(momentum=beta)
    assert sgd.travel_with(1e-12, 0.1, 9, kept=kept) == pytest.approx(sgd.travel(0.1, 9, kept=kept), rel=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.8])
@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_it_is_the_distance_that_training_really_goes(beta, mu):
    # A loss whose gradient is one everywhere: F(w) = w.
    class Constant(QuadraticLocal):
        def _gradient_at(self, w, loss, extra_loss):  # noqa: ARG002
            return lambda: torch.ones_like(w)

    local = Constant([0.0], round_number=1, lr=0.1, steps=6, initial=torch.zeros(1), momentum=beta)
    upload = FedNova(mu=mu).client({"w": torch.tensor([2.0])}, Memory(), local).upload
    assert 2.0 - float(upload["w"]) == pytest.approx(float(upload["tau"]), rel=1e-5)


def server_after(method, uploads, start=0.0):
    w = torch.full((len(uploads[0]["w"]),), start)
    return method.aggregate(Server({"w": w}, {}, 1, 0, 9, 0.1), combined(method, uploads))


def upload_of(client, n, w, tau):
    return Upload(client, n, {"w": torch.tensor(w), "tau": torch.tensor([tau])})


def test_constant_gradients_are_averaged_however_long_each_was_followed():
    # Gradients 2 and −6, followed 0.1 and 0.3 far, with p = ¼, ¾: w = −τ_eff·(½ − 4.5), τ_eff = 0.25. FedAvg's mean
    # of −0.2 and 1.8 is 1.3.
    server = server_after(FedNova(), [upload_of(0, 1, [-0.2], 0.1), upload_of(1, 3, [1.8], 0.3)])
    assert server.w.tolist() == pytest.approx([1.0], rel=1e-6)


@pytest.mark.parametrize("start", [0.0, 3.0])
def test_a_client_without_a_step_has_no_part(start):
    went = upload_of(0, 1, [5.0], 0.5)
    alone = server_after(FedNova(), [went], start)
    assert server_after(FedNova(), [went, upload_of(1, 3, [start], 0.0)], start).w.tolist() == alone.w.tolist() == [5.0]
    assert server_after(FedNova(), [upload_of(1, 3, [start], 0.0)], start).w.tolist() == [start]


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_equal_steps_it_is_fedavg_or_fedprox_to_rounding(mu, momentum):
    setting = Setting(pairs=samples([8] * 5), momentum=momentum, lr=0.05, weight_decay=0.01)
    usual = setting.run("fedprox", mu=mu) if mu else setting.run("fedavg")
    assert apart(setting.run("fednova", mu=mu).state, usual.module) < 2e-6


@pytest.mark.parametrize("mu", [0.1, 3.0])
def test_the_correction_is_the_gradient_of_the_written_term(mu):
    w, w_k, initial = vectors(3)
    correction = correction_of(FedNova(mu=mu), {"w": w}, Memory(), round_number=2, initial=initial)
    wanted = gradient_of(lambda v: mu / 2 * (v - w).square().sum(), w_k)
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)
    assert correction_of(FedNova(), {"w": w}, Memory(), round_number=2, initial=initial) is None


@pytest.mark.parametrize("options", [{}, {"mu": 0.8}, {"mu": 0.8, "tau_eff": "steps"}], ids=str)
@pytest.mark.parametrize(("momentum", "kept"), [(0.0, False), (0.9, False), (0.9, True)])
def test_runs_like_the_reference(options, momentum, kept):
    setting = Setting(momentum=momentum, keep_optimizer_state=kept, lr=0.03 if momentum else 0.1, weight_decay=0.02)
    assert_follows(setting, "fednova", **options)


def test_batch_norm_is_averaged_by_samples_and_not_normalised():
    assert_follows(normalised(rounds=4), "fednova")


@pytest.mark.parametrize("options", [{}, {"tau_eff": "steps", "mu": 0.5}], ids=str)
def test_its_costs(options):
    setting = normalised(rounds=2)
    wire, records, history = watched(setting, "fednova", **options)
    _, usual, _ = watched(setting, "fedprox" if options else "fedavg", **({"mu": 0.5} if options else {}))
    (w, model), numbers = bytes_of(setting), 2 if options else 1
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == 2 * model
        assert record.bytes_up == 2 * (model + 4 * numbers)
        assert record.client_memory == 0
        assert wire.names(wire.up, record.round) - {"w", "buffers", "counters"} == (
            {"tau", "steps"} if options else {"tau"}
        )
        assert record.macs - plain.macs == (2 * 2 + 1) * (w // 4) + 2 * numbers
    assert history[0][0].state == {}
    for (_, _, k), upload in wire.up.items():
        if options:
            assert float(upload["steps"]) == pytest.approx(0.1 * math.ceil(len(setting.pairs[k][1]) / 8), rel=1e-6)


@pytest.mark.parametrize(("mu", "flops", "formula"), [(0.0, 0.0, "0"), (0.5, 1000.0, "2K|w|")])
def test_what_it_attaches(mu, flops, formula):
    attaching = FedNova(mu=mu).attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (flops, formula, "0")


def test_what_does_not_fit_is_refused_by_name():
    setting = Setting(per_round=4)
    with pytest.raises(UserError, match="optimizer 'adam' cannot say how far its steps go, which method 'fednova'"):
        fedtrip.run(fedtrip.Experiment(method="fednova", optimizer="adam"), workers=1)
    with pytest.raises(UserError, match="combine 'median' has no effect on method 'fednova'"):
        fedtrip.run(setting.experiment("fednova").but(combine="median"), model=setting.module, data=setting.data)
    with pytest.raises(
        UserError, match=r"option 'mu' is 25.0, whose pull diverges .* rate 0.1; accepted: less than 20"
    ):
        setting.run("fednova", mu=25.0)


def test_an_optimizer_that_knows_no_pull_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(Sgd, "travel_with", Optimizer.travel_with)
    with pytest.raises(UserError, match="Sgd cannot say how far its steps go with a proximal term"):
        Setting().run("fednova", mu=0.5)


@pytest.mark.parametrize(("option", "value"), [("mu", -0.1), ("mu", math.inf), ("tau_eff", "epochs")])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fednova': option '{option}' is {value!r}"):
        make_method("fednova", {option: value}, model="cnn", dataset="mnist")


def test_averages_that_are_not_normalised_are_caught(monkeypatch):
    monkeypatch.setattr(FedNova, "aggregate", Method.aggregate)
    for test in (test_two_rounds_by_hand, test_constant_gradients_are_averaged_however_long_each_was_followed):
        with pytest.raises(AssertionError):
            test()


def test_steps_in_place_of_the_distance_are_caught(monkeypatch):
    # With momentum, τ = η·K makes a client with few steps, whose momentum has hardly begun, count too little.
    monkeypatch.setattr(Sgd, "travel", lambda _self, lr, steps, *, kept: lr * steps)  # noqa: ARG005
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, 0.9, kept=False)


def test_the_official_codes_mixed_recursion_is_caught(monkeypatch):
    # Momentum and pull one after the other: 25.72 where the truth is 18.31.
    def mixed(self, prox, lr, steps, *, kept):  # noqa: ARG001
        counter = a = 0.0
        for _ in range(steps):
            counter = counter * self.momentum + 1
            a = a * (1 - lr * prox) + counter
        return lr * a

    monkeypatch.setattr(Sgd, "travel_with", mixed)
    with pytest.raises(AssertionError):
        test_how_far_seven_steps_go(0.9, 0.5, 18.3115648281)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({"mu": 0.8}, 0.9, kept=False)
