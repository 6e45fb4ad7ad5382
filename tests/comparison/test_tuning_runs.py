"""Whole tunings of small federations: equal budgets, validation data alone, fresh seeds, one result however run."""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

import fedtrip
from fedtrip import Choices, Experiment, Range, UserError, tune
from fedtrip.comparison import tuning_run
from fedtrip.comparison.tuning_judge import standing
from fedtrip.comparison.variants import Variant, summarise
from fedtrip.methods.fedavg import FedAvg
from fedtrip.runs.folder import read_experiment, read_records, read_summary

SMALL = {"rounds": 9, "clients": 4, "per_round": 2, "samples_per_client": 12, "batch_size": 4, "target": 0.8}
METHODS = ["fedavg", "scaffold"]
BUDGET = 76
"""2·(8·3 + 2·6) = 72 of it: 8 configurations until round 3, 2 until round 9, on two seeds; 9 would take 90."""
COUNT = 8


def tuned(blobs, out, **options):
    given = {"methods": METHODS, "budget": BUDGET, "trials": 2, "workers": 1, "data": blobs, "out": out, **options}
    return tune(Experiment(**SMALL), **given)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """One tuning that several tests look at."""
    random = np.random.default_rng(0)
    centres, labels = random.normal(size=(3, 6)) * 2, np.arange(120) % 3
    inputs = (centres[labels] + 2 * random.normal(size=(120, 6))).astype(np.float32)
    data = {"x_train": inputs[:90], "y_train": labels[:90], "x_test": inputs[90:], "y_test": labels[90:]}
    return tuned(data, tmp_path_factory.mktemp("tuned") / "out"), data


def rounds_on_disk(out, method):
    """The rounds that all trials of a method really ran while it was tuned."""
    return sum(len(read_records(path.parent)) for path in (out / "tuning" / method).glob("*/*/metrics.jsonl"))


# ---- fairness


def test_every_method_spends_the_same_rounds_and_the_records_say_so(once):
    tuning, _ = once
    assert tuning.plan.halving.configurations == (COUNT, 2)
    assert {one.spent for one in tuning.methods.values()} == {tuning.plan.halving.cost} == {72}
    for method, one in tuning.methods.items():
        assert rounds_on_disk(tuning.out, method) == one.run
        # none diverged here; a diverged one may lack its rung at most
        assert one.spent - one.run <= sum(each.standings[-1].diverged for each in one.tried) * 9
        assert [len(each.standings) for each in one.tried].count(2) == 2


def test_all_configurations_and_methods_share_their_seeds(once):
    """The same clients are chosen, and they hold the same samples: the draws are paired."""
    tuning, _ = once
    for seed in tuning.plan.seeds:
        runs = [path.parent for path in tuning.out.glob(f"tuning/*/*/{seed}/metrics.jsonl")]
        assert len(runs) == 2 * COUNT
        clients = [[record.clients for record in read_records(run, at_most=3)] for run in runs]
        assert all(one == clients[0] for one in clients)
    assert {int(path.name) for path in tuning.out.glob("tuning/*/*/*")} == set(tuning.plan.seeds) == {0, 1}


def test_the_defaults_are_always_among_and_are_the_experiment_itself(once):
    tuning, data = once
    for method in METHODS:
        stored = read_experiment(tuning.out / f"tuning/{method}/0/1")
        wanted = fedtrip.run(
            Experiment(**SMALL, method=method, seed=1, validation=0.2).but(rounds=3), data=data, workers=1
        )
        assert stored.but(rounds=3) == wanted.experiment
        assert tuning.methods[method].defaults["lr"] == 0.01
    assert tuning.methods["scaffold"].defaults == {"lr": 0.01, "scaffold.eta_g": 1.0}


