"""Wrong arguments of the public functions are bad input: errors name the argument, its value and what is accepted."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fedtrip
from fedtrip import ClientDevice, Experiment, UserError
from fedtrip.arguments import checked_arguments, fits, in_words
from fedtrip.methods.fedprox import FedProx


@dataclass(frozen=True)
class TopLevel(fedtrip.Method):
    """FedAvg under another name"""


def inside_a_function():
    @dataclass(frozen=True)
    class Mine(fedtrip.Method):
        """FedAvg that nobody finds"""

    return Mine()


EXPERIMENT = "accepted: an Experiment, such as Experiment(method='fedavg', rounds=20)"
MODEL = "model is 'cnn'; accepted: a torch module, or a function that makes one; a built-in one is named by Experiment("
DATA = "accepted: a DataSet, x_train, y_train, x_test and y_test, or a pair of torch Datasets"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fedtrip.run("fedavg"), f"experiment is 'fedavg'; {EXPERIMENT}"),
        (lambda: fedtrip.run({"rounds": 3}), f"experiment is {{'rounds': 3}}; {EXPERIMENT}"),
        (
            lambda: fedtrip.run(method="fedavg"),
            "run has no argument 'method': it is a field of the experiment; accepted: run(Experiment(method=...))",
        ),
        (lambda: fedtrip.run(rouns=3), "run has no argument 'rouns': 'rounds' is a field of the experiment"),
        (lambda: fedtrip.run(wrokers=3), "run: argument 'wrokers' is unknown; did you mean 'workers'? accepted: check"),
        (lambda: fedtrip.run(Experiment(), 3), "run: too many positional arguments; accepted: experiment by position"),
        (lambda: fedtrip.run(workers="2"), "workers is '2'; accepted: an integer or None"),
        (lambda: fedtrip.run(workers=True), "workers is True; accepted: an integer or None"),
        (lambda: fedtrip.run(out=3), "out is 3; accepted: a path, a text or None"),
        (lambda: fedtrip.run(model="cnn"), MODEL),
        (lambda: fedtrip.run(data="mnist"), f"data is 'mnist'; {DATA}; a name goes into Experiment(dataset=...)"),
        (lambda: fedtrip.run(data=5), f"data is 5; {DATA}"),
        (lambda: fedtrip.run(engine="flwr"), "engine 'flwr' is unknown; did you mean 'flower-simulation'?"),
        (lambda: fedtrip.run(on_round=3), "on_round is 3; accepted: a function or None"),
        (lambda: fedtrip.run(round_timeout="1"), "round_timeout is '1'; accepted: a number or None"),
        (lambda: fedtrip.run(progress="yes"), "progress is 'yes'; accepted: True or False"),
        (lambda: fedtrip.run(resume=True), "resume is True, but nothing is written; accepted: out=FOLDER too"),
        (lambda: fedtrip.run(overwrite=True), "overwrite is True, but nothing is written"),
        (lambda: fedtrip.run(checkpoint_every=2), "checkpoint_every is 2, but nothing is written"),
        (lambda: fedtrip.compare(methods="fedavg"), "methods is 'fedavg'; accepted: a list of names and Method"),
        (lambda: fedtrip.compare(methods=[]), "methods is empty; accepted: at least one method"),
        (lambda: fedtrip.compare(methods=["fedavgg"]), "method 'fedavgg' is unknown; did you mean 'fedavg'? accepted:"),
        (lambda: fedtrip.compare(methods=[3]), "method is 3; accepted: fedtrip, "),
        (lambda: fedtrip.compare(methods=[FedProx]), "method is the class FedProx; accepted: an object of it, Fed"),
        (lambda: fedtrip.compare(methods=[FedProx(), FedProx()]), "more than once; accepted: each method once"),
        (lambda: fedtrip.compare(methods=[inside_a_function()]), "'Mine' is defined inside a function, where no other"),
        (lambda: fedtrip.compare(trials="3"), "trials is '3'; accepted: an integer"),
        (lambda: fedtrip.tune(budget=9), "tune: missing a required argument: 'out'; accepted: experiment by position"),
        (lambda: fedtrip.tune(out="x", budget="9"), "budget is '9'; accepted: an integer"),
        (lambda: fedtrip.tune(out="x", budget=9, methods="fedavg"), "methods is 'fedavg'; accepted: a list of names"),
        (lambda: fedtrip.tune(out="x", budget=9, rounds=3), "tune has no argument 'rounds': it is a field of the exp"),
        (lambda: fedtrip.compare(trials=2.5), "trials is 2.5; accepted: an integer"),
        (lambda: fedtrip.compare(sweeps=["lr"]), "sweeps is ['lr']; accepted: a dict or None"),
        (lambda: fedtrip.compare(sweeps={"lr": 0.1}), "sweeps: 'lr' is 0.1; accepted: a list of the values to try"),
        (lambda: fedtrip.compare(sweeps={"lr": "0.1"}), "sweeps: 'lr' is '0.1'; accepted: a list of the values to try"),
        (lambda: fedtrip.compare(sweeps={"lr": []}), "sweeps: 'lr' has no values; accepted: at least one"),
        (lambda: fedtrip.compare(engine="rey"), "engine is 'rey'; accepted: local, ray"),
        (lambda: fedtrip.compare(resume=True), "resume needs to know which comparison; accepted: out=FOLDER too"),
        (lambda: fedtrip.compare(overwrite=True), "overwrite needs to know which comparison; accepted: out=FOLDER"),
        (lambda: fedtrip.compare(device=5), "device is 5; accepted: a ClientDevice or None"),
        (lambda: fedtrip.compare(rounds=3), "accepted: compare(Experiment(rounds=...))"),
        (lambda: Experiment("fedavg"), "Experiment was given 'fedavg' without a name; accepted: fields by their names"),
        (lambda: Experiment(rouns=3), "field 'rouns' is unknown; did you mean 'rounds'?"),
        (lambda: Experiment(method=TopLevel), "method is the class TopLevel; accepted: an object of it, TopLevel(...)"),
        (lambda: Experiment(method=inside_a_function()).to_toml() and fedtrip.run(
            Experiment(method=inside_a_function())), "'Mine' is defined inside a function"),
        (lambda: Experiment().but(rouns=2), "field 'rouns' is unknown; did you mean 'rounds'?"),
        (lambda: Experiment.from_toml(3), "path is 3; accepted: a path or a text"),
        (lambda: fedtrip.load(3), "run_folder is 3; accepted: a path or a text"),
        (lambda: fedtrip.load(), "load: missing a required argument: 'run_folder'; accepted: run_folder by position"),
        (lambda: fedtrip.load_result(None), "run_folder is None; accepted: a path or a text"),
        (lambda: fedtrip.evaluate("nowhere", details="yes"), "details is 'yes'; accepted: True or False"),
        (lambda: fedtrip.load_dataset(5), "spec is 5; accepted: a text"),
        (lambda: fedtrip.from_arrays(1, 2), "from_arrays: missing a required argument: 'x_test'; accepted: x_tr"),
        (lambda: fedtrip.from_clients(3, 4), "pairs is 3; accepted: a list"),
        (lambda: ClientDevice("fast", 1, 1), "device macs_per_second is 'fast'; accepted: a finite number above 0"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_told(call, message, here):
    with pytest.raises(UserError) as refused:
        call()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(here.iterdir()), "nothing is written"


def test_a_target_that_is_no_number(blobs):
    result = fedtrip.run(Experiment(rounds=1), data=blobs, workers=1)
    with pytest.raises(UserError, match=r"target is '0\.9'; accepted: a number"):
        result.rounds_to("0.9")


def test_numbers_of_numpy_and_paths_of_both_kinds_are_taken(blobs, tmp_path):
    for number, out in enumerate((tmp_path / "a", str(tmp_path / "b"))):
        result = fedtrip.run(Experiment(rounds=1), data=blobs, workers=np.int64(1), out=out)
        assert len(result.records) == 1
        assert (tmp_path / "ab"[number] / "summary.json").is_file()


@pytest.mark.parametrize(
    ("kind", "good", "bad", "told"),
    [
        (int | None, [1, None, np.int32(2)], [True, 1.0, "1"], "an integer or None"),
        (float, [1, 1.5, np.float32(2)], [False, "1", None], "a number"),
        (Path | str, ["a", Path("a")], [b"a", 1], "a path or a text"),
        (bool, [True], [1, None], "True or False"),
        (list[int], [[1]], [(1,)], "a list"),
        (Experiment, [Experiment()], [{}], "an Experiment"),
    ],
)
def test_what_fits_a_type_and_what_is_said_of_it(kind, good, bad, told):
    assert all(fits(value, kind) for value in good)
    assert not any(fits(value, kind) for value in bad)
    assert in_words(kind) == told


def test_what_the_function_itself_raises_is_not_touched():
    @checked_arguments()
    def broken(x: int) -> None:
        raise TypeError(f"a bug with {x}")

    with pytest.raises(TypeError, match="a bug with 3"):
        broken(3)
