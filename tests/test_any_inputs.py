"""Inputs of any kind, from the arrays to the trained model: token ids, several inputs, sequences, volumes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import fedtrip
from fedtrip import Experiment
from fedtrip.errors import UserError

RANDOM = np.random.default_rng(0)
LABELS = np.arange(120) % 3
SMALL = {"rounds": 2, "clients": 3, "per_round": 2, "partition": "iid", "samples_per_client": 30, "batch_size": 10}


class Bag(nn.Module):
    """The mean of the embeddings that the mask leaves, and a number beside it."""

    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(20, 4), nn.Linear(5, 3)

    def forward(self, ids, mask, age):
        kept = self.embedding(ids) * mask[..., None]
        mean = kept.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return self.last(torch.cat([mean, age[:, None]], 1))


class Answering(nn.Module):
    """As Hugging Face's modules answer: a table with the logits in it."""

    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(20, 4), nn.Linear(4, 3)

    def forward(self, input_ids, attention_mask=None):
        del attention_mask
        return SimpleNamespace(logits=self.last(self.embedding(input_ids).mean(1)), loss=None)


IDS, MASK, AGE = RANDOM.integers(0, 20, (120, 6)), RANDOM.integers(0, 2, (120, 6)), RANDOM.normal(size=120)
CASES = {
    "ids": (IDS, lambda: nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 3))),
    "tuple": ((IDS, MASK.astype(float), AGE), Bag),
    "dict": ({"age": AGE, "ids": IDS, "mask": MASK.astype(bool)}, Bag),
    "table of outputs": ({"input_ids": IDS, "attention_mask": MASK}, Answering),
    "windows": (
        RANDOM.normal(size=(120, 2, 9)),
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(28, 3)),
    ),
    "volumes": (
        RANDOM.normal(size=(120, 1, 3, 4, 5)),
        lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)),
    ),
    "grey images without a channel": (
        RANDOM.normal(size=(120, 6, 6)),
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)),
    ),
}


def part(x, rows):
    if isinstance(x, dict):
        return {name: array[rows] for name, array in x.items()}
    return tuple(array[rows] for array in x) if isinstance(x, tuple) else x[rows]


def arrays(x):
    train, test = slice(90), slice(90, None)
    return {"x_train": part(x, train), "y_train": LABELS[train], "x_test": part(x, test), "y_test": LABELS[test]}


def module(case):
    torch.manual_seed(0)
    return CASES[case][1]()


@pytest.mark.parametrize("method", ["fedtrip", "moon", "feddane"])
@pytest.mark.parametrize("case", CASES)
def test_it_trains_with_the_same_bits_on_any_workers(case, method):
    experiment = Experiment(**SMALL, method=method, client_test=0.2, eval_clients=1)
    one, two = (
        fedtrip.run(experiment, model=module(case), data=arrays(CASES[case][0]), workers=workers) for workers in (1, 2)
    )
    assert one.model_sha256 == two.model_sha256
    assert [record.scores for record in one.records] == [record.scores for record in two.records]
    first = module(case).state_dict()
    assert any(not torch.equal(first[name], tensor) for name, tensor in one.state.items())


def test_several_inputs_come_from_a_file_too(tmp_path):
    x = CASES["dict"][0]
    data = arrays(x)
    flat = {name: array for name, array in data.items() if name[0] == "y"}
    for name in ("x_train", "x_test"):
        flat |= {f"{name}.{key}": array for key, array in data[name].items()}
    np.savez(tmp_path / "several.npz", **flat)
    experiment = Experiment(**SMALL, dataset=f"npz:{tmp_path / 'several.npz'}")
    stored = fedtrip.run(experiment, model=module("dict"), workers=1)
    given = fedtrip.run(Experiment(**SMALL), model=module("dict"), data=data, workers=1)
    assert stored.model_sha256 == given.model_sha256


def test_token_ids_are_looked_up_as_they_are():
    """Of uint8 ids, which are pixels here, everything would be row 0: that is refused."""
    model = module("ids")
    result = fedtrip.run(Experiment(**SMALL), model=model, data=arrays(IDS), workers=1)
    rows = set(IDS[:90].ravel().tolist())
    changed = (result.state["0.weight"] != model.state_dict()["0.weight"]).any(1).nonzero().ravel().tolist()
    assert set(changed) <= rows
    assert len(changed) > 10
    with pytest.raises(UserError, match=r"looks up token ids .*accepted: token ids as integers, such as int64"):
        fedtrip.run(Experiment(**SMALL), model=model, data=arrays(IDS.astype(np.uint8)), workers=1)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "ids",
            r"model 'mlp' takes one array of numbers or pixels, but the samples are of shape \(6,\) and type",
        ),
        ("tuple", "model 'mlp' takes one array of numbers or pixels, but the samples are of 0: shape"),
    ],
)
def test_a_built_in_model_says_what_it_takes(case, told):
    with pytest.raises(UserError, match=told):
        fedtrip.run(Experiment(**SMALL), data=arrays(CASES[case][0]), workers=1)


def test_predictions_of_token_ids_need_no_normalisation():
    result = fedtrip.run(Experiment(**SMALL), model=module("ids"), data=arrays(IDS), workers=1)
    ids = torch.as_tensor(IDS[90:])
    hits = int((result.predictor()(ids).argmax(1) == torch.as_tensor(LABELS[90:])).sum())
    assert hits / 30 == result.final_model_score
