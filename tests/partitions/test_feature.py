"""Feature shift: samples as with iid, inputs in each client's own way, however they are asked for."""

import numpy as np
import pytest
import torch
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.families import PARTITION
from fedtrip.inputs import InputSpec
from fedtrip.partitions.feature import Feature, Noise, Rotation
from fedtrip.partitions.interface import make_partition, seen_by
from fedtrip.randomness import normals, stream

LABELS = torch.arange(500) % 10


def partition(spec, shape=(1, 4, 4), **changes):
    options = {
        "draw": "overlap",
        "labels": LABELS,
        "classes": 10,
        "clients": 8,
        "samples_per_client": 30,
        "seed": 0,
        "inputs": InputSpec.numbers(*shape),
    }
    return make_partition(spec, **(options | changes))


def test_rotation_by_hand():
    """8 clients turn by ⌊4k/8⌋ quarters, against the clock: the right column comes to the top."""
    image = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    turned = {0: [1, 2, 3, 4], 1: [2, 4, 1, 3], 2: [4, 3, 2, 1], 3: [3, 1, 4, 2]}
    for client in range(8):
        seen = Rotation(8)(client, torch.tensor([5]), image)
        assert seen.shape == (1, 2, 2)
        assert seen.is_contiguous()
        assert seen.flatten().tolist() == turned[client // 2]


def test_noise_by_hand():
    """σ·k/N = 0.5·3/4 times normal numbers that are those of the seed, the client and the sample."""
    x = torch.arange(6.0).reshape(2, 3)
    seen = Noise(0.5, 4, 7)(3, torch.tensor([11, 2]), x)
    for row, sample in enumerate((11, 2)):
        expected = x[row].double().numpy() + 0.375 * normals(stream(7, "feature noise", 3, sample), 3)
        assert seen[row].numpy() == pytest.approx(expected, rel=1e-6)
    assert torch.equal(x, torch.arange(6.0).reshape(2, 3))  # what is kept is not changed
    assert torch.equal(Noise(0.5, 4, 7)(0, torch.tensor([11, 2]), x), x)  # the first client's level is 0


def test_the_deviation_of_the_noise_grows_with_the_clients_number():
    x, samples = torch.zeros(400, 5, 5), torch.arange(400)
    made = partition("feature:noise:2", shape=(5, 5))
    for client in range(8):
        noise = seen_by(made, client, samples, x)
        assert float(noise.std()) == pytest.approx(2 * client / 8, rel=0.05)
        assert float(noise.mean()) == pytest.approx(0, abs=5 * 2 / 100)
    assert abs(np.corrcoef(*(seen_by(made, client, samples, x).flatten() for client in (3, 5)))[0, 1]) < 0.05


@pytest.mark.parametrize("spec", ["feature:noise", "feature:rotation"])
def test_a_sample_looks_the_same_alone_and_among_others_and_in_any_order(spec):
    x, samples = torch.randn(6, 1, 4, 4), torch.tensor([3, 1, 4, 15, 9, 2])
    together = seen_by(partition(spec), 6, samples, x)
    assert not torch.equal(together, x)
    for row in range(6):
        assert torch.equal(seen_by(partition(spec), 6, samples[[row]], x[[row]])[0], together[row])
    order = torch.tensor([5, 2, 0, 1, 4, 3])
    assert torch.equal(seen_by(partition(spec), 6, samples[order], x[order]), together[order])


@pytest.mark.parametrize("draw", ["overlap", "nested", "disjoint"])
def test_the_samples_are_those_of_iid(draw):
    made, iid = (partition(spec, draw=draw) for spec in ("feature:noise", "iid"))
    assert made.clients == 8
    for client in range(8):
        assert torch.equal(made.share(client), iid.share(client))
        assert made.samples(client) == 30
    x = torch.randn(2, 1, 4, 4)
    assert seen_by(iid, 3, torch.tensor([0, 1]), x) is x


def test_how_it_is_written():
    assert PARTITION.make("feature:noise:0.3") == Feature("noise", 0.3)
    assert PARTITION.make("feature:rotation") == Feature("rotation")
    assert fedtrip.Experiment(partition=Feature("noise", 0.3)).partition == "feature:noise:0.3"
    assert fedtrip.Experiment(partition=Feature("rotation")).partition == "feature:rotation"
    assert fedtrip.Experiment(partition=Feature("noise")).partition == "feature:noise"


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ("feature:blur", {}, "option 'shift' is 'blur'; accepted: 'noise' or 'rotation'"),
        ("feature", {}, "needs the option 'shift'; accepted: feature:SHIFT"),
        ("feature:noise:0", {}, "option 'sigma' is 0; accepted: greater than 0"),
        ("feature:noise:much", {}, "option 'sigma' is 'much'"),
        ("feature:rotation:1", {}, "option 'sigma' is 1.0, which is the noise's"),
        ("feature:rotation", {"shape": (1, 4, 5)}, "'feature:rotation' does not fit samples of shape (1, 4, 5)"),
        ("feature:rotation", {"shape": (16,)}, "accepted: square images, of shape (side, side) or"),
        ("feature:rotation", {"shape": (2, 2, 4, 4)}, "accepted: square images"),
        ("feature:noise", {"inputs": InputSpec("one", (("0", (8,), torch.int64),))}, "accepted: one input of numbers"),
        ("feature:rotation", {"inputs": InputSpec("one", (("0", (8, 8), torch.int64),))}, "accepted: square images"),
        ("feature:noise", {"inputs": InputSpec("tuple", (("0", (8,), torch.float32),) * 2)}, "accepted: one input"),
        ("feature:noise", {"client_train": LABELS}, "'feature:noise' cannot be drawn from data that are already split"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(spec, changes, message):
    with pytest.raises(UserError) as refused:
        partition(spec, **changes)
    assert message in str(refused.value)


@pytest.mark.parametrize("spec", ["feature:noise", "feature:rotation"])
def test_a_run_trains_on_what_the_clients_see_whatever_the_workers(spec):
    experiment = fedtrip.Experiment(partition=spec, method="fedavg", rounds=2, samples_per_client=40, per_round=3)
    one, two = (fedtrip.run(experiment, workers=workers) for workers in (1, 2))
    plain = fedtrip.run(experiment.but(partition="iid"), workers=1)
    assert one.model_sha256 == two.model_sha256
    assert one.model_sha256 != plain.model_sha256


def test_a_run_on_rotated_images_is_one_on_images_that_were_rotated_before():
    """One client of two turns by 180°: the same run as on a data set that has them turned."""
    x, y = torch.randn(40, 3, 3), torch.arange(40) % 2
    flat = nn.Sequential(nn.Flatten(), nn.Linear(9, 2))
    data = {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4], "mean": 0.0, "std": 1.0}
    experiment = fedtrip.Experiment(
        partition="feature:rotation", draw="disjoint", clients=2, samples_per_client=20, rounds=2, method="fedavg"
    )
    shifted = fedtrip.run(experiment, model=flat, data=data, workers=1)
    made = make_partition(
        "iid", draw="disjoint", labels=y, classes=2, clients=2, samples_per_client=20, seed=experiment.seed
    )
    turned = x.clone()
    turned[made.share(1)] = x[made.share(1)].flip(1, 2)
    plain = fedtrip.run(experiment.but(partition="iid"), model=flat, data={**data, "x_train": turned}, workers=1)
    assert shifted.model_sha256 == plain.model_sha256