def test_a_configuration_at_a_higher_rung_is_a_run_of_all_rounds(once):
    """What went on from its checkpoint has the bits of a run that was never left."""
    tuning, data = once
    chosen = tuning.methods["scaffold"].chosen
    method = {"name": "scaffold", "eta_g": chosen.values["scaffold.eta_g"]}
    experiment = Experiment(**SMALL, method=method, validation=0.2, seed=1).but(lr=chosen.values["lr"])
    whole = fedtrip.run(experiment, data=data, workers=1)
    stored = tuning.out / f"tuning/scaffold/{chosen.number}/1"
    assert read_summary(stored)["model_sha256"] == whole.model_sha256
    again = standing([whole.records], 9, 0.8, tuning.plan.goal)
    assert chosen.standings[-1].scores[1] == again.scores[0]
    assert chosen.standings[-1].reached[1] == again.reached[0]


def test_what_did_not_go_on_keeps_its_records_and_no_checkpoint(once):
    tuning, _ = once
    for one in tuning.methods.values():
        for each in one.tried:
            run = tuning.out / f"tuning/{one.method}/{each.number}/0"
            finished = len(each.standings) == 2
            names = {"experiment.toml", "metrics.jsonl", *(["model.safetensors", "summary.json"] if finished else [])}
            assert {path.name for path in run.iterdir()} == names


# ---- validation data alone


def choices(tuning):
    return {method: one.chosen.number for method, one in tuning.methods.items()}


def standings(tuning):
    return {method: [each.standings for each in one.tried] for method, one in tuning.methods.items()}


def lying(data):
    """The same data with a test set that says the opposite of the training set."""
    return {**data, "y_test": (data["y_test"] + 1) % 3}


def test_another_test_set_changes_no_choice(once, tmp_path):
    tuning, data = once
    other = tuned(lying(data), tmp_path / "out")
    assert standings(other) == standings(tuning)
    assert choices(other) == choices(tuning)
    assert other.verdict.rows != tuning.verdict.rows


def test_a_judge_that_looks_at_test_scores_would_be_found_out(once, tmp_path, monkeypatch):
    tuning, data = once

    def leaking(trials, until, target, goal):
        shown = [[replace(one, validation=one.scores) for one in trial] for trial in trials]
        return standing(shown, until, target, goal)

    monkeypatch.setattr(tuning_run, "standing", leaking)
    other = tuned(lying(data), tmp_path / "out")
    assert standings(other) != standings(tuning)
    assert choices(other) != choices(tuning)


def test_what_ends_a_run_by_its_test_score_is_off_while_configurations_are_judged(once, tmp_path):
    tuning, data = once
    other = tune(
        Experiment(**SMALL, stop_at_target=True, snapshot=(2,)),
        methods=METHODS, budget=BUDGET, trials=1, workers=1, data=data, out=tmp_path / "out",
    )  # fmt: skip
    assert standings(other) == standings(tuning)
    assert not list(tmp_path.glob("out/tuning/*/*/*/snapshots"))
    (run,) = (path for path in tmp_path.glob("out/verdict/runs/fedavg_tuned/*") if path.is_dir())
    assert read_experiment(run).stop_at_target


def test_the_validation_set_is_the_experiments_own_if_it_has_one(blobs, tmp_path):
    tuning = tune(
        Experiment(**SMALL, validation=0.4, patience=2, keep_best=True),
        methods=["fedavg"], budget=BUDGET, trials=1, workers=1, data=blobs, out=tmp_path / "out",
    )  # fmt: skip
    assert tuning.plan.validation == 0.4
    judged = read_experiment(tmp_path / "out/tuning/fedavg/0/0")
    assert (judged.validation, judged.patience, judged.keep_best) == (0.4, None, False)
    verdict = tuning.verdict.results["fedavg"][0].experiment
    assert (verdict.validation, verdict.patience, verdict.keep_best) == (0.4, 2, True)


# ---- the verdict


