"""`compare(methods=["fedtrip", MyMethod(0.05)])`: names and objects side by side, and what is stored of an object."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas
import pytest
from matplotlib.figure import Figure
from tests.runs.test_shown_results import Tags, pictures

import fedtrip
from fedtrip import Affine, Experiment, Method, Reply, UserError, compare
from fedtrip.comparison.tables import as_csv
from fedtrip.comparison.variants import make_variants
from fedtrip.methods.fedprox import FedProx
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.report import read_folders

SMALL = {"rounds": 4, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "target": 0.5}


@dataclass(frozen=True)
class Pull(Method):
    """FedProx written again"""

    strength: float
    mode: str = "plain"

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(upload=local.train(received, Affine(self.strength, -self.strength * received["w"])))


PULL = f"{__name__}:Pull"


def labels(methods, sweeps=None, **fields):
    return {v.name: v.label for v in make_variants(Experiment(**fields), methods, sweeps or {})}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("objects") / "cmp"
    methods = ["fedprox", FedProx(mu=0.3), Pull(0.3), Pull(0.05, mode="other")]
    return compare(Experiment(**SMALL), methods=methods, trials=2, out=out, workers=1)


def test_labels_are_the_class_and_the_options_that_differ_from_its_defaults():
    assert labels(["fedprox", FedProx(mu=0.3), FedTrip(mu=1.0)]) == {
        "fedprox": "fedprox", "fedprox mu=0.3": "fedprox mu=0.3", "fedtrip": "fedtrip",
    }  # fmt: skip
    assert labels([Pull(0.05), Pull(0.05, mode="other")]) == {
        f"{PULL} strength=0.05": "Pull strength=0.05",
        f"{PULL} strength=0.05 mode=other": "Pull strength=0.05 mode=other",
    }
    assert labels([{"name": "fedprox", "mu": 0.2}]) == {"fedprox mu=0.2": "fedprox mu=0.2"}


def test_objects_are_swept_like_names_also_by_the_name_of_their_class():
    expected = ["Pull strength=1", "Pull strength=2", "fedavg"]
    for name in (f"{PULL}.strength", "Pull.strength"):
        assert list(labels([Pull(0.5), "fedavg"], {name: [1, 2]}).values()) == expected
    with pytest.raises(UserError, match="'Push' is unknown"):
        labels([Pull(0.5)], {"Push.strength": [1]})


def test_an_object_has_its_own_options_and_not_those_of_the_experiment():
    base = Experiment(method={"name": "fedprox", "mu": 0.7})
    named, given = make_variants(base, ["fedprox", FedProx(mu=0.2)], {})
    assert named.experiment.method.options == {"mu": 0.7}
    assert given.experiment.method.options == {"mu": 0.2}
    assert (named.label, named.folder, given.label) == ("fedprox mu=0.7", "fedprox", "fedprox mu=0.2")


def test_two_classes_of_one_name_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "second_pull.py").write_text(Path(__file__).read_text(encoding="utf-8").partition("PULL =")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    import second_pull

    assert list(labels([Pull(0.1), second_pull.Pull(0.1), "fedavg"]).values()) == [
        f"{PULL} strength=0.1", "second_pull:Pull strength=0.1", "fedavg"
    ]  # fmt: skip


def test_the_runs_are_those_of_the_experiment_with_the_object(compared):
    assert list(compared.results) == ["fedprox", "fedprox mu=0.3", "Pull strength=0.3", "Pull strength=0.05 mode=other"]
    of_name, of_object = compared.results["fedprox mu=0.3"], compared.results["Pull strength=0.3"]
    assert [run.model_sha256 for run in of_name] == [run.model_sha256 for run in of_object]
    alone = fedtrip.run(Experiment(**SMALL, method=Pull(0.3), seed=1), workers=1)
    assert of_object[1].model_sha256 == alone.model_sha256
    assert of_object[1].experiment == alone.experiment


def test_what_is_stored_names_the_class_and_its_options(compared):
    folder = compared.out / "runs" / f"{PULL.replace(':', '_')}_strength=0.05_mode=other" / "0"
    stored = Experiment.from_toml(folder / "experiment.toml").method
    assert (stored.name, stored.options) == (PULL, {"strength": 0.05, "mode": "other"})
    manifest = json.loads((compared.out / "comparison.json").read_text())
    assert manifest["labels"][f"{PULL} strength=0.3"] == "Pull strength=0.3"
    rows = json.loads((compared.out / "table.json").read_text())
    assert [(row["variant"], row["method"]) for row in rows][2:] == [
        ("Pull strength=0.3", PULL), ("Pull strength=0.05 mode=other", PULL)
    ]  # fmt: skip
    assert "| Pull strength=0.3 |" in (compared.out / "table.md").read_text()


def test_the_report_of_the_folder_has_the_labels_and_runs_no_code(compared, monkeypatch):
    monkeypatch.setattr("fedtrip.registry.import_object", lambda *_: pytest.fail("imported"))
    collected = read_folders([compared.out])
    assert list(collected.histories) == list(compared.results)


def test_resume_takes_the_same_objects_and_no_others(compared):
    options = {"trials": 2, "out": compared.out, "workers": 1, "resume": True}
    before = (compared.out / "table.json").read_bytes()
    same = ["fedprox", FedProx(mu=0.3), Pull(0.3), Pull(0.05, mode="other")]
    again = compare(Experiment(**SMALL), methods=same, **options)
    assert again.rows == compared.rows
    assert (compared.out / "table.json").read_bytes() == before
    with pytest.raises(UserError, match="holds another comparison: its variants are"):
        compare(Experiment(**SMALL), methods=[*same[:3], Pull(0.06, mode="other")], **options)


def test_a_class_of_a_script_runs_on_two_processes(tmp_path):
    (tmp_path / "script.py").write_text(
        "from dataclasses import dataclass\nimport fedtrip\n\n@dataclass(frozen=True)\nclass Mine(fedtrip.Method):\n"
        "    strength: float = 0.1\n\n    def client(self, received, memory, local):\n"
        "        return fedtrip.Reply(upload=local.train({**received, 'w': received['w'] * (1 - self.strength)}))\n\n"
        "if __name__ == '__main__':\n"
        "    both = fedtrip.compare(fedtrip.Experiment(rounds=2), methods=['fedavg', Mine(0.5)], trials=1, workers=2)\n"
        "    print(both)\n    print(both.out)\n"
    )
    ended = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Mine strength=0.5" in ended.stdout
    assert ended.stdout.rstrip().endswith(str(tmp_path / "runs/compare-mlp-digits"))


# ---- what a comparison shows of itself


def test_a_comparison_is_a_few_lines(compared):
    head, titles, *rows = repr(compared).splitlines()
    assert head == f"<Comparison digits, mlp, dirichlet:0.5: 4 variants, 2 trials each, in {compared.out}"
    assert titles.split()[:1] == ["variant"]
    assert [row.split()[0] for row in rows] == ["fedprox", "fedprox", "Pull", "Pull"]
    assert "tensor" not in repr(compared)


def test_a_notebook_shows_the_table_and_the_curves(compared):
    page = compared._repr_html_()
    shown = Tags(page)
    assert "Pull strength=0.3" in shown.text
    assert "Mean ± standard deviation over trials." in shown.text
    assert str(compared.out) in shown.text
    assert sum(tag == "tr" for tag, _ in shown.tags) == 5
    (plot,) = pictures(page)
    assert plot.startswith(b"\x89PNG")


def test_labels_in_a_notebook_are_text(compared):
    evil = "<img src=x onerror=alert(1)>"
    rows = [type(row)(**{**vars(row), "variant": evil}) for row in compared.rows]
    page = type(compared)(evil, rows, compared.results, Path(evil))._repr_html_()
    assert sum(tag == "img" for tag, _ in Tags(page).tags) == 1
    assert evil not in page


def test_the_frame_is_the_csv_table(compared):
    import io

    frame = compared.frame()
    assert isinstance(frame, pandas.DataFrame)
    read = pandas.read_csv(io.StringIO(as_csv(compared.rows)))
    assert list(frame.columns) == list(read.columns)
    assert list(frame["variant"]) == list(compared.results)
    assert frame["final_accuracy_mean"].tolist() == read["final_accuracy_mean"].tolist()


def test_the_plot_has_a_line_for_each_variant(compared):
    figure = compared.plot()
    assert isinstance(figure, Figure)
    drawn = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert drawn == list(compared.results)


def test_a_new_folder_each_time_if_none_is_named(blobs, here):
    options = {"methods": ["fedavg"], "trials": 1, "workers": 1}
    first, second = (compare(Experiment(**SMALL), **options) for _ in range(2))
    assert [one.out for one in (first, second)] == [
        here / "runs/compare-mlp-digits", here / "runs/compare-mlp-digits-2"
    ]  # fmt: skip
    own = compare(Experiment(**SMALL), data=blobs, **options)
    assert own.out == here / "runs/compare-mlp-own-data"


@pytest.mark.usefixtures("here")
def test_the_models_of_a_comparison_are_at_hand_with_what_it_was_given(blobs):
    from torch import nn

    def model():
        return nn.Linear(6, 3)

    options = {"methods": ["fedavg"], "trials": 2, "workers": 1, "data": blobs}
    for given in (model, model()):
        (runs,) = compare(Experiment(**SMALL), model=given, **options).results.values()
        for run in runs:
            correct = run.predictor()(fedtrip.from_arrays(**blobs).x_test).argmax(1).numpy() == blobs["y_test"]
            assert correct.mean() == pytest.approx(run.records[-1].accuracy)
