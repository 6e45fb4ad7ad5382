"""SlowMo: u ← βu + (w − w̄)/η; w ← w − αηu, with w̄ the mean of the uploads weighted by n_k."""

import pytest
import torch
from tests.reference.naive import assert_follows
from tests.reference.quadratic import combined, correction_of, play, vectors, w_of
from tests.reference.setting import Setting

from fedtrip.methods.interface import Memory, Server, Upload
from fedtrip.methods.slowmo import SlowMo


def test_two_rounds_by_hand():
    # α = β = ½, η = ½. Round 1 as FedAvg's: w̄ = 5.25; u = (0 − 5.25)/½ = −10.5; w = 0 + ¼·10.5 = 2.625.
    # Round 2: client 0 (b 4) goes 3.3125, 3.65625; client 2 (b −4) −0.6875, −2.34375; w̄ = −1.03125/3 = −0.34375;
    # u = −5.25 + 2.96875/½ = 0.6875; w = 2.625 − ¼·0.6875 = 2.453125.
    history = play(SlowMo(alpha=0.5, beta=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert w_of(history) == [[2.625], [2.453125]]
    assert [server.state["u"].tolist() for server, _ in history] == [[-10.5], [0.6875]]


def test_the_unrolled_recursion():
    # u_T = Σ_t β^{T−t} d_t with d_t = (w_t − w̄_t)/η: not an exponential average, whose u would be (1 − β) of it.
    beta, eta = 0.9, 0.1
    method, (w, *moves) = SlowMo(beta=beta), vectors(6)
    server, drops = Server(model={"w": w}, state=method.start(w), clients=3, lr=eta), []
    for move in moves:
        uploaded = server.w + move
        drops.append((server.w.double() - uploaded.double()) / eta)
        server = method.aggregate(server, combined(method, [Upload(0, 5, {"w": uploaded})]))
    unrolled = sum(beta ** (len(drops) - 1 - t) * drop for t, drop in enumerate(drops))
    torch.testing.assert_close(server.state["u"], unrolled, rtol=1e-9, atol=1e-9)


def test_the_state_is_in_units_of_the_gradient():
    # When η changes between rounds, the momentum's next displacement changes with it.
    method = SlowMo(alpha=1.0, beta=0.5)
    w = torch.tensor([1.0])
    server = Server(model={"w": w}, state=method.start(w), clients=1, lr=0.5)
    server = method.aggregate(server, combined(method, [Upload(0, 1, {"w": torch.tensor([0.0])})]))  # u = 2, w = 0
    assert (float(server.state["u"]), float(server.w)) == (2.0, 0.0)
    halved = Server(server.model, server.state, 2, 0, 1, lr=0.25)
    after = method.aggregate(halved, combined(method, [Upload(0, 1, {"w": torch.tensor([0.0])})]))  # u = 1, w = −0.25·1
    assert (float(after.state["u"]), float(after.w)) == (1.0, -0.25)


def test_the_clients_take_plain_steps():
    w, initial = vectors(2)
    assert correction_of(SlowMo(), {"w": w}, Memory(), round_number=2, initial=initial) is None
    assert (SlowMo.momentum, SlowMo().alpha, SlowMo().beta) == (0.0, 1.0, 0.9)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.7, "beta": 0.5}], ids=str)
def test_runs_like_the_reference(momentum, options):
    assert_follows(Setting(momentum=momentum), "slowmo", **options)
