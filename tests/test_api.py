"""The Python API: data in any form, models and methods of one's own, results, and runs that are run again."""

import inspect
import itertools
import json
import struct
from dataclasses import asdict, dataclass

import numpy as np
import pandas
import pytest
import torch
from torch import nn

import fedtrip
from fedtrip import Experiment, UserError
from fedtrip.families import METHOD
from fedtrip.methods.fedavg import FedAvg

SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 20, "batch_size": 10}


def bits(*arguments, **keywords):
    return fedtrip.run(*arguments, workers=1, **keywords).model_sha256


def without_seconds(result):
    return [{**asdict(record), "seconds": None} for record in result.records]


# ---- data


def test_the_same_data_in_every_form_give_the_same_bits(blobs, tmp_path):
    experiment = Experiment(**SMALL)
    expected = bits(experiment, data=blobs)
    wide = {name: array.astype(np.float64) if name.startswith("x") else array for name, array in blobs.items()}
    strided = {name: np.repeat(array, 2, axis=0)[::2] for name, array in blobs.items()}
    tensors = {name: torch.from_numpy(array) for name, array in blobs.items()}
    fortran = {name: np.asfortranarray(array) for name, array in blobs.items()}
    frozen = {name: array.copy() for name, array in blobs.items()}
    for array in frozen.values():
        array.flags.writeable = False
    for form in (list(blobs.values()), tuple(blobs.values()), fedtrip.from_arrays(**blobs), wide, strided, tensors,
                 fortran, frozen):  # fmt: skip
        assert bits(experiment, data=form) == expected
    np.savez(tmp_path / "data.npz", **blobs)
    assert bits(experiment.but(dataset=f"npz:{tmp_path / 'data.npz'}")) == expected


def test_bytes_as_pixels_from_arrays_and_idx_files(tmp_path):
    random = np.random.default_rng(2)
    arrays = {}
    for part, prefix, count in (("train", "train", 40), ("test", "t10k", 12)):
        arrays[f"x_{part}"] = random.integers(0, 256, (count, 7, 5), dtype=np.uint8)
        arrays[f"y_{part}"] = (np.arange(count) % 4).astype(np.uint8)
        for name, array in (("images-idx3", arrays[f"x_{part}"]), ("labels-idx1", arrays[f"y_{part}"])):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (tmp_path / f"{prefix}-{name}-ubyte").write_bytes(header + array.tobytes())
    experiment = Experiment(**SMALL)
    assert bits(experiment.but(dataset=f"idx:{tmp_path}")) == bits(experiment, data=arrays)


