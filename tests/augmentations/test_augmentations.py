"""Augmentations: what each does to a batch, by hand; when it is called; and that only the seed decides its draws."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.augmentations.interface import Augment
from fedtrip.errors import UserError
from fedtrip.families import AUGMENT
from fedtrip.inputs import InputSpec
from fedtrip.native.library import usable_kernels, using
from fedtrip.randomness import normals, permutation, stream, uniforms

IMAGES = torch.arange(2 * 3 * 2 * 4, dtype=torch.float32).reshape(2, 3, 2, 4) + 1
SHORT = {"rounds": 2, "clients": 5, "per_round": 2, "samples_per_client": 60, "batch_size": 25, "lr": 0.05}


def rng():
    return stream(3, "a test")


def test_none_leaves_everything():
    assert AUGMENT.make("none")(IMAGES, rng()) is IMAGES


def test_flip_turns_those_images_whose_number_is_below_p():
    many = torch.arange(40 * 4, dtype=torch.float32).reshape(40, 1, 1, 4)
    turned = uniforms(rng(), 40) < 0.5
    assert 0 < turned.sum() < 40
    for image, new, is_turned in zip(many, AUGMENT.make("flip")(many, rng()), turned, strict=True):
        a, b, c, d = image.flatten().tolist()
        assert new.flatten().tolist() == ([d, c, b, a] if is_turned else [a, b, c, d])
    whole = AUGMENT.make({"name": "flip", "p": 1.0})(IMAGES, rng())
    assert whole[0, 0].tolist() == [[4, 3, 2, 1], [8, 7, 6, 5]]
    assert AUGMENT.make({"name": "flip", "p": 0.0})(IMAGES, rng()).equal(IMAGES)


def test_crop_shifts_each_image_and_fills_with_zeros():
    starts = (uniforms(rng(), 4) * 3).astype(int).reshape(2, 2)  # 0, 1 or 2; 1 is where the image is
    new = AUGMENT.make("crop:1")(IMAGES, rng())
    for image in range(2):
        down, right = starts[image] - 1
        for c, i, j in np.ndindex(3, 2, 4):
            inside = 0 <= i + down < 2 and 0 <= j + right < 4
            wanted = float(IMAGES[image, c, i + down, j + right]) if inside else 0.0
            assert float(new[image, c, i, j]) == wanted


def test_every_shift_of_a_crop_is_as_likely():
    lit = torch.zeros(9000, 1, 5, 5)
    lit[:, 0, 2, 2] = 1
    seen = Counter(map(tuple, AUGMENT.make("crop:1")(lit, rng()).nonzero()[:, 2:].tolist()))
    assert set(seen) == {(i, j) for i in (1, 2, 3) for j in (1, 2, 3)}
    assert all(abs(count - 1000) < 150 for count in seen.values())


def test_noise_adds_normal_numbers_of_its_deviation():
    wanted = IMAGES + torch.from_numpy((0.25 * normals(rng(), 48)).astype(np.float32)).reshape(IMAGES.shape)
    assert AUGMENT.make("noise:0.25")(IMAGES, rng()).equal(wanted)
    drawn = AUGMENT.make("noise:2")(torch.zeros(20_000, 1), rng())
    assert (float(drawn.mean()), float(drawn.std())) == pytest.approx((0.0, 2.0), abs=0.06)


def test_joined_rules_come_one_after_the_other_from_one_generator():
    joined, shared = AUGMENT.make("flip+crop:1"), rng()
    assert joined(IMAGES, rng()).equal(AUGMENT.make("crop:1")(AUGMENT.make("flip")(IMAGES, shared), shared))
    assert AUGMENT.complete(joined).text == "several:flip+crop:1"
    experiment = fedtrip.Experiment(augment="flip+crop:1")
    assert fedtrip.Experiment.from_text(experiment.to_toml()) == experiment
    with pytest.raises(UserError, match=r"joins 'own.module:Mine'; accepted: built-in rules"):
        AUGMENT.make("flip+own.module:Mine")
    with pytest.raises(UserError, match=r"augment 'flop' is unknown; did you mean 'flip'\?"):
        AUGMENT.make("flip+flop")


@pytest.mark.parametrize(
    ("rule", "inputs", "told"),
    [
        (
            "flip",
            InputSpec.numbers(6),
            r"images of shape \(channels, height, width\), but the samples have shape \(6,\)",
        ),
        ("crop:2", InputSpec.numbers(1, 2, 8), r"'crop:2' could leave nothing of images of 2×8 pixels; .* at most 1"),
        ("noise:1", InputSpec.of(torch.zeros(2, 3, dtype=torch.int64)), "one input of numbers, but .* type int64"),
        ("noise:1+flip", InputSpec.numbers(6), "images of shape"),
        ("noise:1", InputSpec.of((torch.zeros(2, 3), torch.zeros(2, 3))), "one input of numbers"),
    ],
)
def test_inputs_that_cannot_be_changed_so_are_refused(rule, inputs, told):
    with pytest.raises(UserError, match=told):
        AUGMENT.make(rule).check(inputs)


def test_a_run_refuses_them_before_anything_is_computed(blobs):
    with pytest.raises(UserError, match="augment changes images"):
        fedtrip.run(fedtrip.Experiment(augment="flip", rounds=1), data=blobs, workers=1)


@dataclass(frozen=True)
class Noted(Augment):
    """notes every call"""

    seen: ClassVar[list[tuple[int, tuple[float, ...]]]] = []

    def __call__(self, x, rng):
        self.seen.append((len(x), tuple(uniforms(rng, 2).tolist())))
        return x


def noted(**fields):
    Noted.seen.clear()
    experiment = fedtrip.Experiment(**{**SHORT, **fields}, augment=Noted())
    return fedtrip.run(experiment, workers=1), list(Noted.seen)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize("method", ["fedavg", "feddane", "fedgkd", "moon"])
def test_it_sees_each_training_batch_once_and_nothing_else(method, compute):
    """Full gradients (FedDANE), frozen passes (MOON, FedGKD) and evaluations are no training batches."""
    run, seen = noted(method=method, compute=compute, local_epochs=2)
    assert [size for size, _ in seen] == [25, 25, 10] * 2 * 4  # epochs, clients of two rounds
    assert len({draws for _, draws in seen}) == len(seen)  # a generator of its own for every step
    plain = fedtrip.run(run.experiment.but(augment="none"), workers=1)
    assert run.model_sha256 == plain.model_sha256  # step by step, what changes nothing changes no bit


def test_a_second_training_of_a_round_has_other_draws():
    @dataclass(frozen=True)
    class Twice(fedtrip.Method):
        """trains twice"""

        title = "twice"

        def client(self, received, memory, local):
            del memory
            return fedtrip.Reply(upload=local.train(local.train(received)))

    Noted.seen.clear()
    globals()["Twice"] = Twice
    Twice.__qualname__ = "Twice"
    fedtrip.run(fedtrip.Experiment(**SHORT, method=Twice(), augment=Noted()), workers=1)
    assert len({draws for _, draws in Noted.seen}) == len(Noted.seen) == 3 * 2 * 4


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_only_the_seed_decides(compute, tmp_path):
    experiment = fedtrip.Experiment(**SHORT, augment="flip+crop:1", compute=compute)
    one = fedtrip.run(experiment, workers=1)
    assert fedtrip.run(experiment, workers=2).model_sha256 == one.model_sha256
    assert fedtrip.run(one.experiment, workers=1).model_sha256 == one.model_sha256
    assert fedtrip.run(experiment.but(augment="none"), workers=1).model_sha256 != one.model_sha256
    assert fedtrip.run(experiment.but(augment="flip"), workers=1).model_sha256 != one.model_sha256

    class Stop(Exception):
        pass

    def stop(record):
        if record.round == 1:
            raise Stop

    with pytest.raises(Stop):
        fedtrip.run(experiment, workers=1, out=tmp_path / "run", checkpoint_every=1, on_round=stop)
    again = fedtrip.run(experiment, workers=1, out=tmp_path / "run", resume=True)
    assert again.model_sha256 == one.model_sha256


@pytest.mark.parametrize("augment", ["crop:1", "noise:0.1"])
def test_every_kind_of_kernels_has_the_same_bits(augment):
    experiment = fedtrip.Experiment(**SHORT, augment=augment, compute="native")
    digests = set()
    for kernels in usable_kernels():
        with using(kernels):
            digests.add(fedtrip.run(experiment, workers=1).model_sha256)
    assert len(digests) == 1


def test_one_augmented_step_is_a_step_on_the_changed_batch():
    """One client, one batch of all its samples: the same as training on inputs that were changed beforehand."""
    random = np.random.default_rng(0)
    x, y = torch.from_numpy(random.normal(size=(20, 1, 4, 4)).astype(np.float32)), torch.arange(20) % 2
    setting = fedtrip.Experiment(
        rounds=1, batch_size=20, mean=(0.0,), std=(1.0,), clients=1, per_round=1, method="fedavg", momentum=0.0
    )
    split = {"client_train": np.zeros(20, int)}
    rows = permutation(stream(0, "batches", 1, 0), 20)
    changed = torch.empty_like(x)
    changed[rows] = AUGMENT.make("crop:2")(x[rows], stream(0, "augment", 1, 0, 0, 1, 0))
    test = {"x_test": x, "y_test": y, "y_train": y, **split}
    augmented = fedtrip.run(setting.but(augment="crop:2"), data={"x_train": x, **test}, workers=1)
    beforehand = fedtrip.run(setting, data={"x_train": changed, **test}, workers=1)
    for mine, theirs in zip(augmented.module.parameters(), beforehand.module.parameters(), strict=True):
        assert mine.equal(theirs)


@dataclass(frozen=True)
class Halved(Augment):
    """drops half of the batch"""

    def __call__(self, x, rng):
        del rng
        return x[: len(x) // 2]


def test_a_rule_that_changes_the_shape_is_refused():
    with pytest.raises(UserError, match=r"augment made 12 samples of shape .* of 25 of shape .*; accepted: the same"):
        fedtrip.run(fedtrip.Experiment(**SHORT, augment=Halved()), workers=1)
