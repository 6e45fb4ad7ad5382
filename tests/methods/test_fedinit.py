"""FedInit: a client starts at w + β(w − w_last), w_last its own last model, and trains as FedAvg's; uniform mean."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import QuadraticLocal, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting, normalised
from tests.reference.uniform import SETTINGS, UniformFedAvg, bits
from tests.reference.watching import bytes_of, run_with_failures, watched

from fedtrip.errors import UserError
from fedtrip.methods.fedinit import FedInit
from fedtrip.methods.interface import CostSymbols, Memory, Reply, make_method

QUADRATICS = {"b": [[4.0], [8.0], [-4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)], "start": (1.0,)}
BY_HAND = [({}, 1.515625), ({"newcomer": "global"}, 1.28125), ({"average": "updates"}, 0.203125)]


@pytest.mark.parametrize(("options", "w"), BY_HAND, ids=str)
def test_two_rounds_by_hand(options, w):
    # β = ½, η = ½: w ← w/2 + b/2. Round 1, all are new and w is w⁰ = 1, so they start there: client 0 (b 4) 2.5, 3.25;
    # client 1 (b 8) 4.5, 6.25; w = 4.75 (uniform, though n differs).
    # Round 2: client 0 starts at 4.75 + ½(4.75 − 3.25) = 5.5: 4.75, 4.375. Client 2 (b −4) is new, and starts at
    # 4.75 + ½(4.75 − 1) = 6.625: 1.3125, −1.34375; w = 1.515625.
    # A newcomer that starts at w: 0.375, −1.8125; w = ½(4.375 − 1.8125).
    # Updates averaged: w = 4.75 + ½((4.375 − 5.5) + (−1.34375 − 6.625)) = 4.75 − 4.546875.
    history = play(FedInit(beta=0.5, **options), **QUADRATICS)
    assert w_of(history) == [[4.75], [w]]
    last = -1.8125 if options.get("newcomer") == "global" else -1.34375
    kept = {k: float(memory["w_last"]) for k, memory in history[-1][1].items()}
    assert kept == {0: 4.375, 1: 6.25, 2: last}


@pytest.mark.parametrize("average", ["models", "updates"])
def test_one_client_alone_always_starts_at_the_global_model(average):
    # Its last model is the global one: w = w_last, whatever β is.
    one = {"b": [[4.0]], "samples": [1], "chosen": [(0,)] * 3}
    assert w_of(play(FedInit(beta=0.5, average=average), **one)) == w_of(play(UniformFedAvg(), **one))


def starts_and_reply(method, memory, steps):
    """Where a client started, and what it made of a global model and an initial one."""
    w, b, initial, w_last = vectors(4)
    local = QuadraticLocal(b.tolist(), round_number=3, lr=0.1, steps=steps, initial=initial)
    reply = method.client({"w": w}, Memory({"w_last": w_last}, last_round=1) if memory else Memory(), local)
    wanted = {"memory": w_last, "initial": initial, "global": w}["memory" if memory else method.newcomer]
    return w + method.beta * (w - wanted), w, b, reply, local


@pytest.mark.parametrize("newcomer", ["initial", "global"])
@pytest.mark.parametrize("memory", [True, False])
def test_without_a_step_a_client_returns_its_start(newcomer, memory):
    start, w, _, reply, local = starts_and_reply(FedInit(beta=0.3, newcomer=newcomer), memory, steps=0)
    torch.testing.assert_close(reply.upload["w"], start)
    torch.testing.assert_close(reply.keep["w_last"], start)
    assert local.corrections == [None]
    _, _, _, reply, _ = starts_and_reply(FedInit(beta=0.3, newcomer=newcomer, average="updates"), memory, steps=0)
    torch.testing.assert_close(reply.upload["w"], w)  # it did not move
    torch.testing.assert_close(reply.keep["w_last"], start)


def test_a_step_is_the_plain_gradient_at_the_start():
    start, _, b, reply, _ = starts_and_reply(FedInit(beta=0.4), memory=True, steps=1)
    gradient = gradient_of(lambda v: 0.5 * (v - b).square().sum(), start)
    torch.testing.assert_close((start - reply.upload["w"]) / 0.1, gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"newcomer": "global"}, {"average": "updates"}], ids=str)
@pytest.mark.parametrize("changes", SETTINGS)
def test_without_beta_it_is_uniform_fedavg_to_the_bit(changes, options):
    setting = Setting(**SETTINGS[changes])
    found = bits(setting, FedInit(beta=0.0, **options))
    assert found == bits(setting, UniformFedAvg()) != bits(setting, FedInit(beta=0.01, **options))


@pytest.mark.parametrize("changes", [{}, {"weight_decay": 0.05, "local_epochs": 2}, {"momentum": 0.9, "lr": 0.03}])
@pytest.mark.parametrize(
    "options",
    [{}, {"beta": 0.4, "newcomer": "global"}, {"beta": 0.4, "average": "updates"}],
    ids=str,
)
def test_runs_like_the_reference(changes, options):
    assert_follows(Setting(**changes), "fedinit", **options)


def test_the_options_differ():
    setting = Setting()
    digests = {bits(setting, FedInit(beta=0.4, **options)) for options, _ in BY_HAND}
    assert len(digests) == 3


@pytest.mark.parametrize("average", ["models", "updates"])
def test_batch_norm_starts_where_the_global_model_is(average):
    assert_follows(normalised(weight_decay=0.02, rounds=4), "fedinit", beta=0.3, average=average)


@pytest.mark.parametrize("average", ["models", "updates"])
def test_a_refused_client_keeps_the_last_model_that_it_had(average):
    setting, failures = Setting(), {(2, 0), (4, 3), (5, 1)}
    state, records, model = run_with_failures(setting, failures, "fedinit", beta=0.4, average=average)
    assert sum(len(record.refused) for record in records) > 0
    module, reference = run_naive(setting, "fedinit", failures=failures, beta=0.4, average=average)
    assert apart(model, module) < CLOSE
    for k, last in reference.last.items():
        assert float(state.memories.get(k)["w_last"].double().norm()) == pytest.approx(float(last.norm()), rel=1e-5)


@pytest.mark.parametrize("average", ["models", "updates"])
def test_its_costs(average):
    setting = normalised(rounds=3, local_epochs=2)
    wire, records, _ = watched(setting, "fedinit", average=average)
    _, usual, _ = watched(setting, "fedavg")
    w, model = bytes_of(setting)
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * model
        assert wire.names(wire.down, record.round) == wire.names(wire.up, record.round) == {"w", "buffers", "counters"}
        assert record.client_memory == w
        assert record.macs == plain.macs  # it adds nothing to a step; the start is made once


def test_what_it_attaches():
    attaching = FedInit().attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (200.0, "2|w|", "0")
    assert not attaching.from_paper


def test_its_defaults():
    assert FedInit() == FedInit(beta=0.1, newcomer="initial", average="models")


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("beta", -0.1, "greater than or equal to 0"),
        ("beta", math.nan, "finite"),
        ("beta", "far", "number"),
        ("newcomer", "none", "'initial' or 'global'"),
        ("average", "both", "'models' or 'updates'"),
    ],
)
def test_bad_options_are_refused(option, value, accepted):
    with pytest.raises(UserError, match=f"'fedinit': option '{option}' is {value!r}.*{accepted}"):
        make_method("fedinit", {option: value}, model="cnn", dataset="mnist")


@pytest.mark.parametrize(
    "wrong", ["towards the last model", "the global model is kept", "what was sent is kept", "weighted by samples"]
)
def test_wrong_variants_are_caught(wrong, monkeypatch):
    right = FedInit.client

    def client(self, received, memory, local):
        if wrong == "towards the last model":
            last = local.initial if memory.is_new else memory["w_last"]
            trained = local.train({**received, "w": received["w"] - self.beta * (received["w"] - last)})
            return Reply(trained, {"w_last": trained["w"]})
        reply = right(self, received, memory, local)
        return Reply(reply.upload, {"w_last": received["w"]})

    options, w = BY_HAND[0]
    if wrong == "weighted by samples":
        monkeypatch.setattr(FedInit, "weighting", "samples")
    elif wrong == "what was sent is kept":
        monkeypatch.setattr(
            FedInit, "client", lambda *given: Reply((r := right(*given)).upload, {"w_last": r.upload["w"]})
        )
        options, w = BY_HAND[2]
    else:
        monkeypatch.setattr(FedInit, "client", client)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand(options, w)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({}, {"beta": 0.4, **options})