def test_data_that_come_split(blobs, tmp_path):
    x, y = blobs["x_train"], blobs["y_train"]
    sizes = [10, 50, 30]
    starts = np.cumsum([0, *sizes])
    pairs = [(x[a:b], y[a:b]) for a, b in itertools.pairwise(starts)]
    data = fedtrip.from_clients(pairs, (blobs["x_test"], blobs["y_test"]))
    result = fedtrip.run(Experiment(rounds=3, per_round=3, batch_size=10), data=data, workers=1)
    assert (result.experiment.partition, result.experiment.clients) == ("given", 3)
    assert result.experiment.samples_per_client is None
    owners = np.repeat(np.arange(3), sizes)
    np.savez(tmp_path / "split.npz", **blobs, client_train=owners)
    stored = Experiment(dataset=f"npz:{tmp_path / 'split.npz'}", rounds=3, per_round=3, batch_size=10)
    assert bits(stored) == result.model_sha256
    # FedAvg weights by n_k: by hand from the three uploads of one round
    state = None

    class Spy(FedAvg):
        needs_each = True

        def aggregate(self, server, uploads):
            nonlocal state
            state = {upload.client: (upload.samples, upload["w"].double()) for upload in uploads.each()}
            return super().aggregate(server, uploads)

    from dataclasses import replace

    from fedtrip.experiment.federation import prepare
    from fedtrip.runs.running import run_federation

    federation = prepare(stored.but(rounds=1, method="fedavg"))
    federation = replace(federation, rules=replace(federation.rules, method=Spy()))
    module = run_federation(federation, workers=1).module
    assert [state[client][0] for client in range(3)] == sizes
    mean = sum(n * w for n, w in state.values()) / 90
    from fedtrip.training.flat_model import FlatModel

    w = FlatModel(module, federation.dataset.sample_shape).model()["w"]
    assert torch.allclose(w.double(), mean, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": 5}, "clients is 5; accepted: 3, as the data come split"),
        ({"per_round": 4}, "per_round is 4; accepted: at most the number of clients, 3"),
        ({"samples_per_client": 5}, "samples_per_client has no meaning"),
        ({"partition": "iid"}, "partition 'iid' cannot be drawn from data that are already split; accepted: given"),
    ],
)
def test_what_has_no_meaning_for_data_that_come_split(blobs, changes, message):
    data = fedtrip.from_arrays(**blobs, client_train=np.arange(90) % 3)
    with pytest.raises(UserError) as refused:
        fedtrip.run(Experiment(**{"rounds": 1, **changes}), data=data)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((1, 2, 3), "data has 3 parts; accepted: a DataSet, x_train, y_train, x_test and y_test, or a pair"),
        ({"x_train": 1}, "data lacks y_train, x_test, y_test"),
        ({"x_trian": 1}, "data 'x_trian' is unknown; did you mean 'x_train'?"),
        ((np.zeros((0, 3)), [], np.zeros((1, 3)), [0]), "it is empty"),
        ((np.zeros((2, 3)), [0, 1], np.zeros((1, 4)), [0]), "x_test holds samples of shape (4,)"),
        ((np.full((2, 3), np.nan), [0, 1], np.zeros((1, 3)), [0]), "NaN"),
        ((np.zeros((2, 3)), [0, -1], np.zeros((1, 3)), [0]), "y_train has the label -1"),
    ],
)
def test_data_that_cannot_be_used(data, message):
    with pytest.raises(UserError) as refused:
        fedtrip.run(Experiment(rounds=1), data=data)
    assert message in str(refused.value)


def test_defaults_of_named_data_and_models_are_not_those_of_ones_own(blobs):
    """An experiment's default names are digits and mlp, which have samples, a target and a μ of the paper's."""
    paper = Experiment(method="fedtrip", rounds=1)
    named = fedtrip.run(paper, workers=1).experiment
    assert (named.samples_per_client, named.target, named.method.options["mu"]) == (400, 0.9, 1.0)
    own = fedtrip.run(paper, data=blobs, model=nn.Linear(6, 3), workers=1).experiment
    assert (own.samples_per_client, own.target, own.method.options["mu"]) == (9, None, 0.4)
    with pytest.raises(UserError, match="stop_at_target needs a target"):
        fedtrip.run(Experiment(rounds=1, stop_at_target=True), data=blobs)


def test_normalisation_of_ones_own_data_is_checked(images):
    for mean, message in (((0.5, 0.5), "mean has 2 numbers"), ((), "mean has 0 numbers")):
        with pytest.raises(UserError, match=message):
            fedtrip.run(Experiment(rounds=1, mean=mean, std=(1.0, 1.0, 1.0), model="alexnet"), data=images)


# ---- models


def test_the_users_module_stays_as_it_was(blobs, batch_norm_model):
    before = {name: value.clone() for name, value in batch_norm_model.state_dict().items()}
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    threads = torch.get_num_threads()
    result = fedtrip.run(Experiment(**SMALL), data=blobs, model=batch_norm_model, workers=1)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads
    assert all(torch.equal(value, before[name]) for name, value in batch_norm_model.state_dict().items())
    assert all(parameter.grad is None for parameter in batch_norm_model.parameters())
    trained = result.module
    assert type(trained) is nn.Sequential
    assert not trained.training
    assert any(not torch.equal(value, before[name]) for name, value in trained.state_dict().items())


