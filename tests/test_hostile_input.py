"""Anything may come in: it is used, or refused in a clear line; nothing ends in a traceback or trains on garbage."""

import gzip
import io
import os
import struct
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedtrip as package
from fedtrip import Experiment
from fedtrip.data import load_dataset
from fedtrip.experiment.description import LARGEST
from fedtrip.families import METHOD
from fedtrip.methods.interface import make_method
from fedtrip.partitions.interface import make_partition
from tally import attempt, tally

TIMES = int(os.environ.get("FEDTRIP_EXAMPLES", "1"))
"""How many times the usual number of examples is tried: more of them for docs/reliability.md."""
HOSTILE = st.one_of(
    st.sampled_from(["nan", "inf", "-inf", "true", "''", "[]", "{}", "0", "-1", "1e400", str(LARGEST + 1), "9" * 5000]),
    st.sampled_from(['"../../etc"', '"os:system"', '"\\u0000"', "1979-05-27", "[[[[]]]]", "[1, 'a']", "0x10", "1_000"]),
    st.floats().map(repr),
    st.integers(-10, 10).map(str),
    st.text(max_size=8).map(repr),
)
FIELDS = [name for name in Experiment.model_fields if name != "method"]


# ---- experiment files


@given(st.dictionaries(st.sampled_from(FIELDS), HOSTILE, min_size=1, max_size=3), HOSTILE)
@settings(max_examples=200 * TIMES)
def test_experiment_files_with_any_values(tmp_path_factory, values, option):
    path = tmp_path_factory.getbasetemp() / "hostile.toml"
    lines = [f"{name} = {value}" for name, value in values.items()]
    path.write_text("\n".join([*lines, "[method]", "name = 'fedtrip'", f"mu = {option}"]), encoding="utf-8")

    def used():
        experiment = Experiment.from_toml(path)
        method = make_method("fedtrip", experiment.method.options, model="mlp", dataset="digits")
        return experiment, method

    if (both := attempt("experiment files", used)) is not None:
        experiment, method = both
        assert Experiment.from_text(experiment.to_toml()) == experiment
        assert type(method.mu) is float
        assert 0 <= method.mu < np.inf


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 40))
@settings(max_examples=100 * TIMES)
def test_experiment_files_with_any_bytes(tmp_path_factory, noise, place, length):
    good = Experiment(rounds=3, method={"name": "fedtrip", "mu": 0.4}).to_toml().encode()
    path = tmp_path_factory.getbasetemp() / "noise.toml"
    path.write_bytes(good[:place] + noise + good[place + length :])
    attempt("experiment files", lambda: Experiment.from_toml(path))


# ---- the command line

OPTIONS = [f"--{name.replace('_', '-')}" for name in FIELDS if name not in ("schema_version", "rounds", "seed")]
VALUES = st.one_of(
    st.sampled_from(
        ["0", "1", "-1", "2", "nan", "inf", "1e400", "", " ", "--", "true", "fedavg", "npz:", "idx:.", "npz:/dev/null",
         "dirichlet:-1", "dirichlet:1e400", "orthogonal:0", "os:system", "torch.nn:Linear", "1-0",
         "99999999999999999999", "a\nb", "python:0", "é\x7f"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from([*OPTIONS, "--method", "--set", "--workers"]), VALUES, min_size=1, max_size=2))
@settings(max_examples=40 * TIMES)
def test_command_lines_with_any_values(given_options):
    """`fedtrip run` up to the point where it would train."""
    from fedtrip.cli import app

    arguments = [part for option in given_options.items() for part in option]
    places = [given_options.get("--out"), given_options.get("--data-dir")]
    assert places == [None, None]

    def used():
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                "fedtrip.runs.running.run_federation", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            patched.setattr("sys.path", list(__import__("sys").path))
            try:
                app(["run", "--quiet", *arguments], prog_name="fedtrip", standalone_mode=False)
            except Exception as problem:
                if not hasattr(problem, "format_message") and type(problem).__name__ != "Abort":
                    raise
                if type(problem).__name__ != "Abort":
                    raise package.UserError(problem.format_message()) from None

    attempt("command lines", used)


# ---- partitions


@given(
    spec=st.one_of(
        st.sampled_from(
            ["iid", "given", "dirichlet:0.5", "dirichlet:0", "orthogonal:2", "orthogonal:99", "", ":", "iid:1"]
        ),
        st.text(max_size=10),
    ),
    draw=st.sampled_from(["overlap", "nested", "disjoint"]),
    labels=st.lists(st.sampled_from([0, 1, 5]), min_size=1, max_size=30),
    clients=st.integers(1, 40),
    samples=st.integers(1, 40),
)
@settings(max_examples=200 * TIMES)
def test_partitions_of_any_kind(spec, draw, labels, clients, samples):
    """Classes without samples, more clients than samples, clients of one sample."""

    def used():
        made = make_partition(
            spec, draw=draw, labels=torch.tensor(labels), classes=6, clients=clients, samples_per_client=samples, seed=1
        )
        return [made.share(client) for client in range(clients)]

    for share in attempt("partitions", used) or ():
        assert len(share) == len(set(share.tolist())) == samples
        assert 0 <= share.min() <= share.max() < len(labels)


# ---- data files


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


GOOD = {
    "x_train": np.arange(12 * 4 * 4, dtype=np.uint8).reshape(12, 4, 4),
    "y_train": np.arange(12, dtype=np.uint8) % 3,
    "x_test": np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4),
    "y_test": np.arange(3, dtype=np.uint8),
}
NAMES = {
    "x_train": "train-images-idx3-ubyte", "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte", "y_test": "t10k-labels-idx1-ubyte",
}  # fmt: skip
DAMAGE = st.one_of(
    st.tuples(st.just("cut"), st.floats(0, 1), st.just(b"")),
    st.tuples(st.just("flip"), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("header"), st.floats(0, 0.05), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("more"), st.just(1.0), st.binary(min_size=1, max_size=40)),
)


