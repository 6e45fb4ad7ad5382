"""`Result.predictor()`: the trained module with the normalisation in front of it, for inputs as they come."""

import importlib.util

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip import Experiment

SMALL = {"rounds": 4, "clients": 3, "per_round": 3, "lr": 0.1, "batch_size": 10}


def pixels(classes=3, count=120, shape=(2, 6, 6)):
    """Images of bytes with a channel for each class's brightness."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % classes
    inputs = random.integers(0, 60, (count, *shape)) + 60 * labels[:, None, None, None]
    inputs = inputs.astype(np.uint8)
    cut = count * 3 // 4
    return {"x_train": inputs[:cut], "y_train": labels[:cut], "x_test": inputs[cut:], "y_test": labels[cut:]}


def accuracy(module, x, y):
    with torch.no_grad():
        return float((module(torch.as_tensor(x)).argmax(1) == torch.as_tensor(y)).float().mean())


@pytest.mark.parametrize("kind", ["bytes", "floats", "channels"])
def test_on_raw_inputs_it_has_the_accuracy_of_the_run(blobs, tmp_path, kind):
    data = blobs if kind == "floats" else pixels()
    experiment = Experiment(**SMALL)
    if kind == "channels":
        experiment = experiment.but(mean=(0.3, 0.2), std=(0.2, 0.3))
    result = fedtrip.run(experiment, data=data, workers=1, out=tmp_path / "run")
    measured = fedtrip.evaluate(tmp_path / "run", data=data)["accuracy"]
    predictor = result.predictor()
    assert not predictor.training
    assert accuracy(predictor, data["x_test"], data["y_test"]) == pytest.approx(measured) == result.curve[-1][1]
    dataset = fedtrip.from_arrays(**data, mean=result.experiment.mean, std=result.experiment.std)
    with torch.no_grad():
        expected = result.module(dataset.normalised(dataset.x_test))
        assert torch.equal(predictor(dataset.x_test), expected)
    stored = fedtrip.load_result(tmp_path / "run", data=data).predictor()
    assert torch.equal(stored(dataset.x_test), expected)


def test_raw_inputs_into_the_module_itself_are_another_thing():
    """Why there is a predictor: the module wants normalised inputs."""
    data = pixels()
    result = fedtrip.run(Experiment(**{**SMALL, "rounds": 8}), data=data, workers=1)
    raw = torch.as_tensor(data["x_test"]).float()
    assert accuracy(result.predictor(), data["x_test"], data["y_test"]) > 0.9
    assert accuracy(result.module, raw, data["y_test"]) < 0.9


@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_it_is_traced_scripted_and_exported(blobs, kind, tmp_path):
    data = blobs if kind == "floats" else pixels()
    predictor = fedtrip.run(Experiment(**SMALL), data=data, workers=1).predictor()
    x = torch.as_tensor(data["x_test"])
    expected = predictor(x)
    traced = torch.jit.trace(predictor, x[:2])
    assert torch.equal(traced(x), expected)
    scripted = torch.jit.script(predictor)
    scripted.save(tmp_path / "scripted.pt")
    assert torch.equal(torch.jit.load(tmp_path / "scripted.pt")(x), expected)
    exported = torch.export.export(predictor, (x[:5],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert torch.allclose(exported.module()(x), expected, atol=1e-5)
    if importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxscript"):
        torch.onnx.export(predictor, (x[:2],), tmp_path / "model.onnx", dynamo=True)
        assert (tmp_path / "model.onnx").stat().st_size > 0


def test_pixels_may_come_as_floats_from_0_to_1_and_in_double_precision(blobs):
    data = pixels()
    predictor = fedtrip.run(Experiment(**SMALL), data=data, workers=1).predictor()
    x = torch.as_tensor(data["x_test"])
    assert torch.allclose(predictor(x.float() / 255), predictor(x), atol=1e-4)
    floats = fedtrip.run(Experiment(**SMALL), data=blobs, workers=1).predictor()
    x = torch.as_tensor(blobs["x_test"])
    assert torch.equal(floats(x.double()), floats(x))


def test_the_trained_module_stays_what_it_is():
    result = fedtrip.run(Experiment(**SMALL), data=pixels(), workers=1)
    predictor = result.predictor()
    assert all(torch.equal(value, result.state[name]) for name, value in predictor.module.state_dict().items())
    assert predictor.module.state_dict().keys() == result.state.keys()