def test_a_module_given_to_a_stored_run_stays_as_it_was(blobs, batch_norm_model, tmp_path):
    before = {name: value.clone() for name, value in batch_norm_model.state_dict().items()}
    trained = fedtrip.run(Experiment(**SMALL), data=blobs, model=batch_norm_model, out=tmp_path / "run", workers=1)
    stored = fedtrip.load_result(tmp_path / "run", data=blobs, model=batch_norm_model)
    for _ in range(2):  # it can be asked for again
        assert torch.equal(stored.module[0].weight, trained.module[0].weight)
    assert all(torch.equal(value, before[name]) for name, value in batch_norm_model.state_dict().items())


def test_a_function_that_makes_the_model_gives_it_the_seeds_weights(blobs):
    def make():
        return nn.Linear(6, 3)

    experiment = Experiment(**SMALL)
    assert bits(experiment, data=blobs, model=make) == bits(experiment, data=blobs, model=make)
    assert bits(experiment, data=blobs, model=make) != bits(experiment.but(seed=1), data=blobs, model=make)


def test_a_model_that_does_not_fit_the_classes(blobs):
    with pytest.raises(UserError, match=r"model 'Linear' returns shape \(2, 5\).*accepted: a tensor of shape \(2, 3\)"):
        fedtrip.run(Experiment(**SMALL), data=blobs, model=nn.Linear(6, 5))


# ---- results and stored runs


def test_what_a_result_answers(blobs, tmp_path):
    result = fedtrip.run(Experiment(**{**SMALL, "rounds": 12, "target": 0.5}), data=blobs, out=tmp_path / "run")
    assert [number for number, _ in result.curve] == list(range(1, 13))
    accuracies = [accuracy for _, accuracy in result.curve]
    reached = next(number for number, accuracy in result.curve if accuracy >= 0.5)
    assert result.rounds_to(0.5) == reached == result.summary()["rounds_to_target"]
    assert result.rounds_to(1.1) is None
    assert result.final_accuracy == pytest.approx(sum(accuracies[-10:]) / 10)
    assert result.summary()["best_score"] == max(accuracies)
    frame = result.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["accuracy"]) == accuracies
    loaded = fedtrip.load_result(tmp_path / "run", data=blobs)
    assert loaded.records == result.records
    assert loaded.model_sha256 == result.model_sha256
    stored, summary = json.loads((tmp_path / "run/summary.json").read_text()), result.summary()
    assert {k: v for k, v in stored.items() if k not in ("files_sha256", "summary_sha256")} == summary
    assert loaded.summary() == summary
    with torch.no_grad():
        data = fedtrip.from_arrays(**blobs)
        right = (
            fedtrip.load(tmp_path / "run", data=blobs)(data.normalised(data.x_test)).argmax(1) == data.y_test
        ).sum()
    assert int(right) / 30 == result.records[-1].accuracy
    assert fedtrip.evaluate(tmp_path / "run", data=blobs) == result.records[-1].scores


def test_on_round_is_called_with_each_record_as_it_comes():
    seen = []
    result = fedtrip.run(Experiment(**SMALL), on_round=seen.append, workers=1)
    assert tuple(seen) == result.records


def test_an_exception_of_on_round_comes_through_and_leaves_an_unfinished_run(blobs, tmp_path):
    def stop(record):
        if record.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedtrip.run(Experiment(**SMALL), data=blobs, out=tmp_path / "run", on_round=stop)
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2
    with pytest.raises(UserError, match="is not finished"):
        fedtrip.load_result(tmp_path / "run")


@pytest.mark.parametrize("method", METHOD.names())
def test_a_stored_experiment_gives_the_same_bits_again(method, tmp_path):
    first = fedtrip.run(
        Experiment(**SMALL, method=method, weight_decay=1e-3, local_epochs=2, eval_every=2), out=tmp_path, workers=1
    )
    stored = Experiment.from_toml(tmp_path / "experiment.toml")
    assert stored == first.experiment
    again = fedtrip.run(stored, workers=1)
    assert again.model_sha256 == first.model_sha256
    assert without_seconds(again) == without_seconds(first)
    assert again.experiment == stored