def damaged(content, damage):
    kind, where, noise = damage
    place = int(where * len(content))
    return content[:place] if kind == "cut" else content[:place] + noise + content[place + len(noise) :]


def check_data(data):
    """What is accepted can be trained on."""
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        assert len(x) == len(y) > 0
        assert bool(torch.isfinite(x.float()).all())
        assert 0 <= y.min() <= y.max() < data.classes


@given(st.sampled_from(sorted(GOOD)), DAMAGE, st.booleans())
@settings(max_examples=150 * TIMES)
def test_damaged_idx_files(tmp_path_factory, name, damage, packed):
    folder = tmp_path_factory.getbasetemp() / "idx"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for each, file in NAMES.items():
        content = idx(GOOD[each])
        content = gzip.compress(content, mtime=0) if packed else content
        (folder / (file + ".gz" * packed)).write_bytes(damaged(content, damage) if each == name else content)
    data = attempt("data files", lambda: load_dataset(f"idx:{folder}"))
    if data is not None:
        check_data(data)


@given(DAMAGE, st.booleans())
@settings(max_examples=150 * TIMES)
def test_damaged_npz_files(tmp_path_factory, damage, packed):
    stored = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(stored, **GOOD)
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damaged(stored.getvalue(), damage))
    data = attempt("data files", lambda: load_dataset(f"npz:{path}"))
    if data is not None:
        check_data(data)


# ---- arrays


@given(
    dtype=st.sampled_from(
        ["uint8", "int8", "int64", "float16", "float32", "float64", "bool", "complex64", "object", "U3"]
    ),
    bad=st.sampled_from([None, None, np.nan, np.inf, 1e300]),
    labels=st.sampled_from(["good", "negative", "huge", "halves", "few", "column", "strings", "one class"]),
    strided=st.booleans(),
    samples=st.integers(0, 3),
)
@settings(max_examples=150 * TIMES)
def test_arrays_of_any_kind(dtype, bad, labels, strided, samples):
    wide = np.arange(60 * 8).reshape(60, 8) % 7
    x = np.asfortranarray(wide)[::-1, ::2] if strided else wide[:, :4]
    x = x.astype(np.float64 if bad is not None and np.dtype(dtype).kind == "f" else dtype)
    if bad is not None and x.dtype.kind == "f":
        x[30, 1] = bad
    y = {
        "good": np.arange(60) % 3, "negative": np.arange(60) % 3 - 1, "huge": np.full(60, 2**60),
        "halves": np.arange(60) / 2, "few": np.arange(59) % 3, "column": (np.arange(60) % 3)[:, None],
        "strings": np.array(["a"] * 60), "one class": np.zeros(60, int),
    }[labels]  # fmt: skip
    small = {"clients": 3, "per_round": 2, "rounds": 1, "samples_per_client": samples or 1, "batch_size": 2}

    def used():
        return package.run(Experiment(**small), data=(x, y, x[:6], y[:6]), workers=1)

    result = attempt("arrays", used)
    if result is not None:
        assert all(bool(torch.isfinite(value).all()) for value in result.state.values())
        assert bad is None or x.dtype.kind != "f" or result.ended is None


# ---- models


class Shared(nn.Module):
    """Two layers with one weight, a frozen one, and buffers of both kinds."""

    def __init__(self, norm, frozen, counting):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.first.bias.requires_grad = not frozen
        if counting:
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.counting = counting

    def forward(self, x):
        if self.counting and self.training:
            self.calls += 1
        return self.last(self.norm(self.second(self.first(x))))


@given(
    norm=st.booleans(), frozen=st.booleans(), counting=st.booleans(),
    method=st.sampled_from(METHOD.names()), samples=st.integers(1, 12), batch=st.integers(1, 20),
)  # fmt: skip
@settings(max_examples=60 * TIMES)
def test_models_of_any_kind(norm, frozen, counting, method, samples, batch):
    """Shared and frozen parameters, BatchNorm and integer buffers; clients of one sample, batches larger than that."""
    random = np.random.default_rng(0)
    data = (random.normal(size=(40, 6)), np.arange(40) % 3, random.normal(size=(9, 6)), np.arange(9) % 3)
    small = {"clients": 3, "per_round": 2, "rounds": 2, "samples_per_client": samples, "batch_size": batch}
    made = []

    def factory():
        made.append(Shared(norm, frozen, counting))
        return made[-1]

    result = attempt(
        "models", partial(package.run, Experiment(**small, method=method), model=factory, data=data, workers=1)
    )
    assert (result is None) == (norm and (samples - 1) % batch == 0)
    if result is not None:
        assert torch.equal(result.state["first.weight"], result.state["second.weight"])
        assert torch.equal(result.state["first.bias"], made[0].first.bias) or not frozen
        assert all(bool(torch.isfinite(value.float()).all()) for value in result.state.values())


def test_what_is_attempted_is_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDTRIP_TALLY", str(tmp_path / "counts"))
    tally("a", "refused")
    assert attempt("b", lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        attempt("c", lambda: 1 / 0)
    assert (tmp_path / "counts").read_text().splitlines() == [
        '["a", "refused"]',
        '["b", "accepted"]',
        '["c", "failed"]',
    ]