def test_the_verdict_is_on_fresh_seeds_with_all_training_samples(once):
    tuning, data = once
    used = {read_experiment(path.parent).seed for path in tuning.out.glob("tuning/*/*/*/experiment.toml")}
    for runs in tuning.verdict.results.values():
        seeds = {run.experiment.seed for run in runs}
        assert seeds == set(tuning.plan.fresh_seeds) == {2, 3}
        assert not seeds & used
        assert {run.experiment.validation for run in runs} == {0.0}
    plain = fedtrip.run(Experiment(**SMALL, method="scaffold", seed=3), data=data, workers=1)
    assert tuning.verdict.results["scaffold"][1].model_sha256 == plain.model_sha256


def by_hand(before, after):
    """The geometric mean of the ratios of rounds to target, without the seeds on which neither got there."""
    reached = [(one.rounds_to(0.8), other.rounds_to(0.8)) for one, other in zip(before, after, strict=True)]
    logs = [np.log((one or 9) / (other or 9)) for one, other in reached if one or other]
    return pytest.approx(np.exp(np.mean(logs))) if logs else None


def test_tuned_is_compared_with_tuned_and_defaults_with_defaults(once):
    tuning, _ = once
    results = tuning.verdict.results
    rows = {row.variant: row for row in tuning.verdict.rows}
    assert list(rows) == [*METHODS, *(f"{method} tuned" for method in METHODS)]
    for end in ("", " tuned"):
        speedup = rows[f"scaffold{end}"].speedup
        assert (speedup and speedup.mean) == by_hand(results[f"fedavg{end}"], results[f"scaffold{end}"])
        assert rows[f"fedavg{end}"].speedup is None
    assert rows["scaffold tuned"].speedup is not None
    chosen = tuning.methods["scaffold"].values
    after = results["scaffold tuned"][0].experiment
    assert (after.lr, after.method.options["eta_g"]) == (chosen["lr"], chosen["scaffold.eta_g"])
    for method, gain in tuning.gains.items():
        assert gain.mean == by_hand(results[method], results[f"{method} tuned"])


def test_without_the_mark_of_tuning_other_learning_rates_are_not_compared(once):
    """The rule that settings must agree is as strict as before for everybody else."""
    tuning, _ = once
    results = tuning.verdict.results

    def speedup(**marks):
        variants = [
            Variant(name, results[name][0].experiment.but(lr=lr), **marks)
            for name, lr in (("fedavg tuned", 0.1), ("scaffold tuned", 0.2))
        ]
        return summarise(variants, results)[1].speedup

    assert speedup() is None
    assert speedup(tuned=frozenset({"momentum"})) is None
    assert speedup(tuned=frozenset({"lr"})) == next(
        row.speedup for row in tuning.verdict.rows if row.variant == "scaffold tuned"
    )


def test_if_the_defaults_are_best_their_runs_are_not_run_twice(blobs, tmp_path):
    best = {"lr": Choices(1e-7, 2e-7, 3e-7, 4e-7, 5e-7, 6e-7, 7e-7, 8e-7)}
    watcher = Stopping(0)
    tuning = tune(
        Experiment(**{**SMALL, "lr": 0.2}), methods=["fedavg"], ranges=best, budget=BUDGET, trials=2, workers=1,
        data=blobs, out=tmp_path / "out", watcher=watcher,
    )  # fmt: skip
    assert watcher.rounds.total() == 72 + 2 * 9
    assert {name for name in watcher.ended if "seed 2" in name} == {"fedavg, seed 2", "fedavg tuned, seed 2"}
    assert tuning.methods["fedavg"].chosen.number == 0
    assert tuning.chosen == {"fedavg": {"lr": 0.2}}
    assert [path.name for path in (tmp_path / "out/verdict/runs").iterdir()] == ["fedavg"]
    assert len(tuning.verdict.plot().axes[0].get_legend().get_texts()) == 1, "one line for both"
    one, other = tuning.verdict.results.values()
    assert [run.model_sha256 for run in one] == [run.model_sha256 for run in other]
    assert (tuning.gains["fedavg"].mean, tuning.gains["fedavg"].low) == (1.0, 1.0)
    assert "| fedavg | 0, its defaults | lr |" in (tmp_path / "out/tuning.md").read_text()


