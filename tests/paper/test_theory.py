"""What the paper's analysis says, against the real client selector and the real method."""

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.paper.study_rules import GapXi
from fedtrip.paper.theory import added_curvature, expected_xi, rho
from fedtrip.randomness import stream
from fedtrip.selection.uniform import Uniform


@pytest.mark.parametrize(("per_round", "clients"), [(4, 10), (4, 50), (1, 2), (9, 10)])
def test_the_mean_of_one_over_the_gap_is_p_ln_p_over_p_minus_1(per_round, clients):
    last: dict[int, int] = {}
    inverse_gaps = []
    for t in range(1, 4001):
        for client in Uniform()(stream(5, "selection", t), t, clients, per_round, lambda _client: 1):
            if client in last:
                inverse_gaps.append(1 / (t - last[client]))
            last[client] = t
    error = np.std(inverse_gaps) / np.sqrt(len(inverse_gaps))
    assert np.mean(inverse_gaps) == pytest.approx(expected_xi(per_round / clients), abs=4 * error)


def test_the_values_that_the_reading_quotes():
    assert expected_xi(4 / 10) == pytest.approx(0.611, abs=5e-4)
    assert expected_xi(4 / 50) == pytest.approx(0.220, abs=5e-4)
    assert expected_xi(1.0) == 1.0
    grid = [expected_xi(p) for p in np.linspace(0.01, 1, 50)]
    assert grid == sorted(grid)  # "monotonically increasing"


def test_rho_with_exact_local_solutions():
    mu, lipschitz, b = 6.0, 1.0, 1.0  # the example of FedProx: μ = 6LB²
    assert rho(mu, lipschitz, b) == pytest.approx(1 / 6 - 1 / 36 - 1 / 72)
    assert rho(mu, lipschitz, b) > 0 > rho(0.5, lipschitz, b)
    assert rho(mu, lipschitz, b, gamma=0.5) < rho(mu, lipschitz, b)


@pytest.mark.parametrize("xi", [0.0, 0.25, 1.0, 3.0])
def test_the_methods_curvature_is_mu_times_one_minus_xi(xi):
    w, w_hist = torch.zeros(3), torch.ones(3)
    correction = FedTrip().triplet(w, w_hist, xi, mu=0.4)
    step = [torch.zeros(3), torch.zeros(3)]
    for h, w_k in zip(step, (torch.zeros(3), torch.ones(3)), strict=True):
        correction.add_to(h, w_k)
    assert (step[1] - step[0]).tolist() == pytest.approx([added_curvature(0.4, xi)] * 3)


def test_with_the_gap_itself_the_objective_is_unbounded_and_training_ends():
    experiment = fedtrip.Experiment(method=GapXi(mu=1.0), rounds=300, local_epochs=2)
    result = fedtrip.run(experiment, workers=1)
    assert result.ended is not None
    assert "not finite" in result.ended
    assert fedtrip.run(experiment.but(method=FedTrip(mu=1.0), rounds=30), workers=1).ended is None
