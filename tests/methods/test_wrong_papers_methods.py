"""The paper's methods with one fault each, most of them found in public code: their ordinary tests must fail."""

import pytest
from tests.methods import (
    test_fedavg,
    test_feddane,
    test_feddyn,
    test_fedprox,
    test_fedtrip,
    test_fedtrip_auto,
    test_mimelite,
    test_scaffold,
    test_slowmo,
)

from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.feddane import FedDane
from fedtrip.methods.feddyn import FedDyn
from fedtrip.methods.fedprox import FedProx
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.fedtrip_auto import FedTripAuto
from fedtrip.methods.interface import Affine, Reply
from fedtrip.methods.mimelite import MimeLite
from fedtrip.methods.scaffold import Scaffold
from fedtrip.methods.slowmo import SlowMo


def anchored_nowhere(self, received, memory, local):  # noqa: ARG001
    """An anchor that is not detached: its gradient cancels."""
    return Reply(upload=local.train(received))


def averaged_momentum(self, server, uploads):
    w, eta = server.w.double(), server.lr
    u = self.beta * server.state["u"] + (1 - self.beta) * (w - uploads.mean("w")) / eta
    return server.updated(w=w - self.alpha * eta * u, u=u)


def over_the_chosen(self, server, uploads):
    """FedDyn's h averaged over S in place of N."""
    moved = uploads.total("w") - uploads.count * server.w.double()
    h = server.state["h"] - (self.alpha / uploads.count) * moved
    return server.updated(w=uploads.mean("w") - h / self.alpha, h=h)


def with_the_other_sign(self, received, memory, local):
    c_k = self.c_k(received, memory)
    trained = local.train(received, Affine(a=0.0, c=c_k - received["c"]))
    renewed = self.next_c_k(c_k, received, trained["w"], local)
    return Reply(upload={**trained, "delta_c": renewed - c_k}, keep={"c_k": renewed})


def without_the_share(self, received, memory, local):  # noqa: ARG001
    """MimeLite's step g + βs in place of (1−β)g + βs."""
    gradient = local.gradient(received)
    return Reply({**local.train(received, Affine(a=0.0, c=self.beta * received["s"])), "gradient": gradient})


def turned_gradients(self, received, memory, local):
    if local.exchange == 0:
        gradient = local.gradient(received)
        return Reply(upload={"gradient": gradient}, keep={**received, "gradient": gradient})
    w, gradient = memory["w"], memory["gradient"]
    return Reply(local.train(memory.vectors, Affine(a=self.mu, c=(gradient - received["g_t"]) - self.mu * w)))


VARIANTS = {
    "fedavg that counts every client alike": (FedAvg, "weighting", "uniform", test_fedavg.test_two_rounds_by_hand),
    "fedprox without a gradient": (FedProx, "client", anchored_nowhere, test_fedprox.test_two_rounds_by_hand),
    "fedtrip with the gap itself": (
        FedTrip, "xi", lambda _self, _t, gap: float(gap), test_fedtrip.test_three_rounds_by_hand,
    ),
    "fedtrip towards its history": (
        FedTrip,
        "triplet",
        lambda _self, w, w_hist, xi, mu: Affine(a=mu * (1 + xi), c=-mu * (w + xi * w_hist)),
        test_fedtrip.test_three_rounds_by_hand,
    ),
    "fedtrip-auto with one weight for all": (
        FedTripAuto,
        "weight",
        lambda self, _local: self.push,
        lambda: test_fedtrip_auto.test_a_term_with_xi_one_pushes_a_client_as_far_as_it_says(8, 1e-4),
    ),
    "slowmo that averages": (SlowMo, "aggregate", averaged_momentum, test_slowmo.test_two_rounds_by_hand),
    "feddyn over the chosen": (FedDyn, "aggregate", over_the_chosen, test_feddyn.test_two_rounds_by_hand),
    "feddyn without the quadratic term": (
        FedDyn,
        "pull",
        lambda _self, _w, lambda_k: Affine(a=0.0, c=-lambda_k),
        test_feddyn.test_two_rounds_by_hand,
    ),
    "scaffold with the other sign": (
        Scaffold, "client", with_the_other_sign, test_scaffold.test_two_rounds_of_option_two_by_hand,
    ),
    "scaffold with K in epochs": (
        Scaffold,
        "next_c_k",
        lambda _self, c_k, received, w_k, local: c_k - received["c"] + (received["w"] - w_k) / local.lr,
        test_scaffold.test_two_rounds_of_option_two_by_hand,
    ),
    "mimelite without its share": (MimeLite, "client", without_the_share, test_mimelite.test_two_rounds_by_hand),
    "feddane with its gradients turned": (  # in a mean over all clients they cancel, either way
        FedDane,
        "client",
        turned_gradients,
        lambda: test_feddane.test_the_correction_is_the_gradient_of_the_written_term(2.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_caught(name, monkeypatch):
    owner, attribute, wrong, test = VARIANTS[name]
    test()  # the method as it is passes
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        test()