def test_without_a_target_the_score_is_what_counts(blobs, tmp_path):
    experiment = Experiment(**{name: value for name, value in SMALL.items() if name != "target"})
    tuning = tune(experiment, methods=["fedavg"], budget=BUDGET, trials=1, workers=1, data=blobs, out=tmp_path / "out")
    assert tuning.gains == {"fedavg": None}
    assert "Judged by: validation accuracy, mean of the last 10" in (tmp_path / "out/tuning.md").read_text()
    scores = {
        each.number: each.standings[-1].score for each in tuning.methods["fedavg"].tried if len(each.standings) > 1
    }
    assert tuning.methods["fedavg"].chosen.number == max(scores, key=scores.get)


# ---- configurations that diverge


def test_a_configuration_that_diverges_is_the_last_and_no_error(blobs, tmp_path):
    tuning = tuned(blobs, tmp_path / "out", methods=["fedavg"], ranges={"lr": "0.01..1e20:log"})
    one = tuning.methods["fedavg"]
    worst = [each for each in one.tried if each.standings[-1].diverged]
    assert worst
    assert one.chosen.standings[-1].diverged == 0
    assert one.run < one.spent == 72
    assert rounds_on_disk(tuning.out, "fedavg") == one.run
    assert any("diverged: " in remark for remark in one.remarks)
    page = (tmp_path / "out/tuning.md").read_text()
    assert re.search(r"\| diverged \([12]\) \|", page)
    assert f"{one.spent - one.run} of its rounds were not run, and count as spent" in page


# ---- the same result however it is run


def stored(out):
    return {name: (out / name).read_bytes() for name in ("tuning.json", "tuning.md")} | {
        name: (out / "verdict" / name).read_bytes() for name in ("table.md", "table.json", "comparison.json")
    }


def test_the_same_command_gives_the_same_bytes_on_two_workers(once, tmp_path):
    tuning, data = once
    again = tuned(data, tmp_path / "out", workers=2)
    assert stored(again.out) == stored(tuning.out)
    assert tuned(data, tmp_path / "seed", budget=BUDGET).chosen == tuning.chosen


def test_another_seed_draws_other_configurations(once, tmp_path):
    tuning, data = once
    other = tune(
        Experiment(**SMALL, seed=7), methods=["fedavg"], budget=BUDGET, trials=1, workers=1, data=data,
        out=tmp_path / "out",
    )  # fmt: skip
    assert other.plan.seeds == (7, 8)
    assert other.plan.fresh_seeds == (9,)
    assert other.plan.methods[0].configurations[1:] != tuning.plan.methods[0].configurations[1:]


class Enough(Exception):
    pass


class Stopping:
    """Ends a tuning after so many rounds, and counts them."""

    def __init__(self, last):
        self.last, self.rounds, self.ended = last, Counter(), []

    def begin(self, plan, rounds):
        del plan, rounds

    def round(self, trial, record):
        self.rounds[trial.name] += 1
        assert record.round <= trial.rounds
        if self.rounds.total() == self.last:
            raise Enough

    def finished(self, trial):
        self.ended.append(trial.name)


def test_a_tuning_that_is_ended_anywhere_goes_on_and_no_round_is_run_twice(once, tmp_path):
    """144 rounds of two methods and 72 of the verdict: ended in each rung and in the verdict, again and again."""
    tuning, data = once
    lives = []
    for last in (1, 40, 70, 20, 20, 30):
        lives.append(Stopping(last))
        with pytest.raises(Enough):
            tuned(data, tmp_path / "out", resume=True, watcher=lives[-1])
        assert not (tmp_path / "out/tuning.md").exists()
    lives.append(Stopping(0))
    again = tuned(data, tmp_path / "out", resume=True, watcher=lives[-1])
    assert stored(again.out) == stored(tuning.out)
    whole = Stopping(0)
    tuned(data, tmp_path / "counted", watcher=whole)
    assert sum((life.rounds for life in lives), Counter()) == whole.rounds
    done = Stopping(0)
    assert tuned(data, tmp_path / "out", resume=True, watcher=done).chosen == tuning.chosen
    assert done.rounds.total() == 0


