"""Bad input: exit code 2, one clear line on stderr, nothing on stdout, nothing written."""

import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally import tally


@pytest.fixture(autouse=True)
def files(here):
    """A working folder with all kinds of things in it."""
    (here / "file").write_text("a file")
    (here / "full").mkdir()
    (here / "full/own.txt").write_text("somebody's")
    (here / "broken.toml").write_text("rounds = [")
    (here / "future.toml").write_text("schema_version = 99")
    (here / "typo.toml").write_text("runds = 3")
    (here / "self.toml").write_text("self = 3")
    (here / "lines.toml").write_text('"two\\nlines" = 3')
    (here / "option.toml").write_text("[method]\nname = 'fedavg'\nmu = 3")
    (here / "python.toml").write_text("dataset = 'python:abc'")
    (here / "latin.toml").write_bytes("# größer".encode("latin-1"))
    (here / "damaged.npz").write_bytes(b"PK\x03\x04 nonsense")
    np.savez(here / "partial.npz", x_train=np.zeros((2, 2)))
    np.savez(here / "odd.npz", x_train=np.zeros((9, 2)), y_train=np.zeros(8), x_test=np.zeros((1, 2)), y_test=[0])
    colour = np.zeros((6, 3, 4, 4), np.uint8)
    np.savez(here / "colour.npz", x_train=colour, y_train=np.arange(6) % 2, x_test=colour, y_test=np.arange(6) % 2)
    (here / "MNIST/raw").mkdir(parents=True)
    for name, count, size in (("train", 60_000, 50), ("t10k", 10_000, 50)):
        header = struct.pack(">BBBBIII", 0, 0, 8, 3, count, 28, 28)
        (here / f"MNIST/raw/{name}-images-idx3-ubyte").write_bytes(header + bytes(size))
        (here / f"MNIST/raw/{name}-labels-idx1-ubyte").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(9))
    (here / "badmodel.py").write_text(
        "from torch import nn\n"
        "def seven(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))\n"
        "def fails(): raise RuntimeError('two\\nlines')\n"
        "three = 3\n"
    )
    return here


