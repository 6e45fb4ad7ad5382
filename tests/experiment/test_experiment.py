"""An experiment: checked once, written as TOML and read again as the same."""

import math
import subprocess
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment, round_list
from fedtrip.experiment.federation import prepare
from fedtrip.families import FAMILIES
from fedtrip.methods.fedtrip import FedTrip

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.sampled_from([0, 1, -1, 2**63, 2**63 - 1, math.nan, math.inf, -math.inf])
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def written(experiment, folder):
    path = Path(folder) / "experiment.toml"
    path.write_text(experiment.to_toml(), encoding="utf-8")
    return Experiment.from_toml(path)


def test_the_defaults_of_the_issue():
    experiment = Experiment()
    assert (experiment.method.name, experiment.dataset, experiment.model) == ("fedtrip", "digits", "mlp")
    assert (experiment.rounds, experiment.batch_size, experiment.local_epochs, experiment.lr) == (100, 50, 1, 0.01)
    assert (experiment.draw, experiment.weight_decay, experiment.keep_optimizer_state) == ("overlap", 0.0, False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rounds": 0}, "rounds is 0; accepted: greater than or equal to 1"),
        ({"rounds": 2.5}, "rounds is 2.5; accepted: a valid integer"),
        ({"lr": -0.1}, "lr is -0.1; accepted: greater than 0"),
        ({"lr": math.nan}, "lr is nan; accepted: a finite number"),
        ({"lr": math.inf}, "lr is inf; accepted: a finite number"),
        ({"momentum": 1.0}, "momentum is 1.0; accepted: less than 1"),
        ({"momentum": math.nan}, "momentum is nan; accepted:"),
        ({"weight_decay": -1}, "weight_decay is -1; accepted: greater than or equal to 0"),
        ({"target": 90}, "target is 90.0; accepted: less than or equal to 1"),
        ({"target": 0}, "target is 0.0; accepted: greater than 0"),
        ({"seed": -1}, "seed is -1; accepted: greater than or equal to 0"),
        ({"clients": 3, "per_round": 4}, "per_round is 4; accepted: at most the number of clients, 3"),
        ({"mean": 0.5}, "mean and std go together; accepted: both, or neither"),
        ({"mean": math.nan, "std": 1.0}, "mean.0 is nan; accepted: a finite number"),
        ({"mean": 0.5, "std": 0.0}, "std.0 is 0.0; accepted: greater than 0"),
        ({"snapshot": "3,200"}, "snapshot is 200; accepted: rounds from 1 to 100"),
        ({"snapshot": "9-5"}, "rounds '9-5' cannot be read; accepted: numbers and ranges like 10,20-30"),
        ({"snapshot": "5-"}, "cannot be read"),
        ({"snapshot": "two"}, "cannot be read"),
        ({"snapshot": "1-9999999999999"}, "are too many"),
        ({"snapshot": 0}, "snapshot.0 is 0; accepted: greater than or equal to 1"),
        ({"draw": "both"}, "draw is 'both'; accepted: 'overlap', 'nested' or 'disjoint'"),
        ({"partition": "dirichle:1"}, "partition 'dirichle' is unknown; did you mean 'dirichlet"),
        ({"partition": "dirichlet:0"}, "partition 'dirichlet:0': option 'alpha' is 0; accepted: greater than 0"),
        ({"runds": 3}, "field 'runds' is unknown; did you mean 'rounds'?"),
        ({"self": 3}, "field 'self' is unknown"),
        ({"schema_version": 3}, "schema_version is 3; accepted: "),
        ({"method": 3}, "method is 3; accepted: fedtrip, "),
        (
            {"method": "fedtripp"},
            "method 'fedtripp' is unknown; did you mean 'fedtrip'? accepted: apfl, ditto, fedacg, ",
        ),
        ({"method": {"name": "fedtripp", "mu": 1}}, "method 'fedtripp' is unknown; did you mean 'fedtrip'?"),
        ({"method": {"name": 3}}, "method is 3; accepted: fedtrip, "),
        (
            {"upload_codec": {"name": "topk:0.1", "feedbak": True}},
            "upload_codec 'topk:0.1': option 'feedbak' is unknown",
        ),
        ({"attack": "dropout:1.5"}, "attack 'dropout:1.5': option 'p' is 1.5; accepted: less than or equal to 1"),
        ({"dropout": 0.5}, "field 'dropout' is unknown"),
        ({"lr": "x" * 1000}, "..."),
        (
            {"seed": 10**5000},
            "seed is a int too large to be shown; accepted: less than or equal to 9223372036854775807",
        ),
    ],
)
def test_what_is_refused_and_how_it_is_told(fields, message):
    with pytest.raises(UserError) as refused:
        Experiment(**fields)
    told = str(refused.value)
    assert message in told
    assert "\n" not in told
    assert len(told) < 700


def test_several_mistakes_are_all_told():
    with pytest.raises(UserError, match=r"rounds is 0.*lr is -1"):
        Experiment(rounds=0, lr=-1)


@pytest.mark.parametrize(
    ("text", "rounds"),
    [("3", (3,)), ("10,20-22", (10, 20, 21, 22)), (" 5 , 1-2,2 ", (1, 2, 5)), ("", ()), ("4-4", (4,))],
)
def test_lists_of_rounds(text, rounds):
    assert round_list(text) == rounds
    assert Experiment(snapshot=text).snapshot == rounds