@pytest.mark.cross  # a Ray of its own for every rung: minutes
def test_on_ray_it_is_the_same(once, tmp_path):
    pytest.importorskip("ray", reason="needs pip install 'fedtrip[ray]'")
    tuning, data = once
    assert stored(tuned(data, tmp_path / "out", workers=2, engine="ray").out) == stored(tuning.out)


# ---- the folder


def test_the_folder_of_another_tuning_is_refused_and_overwriting_leaves_foreign_files(blobs, tmp_path):
    small = {"methods": ["fedavg"], "trials": 1}
    out = tuned(blobs, tmp_path / "out", **small).out
    with pytest.raises(UserError, match="holds a tuning already; accepted: another folder, --overwrite or --resume"):
        tuned(blobs, out, **small)
    for other, told in (
        ({"budget": 80}, "its budget is 76, here it is 80"),
        ({"methods": ["fedprox"]}, "its ranges is ['fedavg'], here it is ['fedprox']"),
        ({"ranges": {"lr": "0.1..1:log"}}, "its ranges is"),
        ({"trials": 2}, "its fresh_seeds is [2], here it is [2, 3]"),
        ({"tuning_trials": 1}, "its spent is 72, here it is 75"),
    ):
        with pytest.raises(UserError) as refused:
            tuned(blobs, out, **{**small, **other}, resume=True)
        assert f"holds another tuning: {told}" in str(refused.value)
    changed = {**blobs, "x_train": blobs["x_train"] * np.float32(2)}
    with pytest.raises(UserError, match="holds another tuning"):
        tuned(changed, out, **small, resume=True)
    foreign = [out / "mine.txt", out / "tuning/mine.txt", out / "tuning/fedavg/0/1/mine.txt"]
    for path in foreign:
        path.write_text("mine")
    tuned(blobs, out, methods=["fedprox"], trials=1, overwrite=True)
    assert all(path.read_text() == "mine" for path in foreign)
    assert {path.name for path in (out / "tuning").iterdir()} == {"fedavg", "fedprox", "mine.txt"}
    assert not list((out / "tuning/fedavg").rglob("metrics.jsonl"))
    assert {path.name for path in (out / "verdict/runs").iterdir()} == {"fedprox", "fedprox_tuned"}


def test_a_damaged_tuning_json_is_told(blobs, tmp_path):
    out = tuned(blobs, tmp_path / "out", methods=["fedavg"], trials=1).out
    whole = json.loads((out / "tuning.json").read_text())
    first = whole["standings"][0]["fedavg"]
    for damage in (
        "{", "[]", json.dumps({**whole, "standings": 3}),
        json.dumps({**whole, "standings": [{"fedavg": {**first, "0": {"until": 3}}}]}),
        json.dumps({**whole, "standings": [{"fedavg": {"0": first["0"]}}]}),
        json.dumps({**whole, "standings": [{"fedavg": {**first, "0": {**first["0"], "scores": ["a", "b"]}}}]}),
    ):  # fmt: skip
        (out / "tuning.json").write_text(damage)
        with pytest.raises(UserError, match=r"tuning.json' cannot be read"):
            tuned(blobs, out, methods=["fedavg"], trials=1, resume=True)