BAD = [
    # names
    (["--method", "fedtrp"], "method 'fedtrp' is unknown; did you mean 'fedtrip'? accepted: apfl, ditto, fed"),
    (["--method", "nowhere:Class"], "method 'nowhere:Class' cannot be imported: ModuleNotFoundError"),
    (["--method", "badmodel:three"], "method 'badmodel:three' is not usable; accepted: a subclass of fedtrip.methods"),
    (["--method", "badmodel:four"], "method 'badmodel:four' cannot be imported: module 'badmodel' has no 'four'"),
    (["--method", ":"], "method ':' cannot be read; accepted: package.module:name"),
    (["--dataset", "digts"], "data set 'digts' is unknown; did you mean 'digits'?"),
    (["--dataset", "npz:"], "npz:FILE"),
    (["--model", "mpl"], "model 'mpl' is unknown; did you mean 'mlp'?"),
    (["--model", "badmodel:seven"], "returns shape (2, 7) for a batch of shape (2, 1, 8, 8); accepted: a tensor"),
    (["--model", "badmodel:fails"], "failed when called with (): RuntimeError: two lines"),
    (["--model", "cnn"], "model 'cnn' cannot take samples of shape (1, 8, 8); accepted: (channels, height, width)"),
    (["--partition", "dirichle:0.5"], "partition 'dirichle' is unknown; did you mean 'dirichlet:ALPHA'?"),
    (["--partition", "dirichlet:nan"], "partition 'dirichlet:nan': option 'alpha' is nan; accepted: a finite number"),
    (["--partition", "orthogonal:11", "--samples-per-client", 9], "has more clusters than classes; accepted: 1 to 10"),
    (["--partition", "given"], "partition 'given' needs data that are already split"),
    (["--draw", "twice"], "draw is 'twice'; accepted: 'overlap', 'nested' or 'disjoint'"),
    (["--representation", "layer.7", "--method", "moon"], "representation 'layer.7' is unknown; accepted: 0, 1, 2, 3"),
    # numbers
    (["--per-round", 11], "per_round is 11; accepted: at most the number of clients, 10"),
    (["--clients", 3, "--per-round", 4], "per_round is 4; accepted: at most the number of clients, 3"),
    (["--samples-per-client", 1438], "samples_per_client 1438 is more than the training set holds; accepted: at"),
    (["--draw", "disjoint"], "draw 'disjoint' needs 10 clients × 400 samples_per_client = 4000 samples; accepted: at"),
    (["--lr", -0.1], "lr is -0.1; accepted: greater than 0"),
    (["--lr", 0], "lr is 0.0; accepted: greater than 0"),
    (["--lr", "nan"], "lr is nan; accepted: a finite number"),
    (["--lr", "inf"], "lr is inf; accepted: a finite number"),
    (["--momentum", 1], "momentum is 1.0; accepted: less than 1"),
    (["--momentum", "nan"], "momentum is nan; accepted:"),
    (["--weight-decay", -1], "weight_decay is -1.0; accepted: greater than or equal to 0"),
    (["--rounds", 0], "rounds is 0; accepted: greater than or equal to 1"),
    (["--rounds", "many"], "--rounds"),
    (["--batch-size", 0], "batch_size is 0; accepted: greater than or equal to 1"),
    (["--local-epochs", -1], "local_epochs is -1; accepted: greater than or equal to 1"),
    (["--eval-every", 0], "eval_every is 0; accepted: greater than or equal to 1"),
    (["--target", 90], "target is 90.0; accepted: less than or equal to 1"),
    (["--seed", -1], "seed is -1; accepted: greater than or equal to 0"),
    (["--workers", 0], "workers is 0; accepted: at least 1"),
    (["--workers", -1], "workers is -1; accepted: at least 1"),
    (["--snapshot", 101], "snapshot is 101; accepted: rounds from 1 to 100"),
    (["--snapshot", "ten"], "rounds 'ten' cannot be read; accepted: numbers and ranges like 10,20-30"),
    (["--mean", 0.5], "mean and std go together; accepted: both, or neither"),
    (["--mean", "0.5,0.5", "--std", "1,1"], "mean has 2 numbers"),
    (["--mean", "grey", "--std", "1"], "mean is 'grey'; accepted: one number, or one a channel, comma-separated"),
    (["--mean", "inf", "--std", "1"], "mean.0 is inf; accepted: a finite number"),
    (["--mean", 0, "--std", 0], "std.0 is 0.0; accepted: greater than 0"),
    (["--dataset", "npz:colour.npz", "--mean", "1,2", "--std", "1,2"], "mean has 2 numbers; give 1, or 3"),
    (["--dataset", "npz:colour.npz", "--stop-at-target"], "stop_at_target needs a target"),
    # --set
    (["--set", "nonsense"], "--set 'nonsense' cannot be read; accepted: NAME=VALUE, e.g. method.mu=0.4"),
    (["--set", "method.mu="], "--set 'method.mu=' cannot be read"),
    (["--set", "=3"], "--set '=3' cannot be read"),
    (["--set", "lrr=0.1"], "--set 'lrr' is unknown; did you mean 'lr'?"),
    (["--set", "lr=fast"], "lr is 'fast'; accepted: a valid number"),
    (["--set", "lr=0.1,0.2"], "--set lr has 2 values; accepted: one (a sweep needs `fedtrip compare`)"),
    (["--set", "lr=0.1", "--lr", "0.2"], "--set lr is given more than once; accepted: once, here or as --lr"),
    (["--set", "method=fedavg"], "--set 'method' is unknown"),
    (["--set", "fedprox.mu=1"], "--set fedprox.mu: the method is 'fedtrip'; accepted: fedtrip.mu or method.mu"),
    (["--set", "method.nu=1"], "method 'fedtrip': option 'nu' is unknown; did you mean 'mu'?"),
    (["--set", "method.mu=1,2"], "--set method.mu has 2 values; accepted: one (a sweep needs `fedtrip compare`)"),
    (["--set", "method.mu=1", "--set", "method.mu=2"], "--set method.mu is given more than once"),
    (["--set", "method.mu=high"], "option 'mu' is 'high'; accepted: a valid number"),
    (["--set", "method.mu=-1"], "option 'mu' is -1; accepted: greater than or equal to 0"),
    (["--set", "method.mu=nan"], "option 'mu' is nan; accepted: "),
    (["--method", "scaffold", "--set", "method.option=III"], "option 'option' is 'III'; accepted: 'I' or 'II'"),
    (["--method", "fedavg", "--set", "method.mu=1"], "option 'mu' is unknown: method 'fedavg' has no options"),
    # experiment files
    (["broken.toml"], "experiment file 'broken.toml' is not valid TOML"),
    (["latin.toml"], "experiment file 'latin.toml' is not valid TOML"),
    (["future.toml"], "experiment file 'future.toml': schema_version is 99; accepted: 2"),
    (["typo.toml"], "experiment file 'typo.toml': field 'runds' is unknown; did you mean 'rounds'?"),
    (["self.toml"], "experiment file 'self.toml': field 'self' is unknown"),
    (["lines.toml"], "field 'two lines' is unknown"),
    (["option.toml"], "option 'mu' is unknown: method 'fedavg' has no options"),
    (["python.toml"], "dataset is a Python object with SHA-256 abc; accepted: give it again as data="),
    (["absent.toml"], "experiment file 'absent.toml' cannot be read: No such file or directory"),
    (["full"], "experiment file 'full' cannot be read: Is a directory"),
    # data files
    (["--dataset", "npz:absent.npz"], "absent.npz: there is no such file"),
    (["--dataset", "npz:damaged.npz"], "damaged.npz: is not an .npz file"),
    (["--dataset", "npz:partial.npz"], "partial.npz: lacks y_train, x_test, y_test"),
    (["--dataset", "npz:odd.npz"], "odd.npz: y_train has 8 entries for 9 samples"),
    (["--dataset", "idx:full"], "full: lacks train-images-idx3-ubyte"),
    (["--dataset", "mnist", "--data-dir", "full"], "data set 'mnist' is not in"),
    (["--dataset", "mnist", "--data-dir", "."], "train-images-idx3-ubyte"),
    # places
    (["--out", "file"], "file' is a file; accepted: a folder"),
    (["--out", "file/run"], "is not a folder one may write in"),
    (["--out", "full"], "is not empty and holds no run; accepted: a new or empty folder"),
    (["--out", "full", "--overwrite"], "is not empty and holds no run; accepted: a new or empty folder"),
    (["--out", "/proc/fedtrip-run"], "--out '/proc/fedtrip-run' cannot be written"),
    # the command line itself
    (["--runds", 3], "No such option"),
    (["--rounds"], "--rounds"),
    (["typo.toml", "another.toml"], "another.toml"),
]  # fmt: skip


