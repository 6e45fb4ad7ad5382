"""How uploads become the next model: in float64, in client order, weighted as METHODS.md says."""

import pytest
import torch
from tests.reference.naive import run_naive
from tests.reference.quadratic import combined, vectors
from tests.reference.setting import NORMALISED_SIZES, Setting, normalised, samples
from tests.reference.watching import FailingEngine

from fedtrip.errors import UserError
from fedtrip.families import METHOD
from fedtrip.methods.interface import Server, Upload, make_method
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state

WEIGHTED = ["fedavg", "fedprox", "fedtrip", "slowmo", "moon"]


def method_of(name):
    return make_method(name, {}, model="cnn", dataset="cifar-10")


def aggregated(method, server, uploads):
    """The server after these uploads."""
    return method.aggregate(server, combined(method, uploads))


def server_of(method, w):
    """A server in the middle of a run, whose own state is not zero."""
    state = {name: torch.linspace(-1, 1, len(w), dtype=torch.float64) for name in method.start(w)}
    return Server(model={"w": w}, state=state, round=3, clients=7, lr=0.1)


def test_all_six_are_covered():
    assert {*WEIGHTED, "feddyn"} <= set(METHOD.names())


@pytest.mark.parametrize("name", ["fedavg", "feddyn"])
def test_sums_are_float64_and_in_client_order(name):
    values = [1e8, 1.0, -1e8]  # in float32, 1e8 + 1 is 1e8
    uploads = [Upload(k, 1, {"w": torch.tensor([value])}) for k, value in enumerate(values)]
    made = combined(method_of(name), uploads)
    assert made.mean("w").dtype == torch.float64
    assert made.mean("w").tolist() == [1 / 3]
    if name == "feddyn":
        assert made.total("w").tolist() == [1.0]


def test_what_a_method_does_not_declare_it_does_not_get():
    uploads = combined(method_of("fedavg"), [Upload(0, 1, {"w": torch.ones(1), "c": torch.ones(1)})])
    with pytest.raises(UserError, match="'c', which its `means` does not name; named are: w"):
        uploads.mean("c")
    with pytest.raises(UserError, match="'w', which its `totals` does not name; named are: none"):
        uploads.total("w")
    with pytest.raises(UserError, match="needs_each"):
        uploads.each()


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedtrip", "moon"])
def test_the_mean_is_weighted_by_samples(name):
    method = method_of(name)
    uploads = [Upload(0, 1, {"w": torch.tensor([8.0])}), Upload(4, 3, {"w": torch.tensor([4.0])})]
    assert aggregated(method, server_of(method, torch.zeros(1)), uploads).w.tolist() == [5.0]
    assert aggregated(method, server_of(method, torch.zeros(1)), uploads).w.dtype == torch.float32


def test_slowmos_mean_is_weighted_by_samples():
    method = make_method("slowmo", {"beta": 0.0}, model="cnn", dataset="cifar-10")
    uploads = [Upload(0, 1, {"w": torch.tensor([8.0])}), Upload(4, 3, {"w": torch.tensor([4.0])})]
    assert aggregated(method, server_of(method, torch.zeros(1)), uploads).w.tolist() == [pytest.approx(5.0)]


def test_feddyns_mean_is_uniform():
    method = make_method("feddyn", {"alpha": 0.5}, model="cnn", dataset="cifar-10")
    uploads = [Upload(0, 1, {"w": torch.tensor([8.0])}), Upload(4, 3, {"w": torch.tensor([4.0])})]
    server = Server(model={"w": torch.zeros(1)}, state=method.start(torch.zeros(1)), clients=6, lr=0.1)
    after = aggregated(method, server, uploads)
    assert after.state["h"].tolist() == [-1.0]  # −(½/6)·12, N = 6
    assert after.w.tolist() == [8.0]  # 6 + 1/½


@pytest.mark.parametrize("name", [*WEIGHTED, "feddyn"])
def test_aggregation_changes_neither_uploads_nor_the_old_state(name):
    method, (w, a, b) = method_of(name), vectors(3)
    server, uploads = server_of(method, w), [Upload(0, 2, {"w": a}), Upload(1, 3, {"w": b})]
    before = [t.clone() for t in (w, a, b, *server.state.values())]
    aggregated(method, server, uploads)
    assert all(torch.equal(x, y) for x, y in zip((w, a, b, *server.state.values()), before, strict=True))


@pytest.mark.parametrize("name", ["fedavg", "fedtrip", "slowmo"])
def test_buffers_are_averaged_and_counters_take_the_maximum(name):
    setting = normalised(rounds=5, local_epochs=2)
    options = {"mu": 0.4} if name == "fedtrip" else {}
    wanted, _ = run_naive(setting, name, **options)
    state = setting.run(name, **options).state
    for key in ("body.1.running_mean", "body.1.running_var"):
        torch.testing.assert_close(state[key].double(), wanted.state_dict()[key], rtol=1e-5, atol=1e-6)
    # In each round the counter goes on from the largest, by the steps of the longest of the chosen clients.
    longest = [max(2 * -(-NORMALISED_SIZES[k] // 8) for k in setting.chosen(t)) for t in range(1, 6)]
    assert int(state["body.1.num_batches_tracked"]) == sum(longest)


def test_buffers_are_outside_feddyns_state():
    # Equal clients, so that every kind of mean is the same one.
    setting = normalised(rounds=5).but(pairs=samples([20] * 5))
    wanted, _ = run_naive(setting, "feddyn", alpha=0.3)
    state = setting.run("feddyn", alpha=0.3).state
    for key in ("body.1.running_mean", "body.1.running_var", "body.1.weight"):
        torch.testing.assert_close(state[key].double(), wanted.state_dict()[key], rtol=1e-5, atol=2e-6)


def test_an_engine_that_answers_in_another_order_is_refused():
    """Sums are added as uploads arrive: their order is the engine's promise."""

    class Backwards(FailingEngine):
        def work(self, jobs):
            return iter(list(super().work(jobs))[::-1])

    federation = Setting(per_round=4, rounds=3).federation("feddyn")
    state = initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]), pytest.raises(RuntimeError, match="in the order of the jobs"):
        one_round(federation, Backwards(federation, ()), state)
    assert state.round == 0