def test_short_forms():
    assert Experiment(snapshot=3).snapshot == (3,)
    assert (Experiment(mean=0.5, std=2).mean, Experiment(mean=[0.5], std=[2]).std) == ((0.5,), (2.0,))
    assert Experiment(method="fedavg").method == Experiment(method={"name": "fedavg"}).method
    assert Experiment(method=FedTrip(mu=0.7)).method.options["mu"] == 0.7
    assert Experiment(method={"name": "fedtrip", "mu": 0.7}).method.options == {"mu": 0.7}


def test_it_is_frozen_and_changed_by_but():
    experiment = Experiment(rounds=5, clients=8)
    with pytest.raises(ValueError, match="frozen"):
        experiment.rounds = 6
    assert experiment.but(rounds=7).clients == 8
    with pytest.raises(UserError, match="per_round is 9"):
        experiment.but(per_round=9)


def test_toml_and_back(tmp_path):
    experiment = Experiment(
        dataset="npz:a \"file\".npz", mean=(0.1, 1 / 3), std=(1.0, 2e-5), partition="orthogonal:3", draw="nested",
        clients=7, per_round=2, samples_per_client=11, model="my.own:Net", representation="layer.1",
        method={"name": "fedtrip-auto", "push": 0.1, "tau": 2.5}, rounds=12, local_epochs=2, batch_size=3, lr=0.1 + 0.2,
        momentum=0.0, weight_decay=1e-4, keep_optimizer_state=True, task="regression", augment="noise:0.5",
        optimizer={"name": "adam", "beta1": 0.5}, lr_schedule={"name": "step:5", "gamma": 0.3}, clip="gradient:10",
        select="available:0.5",
        upload_codec={"name": "topk:0.1", "feedback": False}, combine="trimmed:0.2",
        server_optimizer={"name": "yogi", "lr": 0.1}, attack={"name": "corrupt:1.0", "dropout": 0.1}, eval_every=4,
        target=0.6, stop_at_target=True, snapshot=(1, 12), seed=2**63 - 1, compute="native-evaluation", device="cuda:1",
        validation=0.1, validation_at="clients", client_test=0.25, eval_clients=3, unseen_clients=1, patience=5,
        keep_best=True,
    )  # fmt: skip
    again = written(experiment, tmp_path)
    assert again == experiment
    assert again.to_toml() == experiment.to_toml()
    assert set(experiment.model_fields_set) == set(Experiment.model_fields) - {"schema_version"}  # all were tried
    assert Experiment.from_toml(str(tmp_path / "experiment.toml")) == experiment


class Colour(Enum):
    RED = "red"


def test_options_that_toml_does_not_know(tmp_path):
    options = {"none": None, "pair": (1, 2), "path": Path("a/b"), "colour": Colour.RED, "deep": {"x": None, "y": 1}}
    again = written(Experiment(method={"name": "own:Method", **options}), tmp_path)
    assert again.method.options == {"pair": [1, 2], "path": "a/b", "colour": "red", "deep": {"y": 1}}


@given(st.dictionaries(st.sampled_from([*Experiment.model_fields, "self", "cls", "fields"]), ANYTHING, max_size=4))
@settings(max_examples=300)
def test_any_fields_are_accepted_or_refused(fields):
    with suppress(UserError):
        assert isinstance(Experiment(**fields).to_toml(), str)


@given(
    st.one_of(
        st.text(),
        st.binary(),
        st.lists(
            st.tuples(
                st.sampled_from([*Experiment.model_fields, "method.mu", "[method]", "self"]), st.text(max_size=9)
            ),
            max_size=4,
        ).map(lambda lines: "\n".join(f"{name} = {value}" for name, value in lines)),
    )
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_an_experiment_or_refused(tmp_path, content):
    path = tmp_path / "any.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with suppress(UserError):
        assert isinstance(Experiment.from_toml(path), Experiment)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"seed = " + b"9" * 5000, "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"rounds = [", "is not valid TOML"),
        (b"self = 1", "field 'self' is unknown"),
        (b"rounds = 1979-05-27", "rounds is"),
        (b"[rounds]\nx = 1", "rounds is {'x': 1}; accepted: a valid integer"),
        (b"schema_version = 3", "schema_version is 3; accepted: "),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "any.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"any\.toml") as refused:
        Experiment.from_toml(path)
    assert message in str(refused.value)


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    for path, reason in ((tmp_path / "absent.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(UserError, match=reason):
            Experiment.from_toml(path)


def test_an_experiment_knows_the_methods_without_pytorch():
    program = """
import sys
from fedtrip.experiment.description import Experiment
assert Experiment(method="fedavg").method.name == "fedavg"
assert Experiment(method={"name": "fedprox", "mu": 1.0}).method.options == {"mu": 1.0}
assert Experiment(method="no_such_module:Method").method.name == "no_such_module:Method"  # the user's: not imported
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("field", FAMILIES)
def test_the_rules_an_experiment_knows_are_all_there_are(field):
    family = FAMILIES[field]
    package = Path(__file__).parents[2] / "src" / Path(*family.package.split("."))
    defined = {
        path.stem.replace("_", "-")
        for path in package.glob("*.py")
        if "title = " in path.read_text(encoding="utf-8") and path.stem != "interface"
    }
    assert defined == set(family.names())
    assert all(family.name_of(family.find(name)) == name for name in defined)


def test_an_option_that_a_method_does_not_have_is_refused():
    for method in ({"name": "fedavg", "opt": 1}, {"name": "fedavg", "options": {"mu": 1.0}}):
        with pytest.raises(UserError, match="method 'fedavg' has no options"):
            prepare(Experiment(method=method))
