"""The audit's page is what was measured, what was measured comes out again, and each fault is the one described."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from tools.audit import faults, faults_own
from tools.audit.cases import CASES
from tools.audit.measuring import COMMON, ROUNDS, SEEDS, Measured, Numbers, Pair, interval, load, measure
from tools.audit.page import PAGE, anchor, page

from fedtrip.layout import Layout, Part
from fedtrip.methods.fedadam import FedAdam
from fedtrip.methods.feddisco import FedDisco
from fedtrip.methods.interface import Memory, Server, Upload, Uploads
from fedtrip.methods.scaffold import Scaffold
from fedtrip.vectors import norm

ONE = torch.ones(1, dtype=torch.float64)


def test_the_page_is_what_was_measured() -> None:
    """`python -m tools.audit --render` writes it again."""
    assert page(load()) == PAGE.read_text(encoding="utf-8")


def test_every_fault_was_measured_in_full() -> None:
    measured = load()
    assert list(measured) == list(CASES)
    for name, found in measured.items():
        assert found.rounds == ROUNDS, name
        assert tuple(pair.seed for pair in found.pairs) == SEEDS, name


@pytest.mark.parametrize("name", ["fedavgm-scaled", "scaffold-over-chosen", "best-round"])
def test_what_was_measured_comes_out_again(name: str) -> None:
    """On any CPU: these runs are the native engine's."""
    (again,) = measure(CASES[name], seeds=SEEDS[:1]).pairs
    assert again == load()[name].pairs[0]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.score == "global" and not case.same_as])
def test_the_fault_changes_the_model(name: str) -> None:
    (pair,) = measure(CASES[name], rounds=3, seeds=SEEDS[:1]).pairs
    assert pair.right.sha256 != pair.faulty.sha256


def test_a_fault_that_is_another_method_to_the_bit_is_seen_as_such() -> None:
    assert measure(CASES["fedprox-without-term"], rounds=2, seeds=SEEDS[:1]).same_bits
    assert {name for name, found in load().items() if found.same_bits} == {"fedprox-without-term", "moon-without-term"}


def test_differences_are_faulty_less_right_in_points_and_leave_out_what_ended() -> None:
    pairs = (
        Pair(0, Numbers(0.5, 0.9), Numbers(0.4, 0.8)),
        Pair(1, Numbers(0.5, 0.9), Numbers(0.5, 0.86)),
        Pair(2, Numbers(0.5, 0.9), Numbers(None, None, "division by zero")),
    )
    found = Measured("x", 1, pairs)
    assert found.differences("last") == pytest.approx([-10, -4])
    told = interval(found.differences("last"))
    assert told is not None
    # Student's t with one degree of freedom is 12.706 at 97.5 %; the standard error is 3
    assert (told.mean, told.low, told.high) == pytest.approx((-7, -7 - 12.706 * 3, -7 + 12.706 * 3), rel=1e-4)
    assert interval([1.0]) is None


def test_anchors_are_those_of_github() -> None:
    assert anchor("FedNova: steps counted as ⌊n/B⌋") == "fednova-steps-counted-as-nb"
    assert anchor("LG-FedAvg: each client's best round") == "lg-fedavg-each-clients-best-round"


def test_the_scaled_momentum_is_a_tenth() -> None:
    """w̄ − w = 1 in every round: the method moves 1, 1.9, 2.71, the fault a tenth of it."""
    rule, state, moved = faults.FedAvgMScaled(), {"u": 0 * ONE}, []
    for _ in range(3):
        w, state = rule(0 * ONE, ONE, state)
        moved.append(float(w))
    assert moved == pytest.approx([0.1, 0.19, 0.271])


def test_the_first_step_of_the_late_correction() -> None:
    """√(1 − 0.99²)/(1 − 0.9²) = 0.742 of Adam's, as the page says."""
    steps = []
    for rule in (FedAdam(bias_correction=True, tau=1e-12), faults.FedAdamOneLate(bias_correction=True, tau=1e-12)):
        w, after = rule(0 * ONE, ONE, rule.start(ONE))
        steps.append(float(w))
        assert int(after["steps"]) == 1
    assert steps[0] == pytest.approx(0.01)
    assert steps[1] / steps[0] == pytest.approx(0.742, abs=1e-3)
    assert "0.74 of Adam's" in CASES["fedadam-one-late"].wrong


def test_v_of_the_momentum() -> None:
    """Δ̄ = 1 and then −1: m = 0.1, −0.01; v = 0.01·m², so v/0.01 = 0.01 and 0.99·0.01 + 0.0001."""
    rule = faults.FedAdamOfMomentum(bias_correction=True, tau=1e-12)
    w, state = rule(0 * ONE, ONE, rule.start(ONE))
    assert float(w) == pytest.approx(0.01 * 1 / 0.1)
    w, state = rule(0 * ONE, -ONE, state)
    assert float(w) == pytest.approx(0.01 * -0.1 / (0.99 * 0.01 + 0.0001) ** 0.5)


@dataclass
class Tools:
    """What a method asks of a client's tools here; its training stays where it is."""

    steps: int = 7
    lr: float = 0.1
    labels: torch.Tensor = field(default_factory=lambda: torch.zeros(50))

    def travel_with(self, prox: float) -> float:
        x = m = 0.0
        for _ in range(self.steps):
            m = 0.9 * m + 1 + prox * x
            x -= self.lr * m
        return -x

    def train(self, start, correction=None, **_):  # noqa: ARG002
        return dict(start)