def test_the_files_agree(once):
    tuning, _ = once
    whole = json.loads((tuning.out / "tuning.json").read_text())
    assert {path.name for path in tuning.out.iterdir()} == {"tuning.json", "tuning.md", "tuning", "verdict"}
    assert (whole["budget"], whole["spent"], whole["validation"]) == (BUDGET, 72, 0.2)
    assert whole["rungs"] == [
        {"rounds": 3, "configurations": 8, "spent": 48}, {"rounds": 9, "configurations": 2, "spent": 24}
    ]  # fmt: skip
    assert whole["verdict"]["rows"] == json.loads((tuning.out / "verdict/table.json").read_text())
    page = (tuning.out / "tuning.md").read_text()
    for method, one in tuning.methods.items():
        assert whole["chosen"][method]["values"] == dict(one.values)
        assert whole["chosen"][method]["spent"] == 72
        assert whole["ranges"][method] == {name: str(values) for name, values in one.space.items()}
        section = page.split(f"### {method}\n")[1].split("\n### ")[0]
        assert section.count("\n| ") == 2 + COUNT
        assert section.count("**chosen**") == 1
        assert section.count("| rung 1 |\n") == COUNT - 2
        for name, values in one.space.items():
            short = name.removeprefix(f"{method}.")
            assert (
                f"| {method} | {one.chosen.number} | {short} | {values} | {one.defaults[name]:g} | {one.values[name]:g}"
            )
    assert "- fedavg: declares no ranges of its own: nothing else of it is tuned." in page
    assert "scaffold: declares" not in page
    assert "Every method had a budget of 76 rounds and spent 72 of them" in page
    assert "Seeds 2, 3, none of which was used to choose." in page


def test_the_report_has_both_comparisons_each_for_itself(once, tmp_path):
    from fedtrip.report import read_folders, write_report

    tuning, _ = once
    collected = read_folders([tuning.out])
    assert collected.tuned == {f"{method} tuned": ["lr"] for method in METHODS}
    write_report(collected.histories, tmp_path / "again.html", tuned=collected.tuned)
    for page in ((tuning.out / "verdict/report.html").read_text(), (tmp_path / "again.html").read_text()):
        before, after = page.split('class="part-title"')[1:]
        assert "fedavg tuned" not in before.split("Repeat it")[0]
        assert "scaffold tuned" in after
        assert ", tuned</h2>" in after.splitlines()[0]
    assert "Each had a budget of 76 rounds on other seeds" in (tuning.out / "verdict/report.html").read_text()


def test_it_shows_itself_in_a_few_lines_and_its_rounds_if_asked(once, capsys):
    tuning, data = once
    shown = repr(tuning)
    assert shown.startswith(f"<Tuning {tuning.title}: fedavg: lr=")
    assert str(tuning.out) in shown.splitlines()[0]
    assert [line.split()[0] for line in shown.splitlines()[2:]] == ["fedavg", "scaffold", "fedavg", "scaffold"]
    tuned(data, tuning.out, resume=True, progress=True)  # all is done: nothing is run again
    assert "2 methods × 8 configurations: 216/216" in capsys.readouterr().err  # 2·72, and 4·2 trials of 9 rounds


@pytest.mark.parametrize("marks", [3, [], {"fedavg": 3}, "lr"])
def test_damaged_marks_of_tuning_are_told(once, tmp_path, marks):
    from fedtrip.report import read_folders

    tuning, _ = once
    whole = json.loads((tuning.out / "verdict/comparison.json").read_text())
    (tmp_path / "comparison.json").write_text(json.dumps({**whole, "tuned": marks}))
    with pytest.raises(UserError, match=r"comparison.json' cannot be read"):
        read_folders([tmp_path])


# ---- methods and ranges of one's own


@dataclass(frozen=True)
class Pull(FedAvg):
    """FedAvg with an option of its own"""

    ranges = {"strength": Range(0.1, 1.0), "kind": Choices("a", "b")}  # noqa: RUF012
    strength: float = 0.5
    kind: str = "a"


