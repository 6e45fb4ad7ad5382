"""A comparison: the same seeds for every variant, and a table that drops no run."""

import csv
import json
import math

import pytest
from scipy import stats

import fedtrip
from fedtrip import Experiment, UserError, compare
from fedtrip.comparison.variants import make_variants, summarise
from fedtrip.experiment.federation import prepare
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import read_summary
from fedtrip.runs.result import Result
from fedtrip.tasks.interface import ACCURACY
from fedtrip.vectors import state_sha256

SMALL = {"rounds": 4, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "target": 0.5}


def labels(methods, sweeps, base=None):
    return [variant.label for variant in make_variants(base or Experiment(), methods, sweeps)]


# ---- variants


def test_sweeps_of_one_method_of_every_method_and_of_a_field():
    assert labels(["fedtrip", "fedavg"], {"fedtrip.mu": [0.1, 0.4]}) == ["fedtrip mu=0.1", "fedtrip mu=0.4", "fedavg"]
    assert labels(["fedprox", "moon"], {"method.mu": [1, 2]}) == [
        "fedprox mu=1",
        "fedprox mu=2",
        "moon mu=1",
        "moon mu=2",
    ]
    assert labels(["fedavg"], {"lr": [0.1], "batch_size": [5, 10]}) == ["fedavg batch_size=5", "fedavg batch_size=10"]
    assert len(labels(["fedtrip"], {"fedtrip.mu": [1, 2, 3], "lr": [0.1, 0.2]})) == 6


def test_one_value_is_a_setting_and_in_the_label_only_if_the_method_differs_by_it():
    (variant,) = make_variants(Experiment(), ["fedtrip"], {"fedtrip.mu": [0.3], "lr": [0.5]})
    assert (variant.label, variant.experiment.lr) == ("fedtrip mu=0.3", 0.5)
    assert (variant.name, variant.folder) == ("fedtrip", "fedtrip")
    assert variant.experiment.method.options == {"mu": 0.3}
    assert labels(["fedtrip"], {"fedtrip.mu": [1.0]}) == ["fedtrip"]  # the paper's for the MLP: its default


def test_options_of_the_experiment_file_stay_with_their_method():
    base = Experiment(method={"name": "fedtrip-auto", "tau": 3.0})
    trip, prox = make_variants(base, ["fedtrip-auto", "fedprox"], {"fedtrip-auto.push": [0.2]})
    assert trip.experiment.method.options == {"tau": 3.0, "push": 0.2}
    assert prox.experiment.method.options == {}


def test_folders_are_names_that_a_file_system_takes():
    variants = make_variants(Experiment(), ["fedavg"], {"partition": ["dirichlet:0.1", "iid"]})
    assert [variant.folder for variant in variants] == ["fedavg_partition=dirichlet_0.1", "fedavg_partition=iid"]


@pytest.mark.parametrize(
    ("methods", "sweeps", "message"),
    [
        (["fedavg", "fedavg"], {}, "methods names 'fedavg' more than once"),
        (["fedavg"], {"fedtrip.mu": [1]}, "method 'fedtrip' is not compared; accepted: fedavg, or method"),
        (["fedavg"], {"lrr": [1]}, "--set 'lrr' is unknown; did you mean 'lr'?"),
        (["fedavg"], {"method": ["fedprox"]}, "--set 'method' is unknown"),
        (["fedavg"], {"seed": [1, 2]}, "--set 'seed' is unknown"),
        (["fedavg"], {"lr": [0.1, 0.1]}, "--set makes two variants 'fedavg lr=0.1'; accepted: each value once"),
        (["fedavg"], {"lr": [0.1, -1]}, "lr is -1; accepted: greater than 0"),
    ],
)
def test_sweeps_that_are_refused(methods, sweeps, message):
    with pytest.raises(UserError) as refused:
        make_variants(Experiment(), methods, sweeps)
    assert message in str(refused.value)


# ---- the table's numbers


def result(method, seed, accuracies, target=0.5, rounds=None, ended=None, gflops=0.5):
    records = tuple(
        RoundRecord(number, {"accuracy": accuracy, "loss": 1.0}, (0,), 1_000_000, 2_000_000, 10**9, 0.1)
        for number, accuracy in enumerate(accuracies, 1)
    )
    experiment = Experiment(method=method, seed=seed, rounds=rounds or len(accuracies), target=target)
    return Result(experiment=experiment, goal=ACCURACY, records=records, state={}, ended=ended, gflops_per_round=gflops,
                  acceleration=(), kernels=None, build=lambda: None)  # fmt: skip


