"""FedAvg: step g; w ← mean of the uploads, weighted by n_k."""

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import correction_of, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, samples

import fedtrip
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.interface import Memory


def test_two_rounds_by_hand():
    # A step of rate ½ is w ← (w + b)/2. Round 1 from 0: client 0 (b 4) goes 2, 3; client 1 (b 8) 4, 6;
    # (1·3 + 3·6)/4 = 5.25. Round 2: client 0 goes 4.625, 4.3125; client 2 (b −4) 0.625, −1.6875;
    # (1·4.3125 + 2·(−1.6875))/3 = 0.3125.
    history = play(FedAvg(), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert w_of(history) == [[5.25], [0.3125]]


def test_there_is_no_correction_and_nothing_is_kept():
    w, initial = vectors(2)
    assert correction_of(FedAvg(), {"w": w}, Memory(), round_number=1, initial=initial) is None
    history = play(FedAvg(), b=[[4.0]], samples=[1], chosen=[(0,)])
    assert history[0][1][0].vectors == {}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("per_round", [1, 2, 5])
def test_runs_like_the_reference(momentum, per_round):
    assert_follows(Setting(momentum=momentum, per_round=per_round), "fedavg")


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.5"])
def test_runs_like_the_reference_on_four_arrays_and_a_drawn_partition(partition):
    (x, y), test = samples([40], seed=5)[0], samples([10], seed=6)[0]
    setting = Setting(module=made(Net), rounds=3, momentum=0.9, seed=11)
    experiment = setting.experiment("fedavg").but(
        partition=partition, clients=4, samples_per_client=9, mean=0.0, std=1.0
    )
    federation = fedtrip.experiment.federation.prepare(
        experiment, model=setting.module, data=fedtrip.from_arrays(x, y, *test)
    )
    shares = [federation.partition.share(k) for k in range(4)]
    module, _ = run_naive(setting.but(pairs=[(x[share], y[share]) for share in shares]), "fedavg")
    result = fedtrip.run(experiment, model=setting.module, data=(x, y, *test), workers=1)
    assert apart(result.state, module) < CLOSE
    with torch.no_grad():
        logits = module(test[0].double())
    assert result.records[-1].accuracy == float((logits.argmax(1) == test[1]).double().mean())
    assert result.records[-1].loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, test[1])), abs=1e-6)