def check(ended, message):
    assert ended.code == 2, ended
    assert ended.out == ""
    assert message in ended.err, ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    tally("chosen by hand", "refused")


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(map(str, bad[0])) for bad in BAD])
def test_one_clear_line_and_nothing_written(fedtrip, files, listing, monkeypatch, arguments, message):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = listing(files)
    check(fedtrip("run", *arguments), message)
    assert listing(files) == before
    sys.modules.pop("badmodel", None)


BAD_COMPARISONS = [
    (["--methods", "fedavg,fedtrp"], "method 'fedtrp' is unknown; did you mean 'fedtrip'?"),
    (["--methods", ","], "--methods is ','; accepted: names, comma-separated, "),
    (["--methods", "fedavg,fedavg"], "methods names 'fedavg' more than once; accepted: each method once"),
    (["--trials", 0], "trials is 0; accepted: at least 1"),
    (["--workers", 0], "workers is 0; accepted: at least 1"),
    (["--workers", -1], "workers is -1; accepted: at least 1"),
    (["--set", "fedtrip.nu=1,2"], "method 'fedtrip': option 'nu' is unknown; did you mean 'mu'?"),
    (["--set", "fedtrap.mu=1"], "--set fedtrap.mu: 'fedtrap' is unknown; did you mean 'fedtrip'?"),
    (["--set", "lrr=0.1,0.2"], "--set 'lrr' is unknown; did you mean 'lr'?"),
    (["--set", "lr=0.1,-1"], "lr is -1; accepted: greater than 0"),
    (["--set", "lr=0.1,0.1"], "--set makes two variants"),
    (["--set", "method=fedavg,fedprox"], "--set 'method' is unknown"),
    (["--set", "seed=1,2"], "--set 'seed' is unknown"),
    (["--out", "full", "--overwrite"], "is not empty and holds no comparison; accepted: a new or empty folder"),
    (["--out", "file"], "file' is a file; accepted: a folder"),
    (["--out", "/proc/fedtrip-comparison"], "--out '/proc/fedtrip-comparison' cannot be written"),
    (["--per-round", 11], "per_round is 11; accepted: at most the number of clients, 10"),
    (["broken.toml"], "experiment file 'broken.toml' is not valid TOML"),
    (["--set", "model=mlp,cnn"], "model 'cnn' cannot take samples of shape (1, 8, 8)"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD_COMPARISONS, ids=[" ".join(map(str, b[0])) for b in BAD_COMPARISONS]
)
def test_the_same_for_comparisons(fedtrip, files, listing, arguments, message):
    before = listing(files)
    check(fedtrip("compare", *arguments), message)
    assert listing(files) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "No such option"),
        (["evaluate"], "Missing argument"),
        (["evaluate", "full"], "'full' is not a run: it has no experiment.toml"),
        (["data", "get", "mnst"], "'mnst' is unknown; did you mean 'mnist'?"),
    ],
)
def test_other_commands(fedtrip, files, listing, arguments, message):
    before = listing(files)
    check(fedtrip(*arguments), message)
    assert listing(files) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(fedtrip, files):
    (files / "full").chmod(0o500)
    check(fedtrip("run", "--out", "full/run"), "is not a folder one may write in")


@given(setting=st.text(max_size=20))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_setting_is_read_or_refused(setting):
    from contextlib import suppress

    from fedtrip.cli.options import read_settings
    from fedtrip.errors import UserError

    with suppress(UserError):
        for values in read_settings([setting, f"method.mu={setting}"]).values():
            assert values


def test_in_a_process_of_its_own(files, listing):
    """The installed command itself, with nothing of the tests around it."""
    before = listing(files)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "fedtrip", "run", "--method", "fedtrp"],
        cwd=files, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: method 'fedtrp' is unknown; did you mean 'fedtrip'?")
    assert listing(files) == before