def test_rounds_to_target_speed_up_and_costs_by_hand():
    variants = make_variants(Experiment(target=0.5), ["fedtrip", "fedavg"], {})
    runs = {
        "fedtrip": [result("fedtrip", 0, [0.1, 0.5, 0.6, 0.7]), result("fedtrip", 1, [0.6, 0.4, 0.3, 0.2])],
        "fedavg": [result("fedavg", 0, [0.1, 0.2, 0.5, 0.5]), result("fedavg", 1, [0.1, 0.5, 0.4, 0.9])],
    }
    trip, avg = summarise(variants, runs)
    assert trip.rounds.values == (2.0, 1.0)
    assert avg.rounds.values == (3.0, 2.0)
    assert (trip.censored, avg.censored, avg.speedup) == (0, 0, None)
    logs = [math.log(3 / 2), math.log(2 / 1)]
    low, high = stats.t.interval(0.95, 1, loc=sum(logs) / 2, scale=stats.sem(logs))
    assert trip.speedup.mean == pytest.approx(math.sqrt(3))
    assert (trip.speedup.low, trip.speedup.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert trip.final_score.values == pytest.approx((0.475, 0.375))
    assert trip.gflops.values == (1.0, 0.5)
    assert trip.megabytes.values == (6.0, 3.0)
    assert trip.gmacs.values == (2.0, 1.0)


def test_a_run_that_never_got_there_counts_as_its_last_planned_round():
    variants = make_variants(Experiment(target=0.5), ["fedtrip", "fedavg"], {})
    runs = {
        "fedtrip": [
            result("fedtrip", 0, [0.1, 0.5, 0.6, 0.7], rounds=9),
            result("fedtrip", 1, [0.1, 0.2, 0.1], rounds=9, ended="round 4: diverged"),
        ],
        "fedavg": [result("fedavg", 0, [0.1, 0.5]), result("fedavg", 1, [0.1, 0.5])],
    }
    trip, avg = summarise(variants, runs)
    assert trip.rounds.values == (2.0, 9.0)
    assert (trip.censored, trip.trials) == (1, 2)
    assert trip.speedup.bound == "<"
    assert trip.megabytes.values == (6.0, 9.0)  # of the diverged run what it did cost
    assert avg.rounds.values == (2.0, 2.0)


def test_without_fedavg_there_is_no_speed_up_and_settings_are_compared_with_their_own():
    (alone,) = make_variants(Experiment(), ["fedtrip"], {})
    assert summarise([alone], {"fedtrip": [result("fedtrip", 0, [0.5])]})[0].speedup is None
    variants = make_variants(Experiment(target=0.5), ["fedprox", "fedavg"], {"lr": [0.1, 0.2]})
    runs = {
        "fedprox lr=0.1": [result("fedprox", 0, [0.1, 0.5, 0.1, 0.1])],
        "fedprox lr=0.2": [result("fedprox", 0, [0.5, 0.1, 0.1, 0.1])],
        "fedavg lr=0.1": [result("fedavg", 0, [0.1, 0.1, 0.1, 0.5])],
        "fedavg lr=0.2": [result("fedavg", 0, [0.1, 0.1, 0.5, 0.1])],
    }
    rows = {row.variant: row for row in summarise(variants, runs)}
    assert rows["fedprox lr=0.1"].speedup.mean == pytest.approx(4 / 2)
    assert rows["fedprox lr=0.2"].speedup.mean == pytest.approx(3 / 1)
    assert rows["fedprox lr=0.1"].speedup.low is None
    assert rows["fedavg lr=0.2"].speedup is None


def test_flops_that_a_method_does_not_declare_are_not_invented():
    (variant,) = make_variants(Experiment(), ["fedtrip"], {})
    assert summarise([variant], {"fedtrip": [result("fedtrip", 0, [0.5], gflops=None)]})[0].gflops is None


# ---- whole comparisons


@pytest.fixture
def compared(blobs, tmp_path):
    return compare(
        Experiment(**SMALL),
        methods=["fedtrip", "fedavg", "moon"],
        sweeps={"fedtrip.mu": [0.1, 50.0]},
        trials=2,
        data=blobs,
        out=tmp_path / "out",
        workers=1,
    )


def test_all_variants_have_the_same_clients_partition_and_initial_model(blobs, compared):
    assert list(compared.results) == ["fedtrip mu=0.1", "fedtrip mu=50.0", "fedavg", "moon"]
    for trial in range(2):
        runs = [results[trial] for results in compared.results.values()]
        assert {run.experiment.seed for run in runs} == {trial}
        assert len({tuple(record.clients for record in run.records) for run in runs}) == 1
        data = fedtrip.from_arrays(**blobs)
        federations = [prepare(run.experiment, data=data) for run in runs]
        initial = [state_sha256(federation.module.state_dict()) for federation in federations]
        assert len(set(initial)) == 1
        shares = [[federation.partition.share(client).tolist() for client in range(5)] for federation in federations]
        assert all(share == shares[0] for share in shares)
    assert len({record.clients for results in compared.results.values() for record in results[0].records}) > 1


def test_the_files_agree(compared):
    out = compared.out
    assert {path.name for path in out.iterdir()} == {
        "comparison.json", "runs", "table.md", "table.csv", "table.json", "table.tex", "convergence.png",
        "convergence.pdf", "convergence.svg", "report.html",
    }  # fmt: skip
    assert {path.relative_to(out / "runs").as_posix() for path in out.glob("runs/*/*")} == {
        f"{variant}/{seed}" for variant in ("fedtrip_mu=0.1", "fedtrip_mu=50.0", "fedavg", "moon") for seed in (0, 1)
    }
    rows = json.loads((out / "table.json").read_text())
    assert [row["variant"] for row in rows] == list(compared.results)
    for row, results in zip(rows, compared.results.values(), strict=True):
        summaries = [read_summary(out / "runs" / row["variant"].replace(" ", "_") / str(seed)) for seed in (0, 1)]
        assert [summary["model_sha256"] for summary in summaries] == [run.model_sha256 for run in results]
        assert row["rounds"]["values"] == [float(summary["rounds_to_target"] or 4) for summary in summaries]
        assert row["final_accuracy"]["values"] == [summary["final_accuracy"] for summary in summaries]
        assert row["censored"] == sum(summary["rounds_to_target"] is None for summary in summaries)
    with (out / "table.csv").open() as file:
        read = list(csv.DictReader(file))
    assert [float(line["rounds_mean"]) for line in read] == [row["rounds"]["mean"] for row in rows]
    assert all(row["variant"] in (out / "table.md").read_text() for row in rows)


def test_the_plot_is_an_image(compared):
    from matplotlib.image import imread

    assert (compared.out / "convergence.png").read_bytes().startswith(b"\x89PNG")
    pixels = imread(compared.out / "convergence.png")
    assert pixels.shape[0] > 300
    assert pixels.std() > 0.01


def test_the_runs_are_those_of_single_experiments(blobs, compared):
    single = fedtrip.run(Experiment(**SMALL, method="fedavg", seed=1), data=blobs, workers=1)
    assert compared.results["fedavg"][1].model_sha256 == single.model_sha256


def test_two_workers_give_the_same_table(blobs, compared, tmp_path):
    again = compare(
        Experiment(**SMALL), methods=["fedtrip", "fedavg", "moon"], sweeps={"fedtrip.mu": [0.1, 50.0]}, trials=2,
        data=blobs, out=tmp_path / "again", workers=2,
    )  # fmt: skip
    for name in ("table.md", "table.csv", "table.json", "comparison.json"):
        assert (again.out / name).read_bytes() == (compared.out / name).read_bytes()
    for label, results in again.results.items():
        assert [r.model_sha256 for r in results] == [r.model_sha256 for r in compared.results[label]]


def test_overwriting_replaces_the_comparison_and_leaves_foreign_files(blobs, compared):
    out = compared.out
    foreign = [out / "mine.txt", out / "runs/mine.txt", out / "runs/moon/0/mine.txt", out / "runs/own/thing.txt"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    options = {"methods": ["fedavg"], "trials": 1, "data": blobs, "out": out, "workers": 1}
    with pytest.raises(UserError, match="holds a comparison already"):
        compare(Experiment(**SMALL), **options)
    compare(Experiment(**SMALL), **options, overwrite=True)
    assert all(path.read_text() == "mine" for path in foreign)
    assert [path.parent.name for path in out.rglob("summary.json")] == ["0"]
    assert len(json.loads((out / "table.json").read_text())) == 1


def test_a_diverged_run_is_counted_and_told(blobs, tmp_path):
    comparison = compare(
        Experiment(**{**SMALL, "rounds": 30, "local_epochs": 5, "target": 1.0}),
        methods=["fedtrip"],
        sweeps={"fedtrip.mu": [600.0]},
        trials=1,
        data=blobs,
        out=tmp_path / "out",
        workers=1,
    )
    (row,) = comparison.rows
    assert comparison.results["fedtrip mu=600.0"][0].ended is not None
    assert (row.censored, row.rounds.values) == (1, (30.0,))
    assert "| >30.0 | 0/1 |" in (tmp_path / "out/table.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials is 0; accepted: at least 1"),
        ({"workers": 0}, "workers is 0; accepted: at least 1"),
        ({"workers": -2}, "workers is -2; accepted: at least 1"),
        ({"methods": ["fedavg", "fedporx"]}, "method 'fedporx' is unknown; did you mean 'fedprox'?"),
        ({"sweeps": {"fedtrip.nu": [1, 2]}}, "option 'nu' is unknown; did you mean 'mu'?"),
        ({"sweeps": {"samples_per_client": [10, 5000]}}, "samples_per_client 5000 is more than the training set holds"),
    ],
)
def test_what_is_refused_before_anything_is_written(blobs, tmp_path, options, message):
    with pytest.raises(UserError) as refused:
        compare(Experiment(**SMALL), **{"data": blobs, "out": tmp_path / "out", **options})
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()
