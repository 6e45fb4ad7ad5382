"""torch Datasets: read once, in order, into the arrays that they stand for; what cannot be read so is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset

import fedtrip
from fedtrip.data import from_arrays, from_datasets
from fedtrip.errors import UserError

X = torch.arange(24, dtype=torch.float32).reshape(12, 2)
Y = torch.tensor([0, 1, 2] * 4)


class Items(Dataset):
    """Items of a list; counts how often one is read."""

    def __init__(self, items):
        self.items, self.reads = items, []

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.reads.append(index)
        return self.items[index]


def pairs(x=X, y=Y):
    return Items([(row, int(label)) for row, label in zip(x, y, strict=True)])


def same(mine, theirs):
    assert mine.sha256() == theirs.sha256()


def test_items_become_the_arrays_that_they_were_made_of_in_order():
    train = pairs()
    same(from_datasets(train, pairs(X[:3], Y[:3])), from_arrays(X, Y, X[:3], Y[:3]))
    assert train.reads == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(12)), lambda d: ConcatDataset([d])])
def test_tensor_datasets_and_their_subsets_are_the_same_data(wrap):
    made = from_datasets(wrap(TensorDataset(X, Y)), Subset(Subset(TensorDataset(X, Y), [5, 3, 1]), [2, 0]))
    same(made, from_arrays(X, Y, X[[1, 5]], Y[[1, 5]]))


def test_a_tensor_dataset_with_items_of_its_own_is_read_item_by_item():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return 2 * x, y

    assert from_datasets(Doubled(X, Y), TensorDataset(X, Y)).x_train.tolist() == (2 * X).tolist()


def test_a_list_has_one_for_each_client():
    made = from_datasets([TensorDataset(X[:5], Y[:5]), pairs(X[5:], Y[5:])], TensorDataset(X, Y))
    same(made, from_arrays(X, Y, X, Y, client_train=[0] * 5 + [1] * 7))
    with_tests = from_datasets([pairs(), pairs()], [pairs(X[:1], Y[:1]), pairs(X[:2], Y[:2])])
    assert with_tests.client_test.tolist() == [0, 1, 1]
    with pytest.raises(UserError, match="test is a list, but train one Dataset"):
        from_datasets(pairs(), [pairs()])


def test_several_inputs_stay_a_tuple_or_a_dict():
    named = Items([({"ids": torch.tensor([i, 1]), "mask": [True, False]}, i % 2) for i in range(4)])
    made = from_datasets(named, named)
    assert {name: tensor.tolist() for name, tensor in made.x_train.items()} == {
        "ids": [[0, 1], [1, 1], [2, 1], [3, 1]],
        "mask": [[True, False]] * 4,
    }
    placed = Items([((np.float32([i]), i), float(i)) for i in range(4)])
    made = from_datasets(placed, placed, targets="numbers")
    assert [tensor.tolist() for tensor in made.x_train] == [[[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3]]
    assert made.y_train.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_number_is_a_sample_of_one_feature():
    assert from_datasets(pairs(X[:, 0]), pairs(X[:, 0])).x_train.shape == (12, 1)


def test_pictures_become_pixels_with_channels_first():
    from PIL import Image

    colours = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    pictures = Items([(Image.fromarray(colours), 0), (Image.fromarray(colours), 1)])
    assert from_datasets(pictures, pictures).x_train[1].tolist() == colours.transpose(2, 0, 1).tolist()
    wrong = Items([(Image.new("RGBA", (4, 2)), 0)])
    with pytest.raises(UserError, match="item 0: x is a picture of mode RGBA; accepted: L and RGB"):
        from_datasets(wrong, pictures)


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([], "train has no items"),
        ([X[0]], "item 0 is a Tensor; accepted: a pair"),
        ([(X[0], 1, 2)], "item 0 is a tuple of 3; accepted: a pair"),
        ([(X[0], 0), (X[0, :1], 0)], r"item 1: x has the shape \(1,\) and type float32, but that of item 0 \(2,\)"),
        ([(X[0], 0), ({"a": X[0]}, 0)], "item 1 has x a, the target, but item 0 x, the target"),
        ([(X[0], 0), (X[0], 0.5)], "item 1: the target has the shape .* type float64, but that of item 0 .* int64"),
        ([("word", 0)], "item 0: x holds values of type <U4; numbers are needed"),
        ([(torch.tensor([float("nan")]), 0)], "x_train has values that are NaN"),
    ],
)
def test_bad_items_are_named(items, told):
    with pytest.raises(UserError, match=told):
        from_datasets(Items(items), pairs())


def test_random_items_are_refused():
    class Flipped(Items):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x + len(self.reads), y

    with pytest.raises(UserError, match=r"train: item 0: x is another one when it is read again.*augment"):
        from_datasets(Flipped(pairs().items), pairs())


def test_what_has_no_numbered_items_is_refused_by_name():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(UserError, match=r"train is an IterableDataset \(Stream\)"):
        from_datasets(Stream(), pairs())
    with pytest.raises(UserError, match="test is a int; accepted"):
        from_datasets(pairs(), 3)

    class Short(Items):
        def __len__(self):
            return 99

    with pytest.raises(UserError, match="train: item 12 is not there, but the Dataset says that it has 99"):
        from_datasets(Short(pairs().items), pairs())


@pytest.mark.parametrize("form", ["pair", "dict"])
def test_a_run_takes_them_and_has_the_bits_of_the_arrays(form):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    y = torch.arange(60) % 3
    experiment = fedtrip.Experiment(rounds=2, clients=3, per_round=2)
    train, test = pairs(x[:45], y[:45]), TensorDataset(x[45:], y[45:])
    given = (train, test) if form == "pair" else {"train": train, "test": test}
    made = fedtrip.run(experiment, data=given, workers=1)
    arrays = fedtrip.run(experiment, data=(x[:45], y[:45], x[45:], y[45:]), workers=1)
    assert made.model_sha256 == arrays.model_sha256
    assert made.experiment.dataset == arrays.experiment.dataset


def test_a_run_says_what_is_missing():
    with pytest.raises(UserError, match="data is one torch Dataset"):
        fedtrip.run(data=pairs())
    with pytest.raises(UserError, match="data lacks test"):
        fedtrip.run(data={"train": pairs()})
    with pytest.raises(UserError, match="data 'tset' is unknown; did you mean 'test'"):
        fedtrip.run(data={"train": pairs(), "tset": pairs()})


def test_the_task_says_what_the_targets_are():
    numbers = Items([(row, float(row.sum())) for row in X])
    done = fedtrip.run(fedtrip.Experiment(task="regression", rounds=1, clients=3), data=(numbers, numbers), workers=1)
    assert "rmse" in done.records[-1].scores
    with pytest.raises(UserError, match=r"floating-point numbers.*or task regression"):
        fedtrip.run(data=(numbers, numbers))
