"""A stored model is tested on other samples: a data set by name, arrays, a data set object."""

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip import Experiment
from fedtrip.errors import UserError


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluated") / "run"
    return out, fedtrip.run(Experiment(rounds=3, samples_per_client=60), workers=1, out=out)


def test_other_samples_are_normalised_as_the_runs_own(stored, tmp_path):
    out, result = stored
    digits = fedtrip.load_dataset("digits")
    x, y = digits.x_train[:50], digits.y_train[:50]
    with torch.no_grad():
        hits = int((result.predictor()(x).argmax(1) == y).sum())
    for on in ((x, y), (x.numpy()[:, 0], y.numpy()), fedtrip.from_arrays(x, y, x, y)):
        assert fedtrip.evaluate(out, on=on)["accuracy"] == hits / 50
    np.savez(tmp_path / "other.npz", x_train=x[:1], y_train=y[:1], x_test=x, y_test=y)
    assert fedtrip.evaluate(out, on=f"npz:{tmp_path / 'other.npz'}")["accuracy"] == hits / 50
    assert fedtrip.evaluate(out)["accuracy"] == result.final_model_score
    assert fedtrip.evaluate(out, on="digits") == fedtrip.evaluate(out)


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (np.zeros((4, 3)), np.arange(4), r"the samples to test on have shape \(3,\).*accepted: shape \(1, 8, 8\)"),
        (np.zeros((4, 1, 8, 8), int), np.arange(4), "type int64"),
        (np.zeros((4, 1, 8, 8)), np.array([0, 1, 2, 10]), "the targets to test on go up to 10; accepted: 0 to 9"),
        (np.zeros((4, 1, 8, 8)), np.ones(4), "no integers; accepted: class numbers"),
        (np.zeros((4, 1, 8, 8)), np.arange(3), "y has 3 entries for 4 samples"),
    ],
)
def test_samples_that_do_not_fit_are_refused(stored, x, y, told):
    with pytest.raises(UserError, match=told):
        fedtrip.evaluate(stored[0], on=(x, y))