def test_the_mixed_recursion_has_the_numbers_that_the_page_says() -> None:
    told = CASES["fednova-mixed"].wrong
    (right, wrong) = (
        float(rule.client({"w": torch.zeros(1)}, Memory(), Tools()).upload["tau"]) / 0.1  # type: ignore[arg-type]
        for rule in (CASES["fednova-mixed"].right, faults.FedNovaMixed(mu=0.5))
    )
    assert f"{wrong:.2f}" == "25.72"
    assert f"{right:.2f}" == "18.31"
    assert "25.72" in told
    assert "18.31" in told


def test_whole_batches_alone_are_counted() -> None:
    rule = faults.FedNovaFloor(batch=20)
    assert float(rule.client({"w": torch.zeros(1)}, Memory(), Tools()).upload["tau"]) == pytest.approx(0.1 * 2)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        rule.client({"w": torch.zeros(1)}, Memory(), Tools(labels=torch.zeros(19)))  # type: ignore[arg-type]


def test_how_far_c_moves() -> None:
    """Four of ten clients, whose changes sum to 8: 8/10, 8/4, and 8·4/10."""
    server = Server({"w": ONE}, {"c": 0 * ONE}, clients=COMMON["clients"])
    uploads = Uploads(COMMON["per_round"], {}, {"delta_c": 8 * ONE})
    moved = [
        float(rule.next_c(server, uploads))
        for rule in (Scaffold(), faults.ScaffoldOverChosen(), faults.ScaffoldTimesChosen())
    ]
    assert moved == pytest.approx([0.8, 2.0, 3.2])
    assert "2.5 times as far" in CASES["scaffold-over-chosen"].wrong


def test_what_is_sent_in_place_of_the_change() -> None:
    """c_k = 0.5, c = 0.2, w − w_k = 0: c_k⁺ = 0.3, whose change is −0.2."""
    received = {"w": torch.zeros(1), "c": torch.full((1,), 0.2)}
    reply = faults.ScaffoldSendsState().client(received, Memory({"c_k": torch.full((1,), 0.5)}, 1), Tools())  # type: ignore[arg-type]
    assert float(reply.upload["delta_c"]) == pytest.approx(0.3)


def test_feddyns_pulls() -> None:
    """w = (1, 0), w_k = (4, 4), λ_k = (1, 1), α = 0.1: away (3, 4) of length 5."""
    w, w_k, lambda_k = torch.tensor([1.0, 0.0]), torch.tensor([4.0, 4.0]), torch.ones(2)
    h = torch.zeros(2)
    faults.PlainNorm(w, lambda_k, 0.1).add_to(h, w_k)
    torch.testing.assert_close(h, torch.tensor([0.05 * 0.6 - 1, 0.05 * 0.8 - 1]))
    h = torch.zeros(2)
    faults.FedDynWithoutQuadratic(alpha=0.1).pull(w, lambda_k).add_to(h, w_k)
    torch.testing.assert_close(h, torch.tensor([-1 - 0.1, -1.0]))


def test_a_tensor_is_shifted_by_one_number() -> None:
    """Two tensors of 3 and 2 numbers, the last step (0.3, −0.1, …): ρ·(−0.3, +0.1)/0.4 for a whole tensor."""
    seen = {}

    class Local(Tools):
        layout = Layout(
            {
                "a": Part("w", 0, 3, (3,), torch.nn.Linear),
                "b": Part("w", 3, 5, (2,), torch.nn.Linear),
            }
        )

        def train(self, start, correction=None, *, direction=None):  # noqa: ARG002
            seen["e"] = direction.e
            return dict(start)

    received = {"w": torch.zeros(5), "update": torch.tensor([0.3, -0.1, 9.0, 9.0, 9.0])}
    faults.FedLesamByNumber(rho=0.1).client(received, Memory(), Local())  # type: ignore[arg-type]
    torch.testing.assert_close(seen["e"], torch.tensor([-0.075, -0.075, -0.075, 0.025, 0.025]), atol=1e-6, rtol=1e-5)
    assert norm(seen["e"]) > 0.1  # ρ itself, which the method's e is as long as


def test_what_has_bn_in_its_name() -> None:
    layer = torch.nn.BatchNorm1d
    parts = {name: Part("w", 0, 1, (1,), layer) for name in ("bn1.weight", "downsample.1.weight")}
    assert faults_own.FedBnByName().stays(Layout(parts)) == {"bn1.weight"}
    assert Layout(parts).norms == set(parts)


def test_feddiscos_weights_cannot_all_be_negative_by_default() -> None:
    """They sum to 1 − a + b·|S|, as the page says."""
    rule = FedDisco()
    distances = [0.7, 0.2, 0.1, 0.0]
    uploads = [Upload(k, 10, {"d": torch.tensor([d])}) for k, d in enumerate(distances)]
    raw = [10 / 40 - rule.a * d + rule.b for d in distances]
    assert sum(raw) == pytest.approx(1 - rule.a + rule.b * len(distances))
    assert max(rule.weights(uploads)) > 0