def test_every_field_that_decides_the_bits_is_stored(tmp_path):
    """None may be left to a default, but those that ask for nothing: no clip, no layer for MOON, no patience."""
    fedtrip.run(Experiment(**SMALL), out=tmp_path, workers=1)
    import tomllib

    stored = tomllib.loads((tmp_path / "experiment.toml").read_text())
    assert set(Experiment.model_fields) - set(stored) == {"clip", "representation", "eval_clients", "patience"}
    assert stored["method"] == {"name": "fedtrip", "mu": 1.0}
    assert stored["momentum"] == 0.9
    assert len(stored["mean"]) == len(stored["std"]) == 1


@pytest.mark.parametrize("normalisation", [{}, {"mean": 0.25, "std": 3.0}])
def test_objects_from_python_are_demanded_again(blobs, batch_norm_model, tmp_path, normalisation):
    experiment = Experiment(**SMALL, **normalisation)
    first = fedtrip.run(experiment, data=blobs, model=batch_norm_model, out=tmp_path / "run", workers=1)
    stored = Experiment.from_toml(tmp_path / "run/experiment.toml")
    assert stored.dataset.startswith("python:")
    assert stored.model.startswith("python:")
    assert len(stored.dataset) == len(stored.model) == len("python:") + 64
    with pytest.raises(
        UserError, match=r"dataset is a Python object with SHA-256 \w+; accepted: give it again as data="
    ):
        fedtrip.run(stored, model=batch_norm_model)
    with pytest.raises(
        UserError, match=r"model is a Python object with SHA-256 \w+; accepted: give it again as model="
    ):
        fedtrip.run(stored, data=blobs)
    other = {**blobs, "x_train": blobs["x_train"] + np.float32(0.1)}
    with pytest.raises(UserError, match=r"data has SHA-256 \w+; accepted: the one of the experiment"):
        fedtrip.run(stored, model=batch_norm_model, data=other)
    with pytest.raises(UserError, match=r"model has SHA-256 \w+; accepted: the one of the experiment"):
        fedtrip.run(stored, model=nn.Linear(6, 3), data=blobs)
    assert bits(stored, data=blobs, model=batch_norm_model) == first.model_sha256
    scores = fedtrip.evaluate(tmp_path / "run", data=blobs, model=batch_norm_model)
    assert scores == first.records[-1].scores


@dataclass(frozen=True)
class Shrinking(FedAvg):
    """A method of one's own, given as an object."""

    strength: float = 0.1
    mode: str | None = None

    def client(self, received, memory, local):
        return super().client({**received, "w": received["w"] * (1 - self.strength)}, memory, local)


def test_a_method_given_as_an_object(blobs, tmp_path):
    experiment = Experiment(**SMALL, method=Shrinking(strength=0.3))
    first = fedtrip.run(experiment, data=blobs, out=tmp_path, workers=1)
    assert first.experiment.method.name == "test_api:Shrinking"
    stored = Experiment.from_toml(tmp_path / "experiment.toml")
    assert stored.method.options == {"strength": 0.3}
    assert bits(stored, data=blobs) == first.model_sha256 != bits(Experiment(**SMALL, method="fedavg"), data=blobs)


def test_the_seed_and_only_the_seed_changes_the_bits(blobs):
    assert bits(Experiment(**SMALL), data=blobs) == bits(Experiment(**SMALL), data=blobs)
    assert bits(Experiment(**SMALL), data=blobs) != bits(Experiment(**SMALL, seed=1), data=blobs)
    assert bits(Experiment(**SMALL, eval_every=3, target=0.2), data=blobs) == bits(Experiment(**SMALL), data=blobs)


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_are_checked_before_anything_is_written(blobs, tmp_path, workers):
    with pytest.raises(UserError, match=f"workers is {workers}; accepted: at least 1"):
        fedtrip.run(Experiment(**SMALL), data=blobs, out=tmp_path / "run", workers=workers)
    assert not (tmp_path / "run").exists()


def test_everything_in_all_is_there():
    for name in fedtrip.__all__ * 2:  # twice: no module may take a function's place once it is imported
        assert not inspect.ismodule(getattr(fedtrip, name))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = fedtrip.nonsense