def test_a_method_of_ones_own_declares_its_ranges(blobs, tmp_path):
    name = f"{__name__}:Pull"
    tuning = tuned(blobs, tmp_path / "out", methods=[name, "fedavg"], trials=1, ranges={"momentum": "0,0.5,0.9"})
    one = tuning.methods[name]
    assert list(one.space) == ["lr", f"{name}.strength", f"{name}.kind", "momentum"]
    assert one.defaults == {"lr": 0.01, f"{name}.strength": 0.5, f"{name}.kind": "a", "momentum": 0.9}
    assert {each.values[f"{name}.kind"] for each in one.tried} == {"a", "b"}
    assert [each.values["lr"] for each in one.tried] == [each.values["lr"] for each in tuning.methods["fedavg"].tried]
    assert list(tuning.verdict.results) == ["Pull", "fedavg", "Pull tuned", "fedavg tuned"], "as tables call it"
    assert [row.baseline for row in tuning.verdict.rows] == ["fedavg"] * 4
    assert list(tuning.gains) == [name, "fedavg"]
    manifest = json.loads((tuning.out / "verdict/comparison.json").read_text())
    assert list(manifest["variants"]) == [name, "fedavg", f"{name} tuned", "fedavg tuned"]
    assert list(manifest["tuned"]) == [f"{name} tuned", "fedavg tuned"]
    assert (tuning.out / "verdict/table.tex").is_file()
    # its options do nothing: so it is FedAvg, configuration by configuration
    assert [each.standings for each in one.tried] == [each.standings for each in tuning.methods["fedavg"].tried]


def test_what_is_set_holds_for_all_configurations_and_in_the_verdict(blobs, tmp_path):
    tuning = tuned(
        blobs, tmp_path / "out", methods=["fedprox"], trials=1, settings={"fedprox.mu": 0.3, "momentum": 0.5}
    )
    assert list(tuning.methods["fedprox"].space) == ["lr"]
    paths = [*tmp_path.glob("out/tuning/*/*/*/experiment.toml"), *tmp_path.glob("out/verdict/runs/*/*/experiment.toml")]
    experiments = [read_experiment(path.parent) for path in paths]
    assert len(experiments) > COUNT
    assert {(one.method.options["mu"], one.momentum) for one in experiments} == {(0.3, 0.5)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 35}, "budget is 35; accepted: at least 36 rounds for each method"),
        ({"trials": 0}, "trials is 0; accepted: at least 1"),
        ({"tuning_trials": 0}, "tuning_trials is 0; accepted: at least 1"),
        ({"workers": 0}, "workers is 0; accepted: at least 1"),
        ({"methods": ["fedavg", "fedporx"]}, "method 'fedporx' is unknown; did you mean 'fedprox'?"),
        ({"methods": ["fedavg", "fedavg"]}, "methods names 'fedavg' more than once"),
        ({"ranges": {"scaffold.eta_g": "0.1..x"}}, "--range scaffold.eta_g: '0.1..x' cannot be read"),
        (
            {"ranges": {"scaffold.eta_g": "-1..1"}},
            "--range scaffold.eta_g=-1..1:linear: method 'scaffold': option 'eta_g'",
        ),
        ({"ranges": {"lr": "0.1,0.2"}}, "fedavg has fewer configurations than the 8 that the budget is for"),
        (
            {"ranges": {"lr": "0.1..1"}, "settings": {"lr": 0.1}},
            "--range and --set both name lr; accepted: one of them",
        ),
        ({"settings": {"lrr": 0.1}}, "--set 'lrr' is unknown; did you mean 'lr'?"),
        ({"engine": "local", "address": "auto"}, "--address 'auto' has no meaning here"),
    ],
)
def test_what_is_refused_before_anything_is_written(blobs, tmp_path, options, message):
    with pytest.raises(UserError) as refused:
        tuned(blobs, tmp_path / "out", **options)
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_seeds_that_would_run_out_are_refused_at_once(blobs, tmp_path):
    with pytest.raises(UserError, match="seed is"):
        tune(Experiment(**SMALL, seed=2**63 - 3), methods=["fedavg"], budget=BUDGET, data=blobs, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
