"""`fedtrip export`: tables and figures of stored runs; what is wrong is told before anything is written."""

import csv
import io
import json

import pytest

import fedtrip as package
from fedtrip import Experiment, compare
from fedtrip.report.export import FORMATS

SMALL = {"rounds": 4, "clients": 4, "per_round": 2, "samples_per_client": 30, "target": 0.05}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "cmp"
    compare(
        Experiment(**SMALL), methods=["fedtrip", "fedavg"], trials=2, workers=1, out=out, labels={"fedtrip": "Ours"}
    )
    return out


@pytest.fixture(autouse=True)
def folder(here):
    return here


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_tables_are_those_of_the_comparison(fedtrip, comparison):
    for form in FORMATS["table"]:
        ended = fedtrip("export", comparison, "--format", form)
        assert ended.code == 0, ended.err
        assert ended.out == (comparison / f"table.{form}").read_text(encoding="utf-8")
    assert fedtrip("export", comparison).out == (comparison / "table.tex").read_text(encoding="utf-8")


@pytest.mark.parametrize("what", ["curves", "boxes"])
def test_figures_are_written_by_the_ending_of_their_name(fedtrip, comparison, here, what):
    for form, begins in {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}.items():
        ended = fedtrip("export", comparison, "--what", what, "--out", f"figure.{form}")
        assert ended.code == 0, ended.err
        assert ended.out == ""
        assert str(here / f"figure.{form}") in ended.err
        assert (here / f"figure.{form}").read_bytes().startswith(begins)
    assert fedtrip("export", comparison, "--what", what, "--out", "figure.pdf").code == 0, "replaced, as figures are"


def test_the_curves_figure_is_that_of_the_comparison(fedtrip, comparison, here):
    fedtrip("export", comparison, "--what", "curves", "--out", "again.pdf")
    assert (here / "again.pdf").read_bytes() == (comparison / "convergence.pdf").read_bytes()


def test_the_numbers_behind_the_figures(fedtrip, comparison):
    curves = read(fedtrip("export", comparison, "--what", "curves", "--format", "csv").out)
    assert len(curves) == 2 * 2 * 4
    run = package.load_result(comparison / "runs/fedavg/1")
    own = [line for line in curves if (line["variant"], line["seed"]) == ("fedavg", "1")]
    assert [(int(line["round"]), float(line["accuracy"])) for line in own] == run.curve
    assert float(own[-1]["megabytes"]) == run.summary()["megabytes"]
    boxes = read(fedtrip("export", comparison, "--what", "boxes", "--format", "csv").out)
    assert [(line["variant"], line["seed"]) for line in boxes] == [
        ("Ours", "0"), ("Ours", "1"), ("fedavg", "0"), ("fedavg", "1")
    ]  # fmt: skip
    assert float(boxes[3]["final_accuracy"]) == run.final_score
    assert (boxes[3]["reached"], int(boxes[3]["rounds"])) == ("True", run.rounds_to(0.05))


def test_runs_of_any_folders_with_a_baseline_and_labels(fedtrip, here):
    for method, seed in (("fedavg", 0), ("fedavg", 1), ("moon", 0), ("moon", 1)):
        package.run(Experiment(**SMALL, method=method, seed=seed), workers=1, out=here / f"{method}{seed}")
    names = ["fedavg0", "fedavg1", "moon0", "moon1"]
    rows = json.loads(fedtrip("export", *names, "--format", "json", "--baseline", "moon").out)
    assert [(row["variant"], row["trials"], row["baseline"]) for row in rows] == [
        ("fedavg", 2, "moon"),
        ("moon", 2, "moon"),
    ]
    assert rows[1]["speedup"] is None
    table = fedtrip("export", *names, "--label", "moon=Theirs & ours", "--baseline", "Theirs & ours").out
    assert "\nTheirs \\& ours & " in table
    assert "Speed-up: Theirs \\& ours's rounds over" in table


def test_the_stored_baseline_holds_under_another_label(fedtrip, here):
    compare(
        Experiment(**SMALL), methods=["fedtrip", "fedavg"], trials=1, workers=1, out=here / "cmp", baseline="fedtrip"
    )
    for options, called in (((), "fedtrip"), (("--label", "fedtrip=Ours"), "Ours")):
        rows = json.loads(fedtrip("export", "cmp", *options, "--format", "json").out)
        assert [(row["variant"], row["baseline"], row["speedup"] is None) for row in rows] == [
            (called, called, True),
            ("fedavg", called, False),
        ]


def test_unfinished_runs_are_told_and_left_out(fedtrip, comparison, here):
    import shutil

    shutil.copytree(comparison, "cut")
    (here / "cut/runs/fedtrip/1/summary.json").unlink()
    ended = fedtrip("export", "cut", "--what", "boxes", "--format", "csv")
    assert ended.code == 0
    assert len(read(ended.out)) == 3
    assert "1 run is not finished in 'cut'" in ended.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--what", "pie"], "'pie' is not one of 'table', 'curves', 'boxes'"),
        (["--format", "docx"], "'docx' is not one of"),
        (["--format", "pdf"], "--format is pdf, for --what table; accepted: tex, csv, md, json"),
        (["--what", "curves", "--format", "tex"], "--format is tex, for --what curves; accepted: pdf, svg, png, csv"),
        (["--what", "boxes", "--format", "md", "--out", "x.md"], "accepted: pdf, svg, png, csv"),
        (["--what", "curves"], "--what curves as pdf is a figure; accepted: --out FILE.pdf"),
        (["--out", "x.pdf"], "--out 'x.pdf' is no file for --what table; accepted: tex, csv, md, json"),
        (["--out", "x"], "--out 'x' is no file for --what table; accepted: tex"),
        (["--out", "x.tex", "--format", "csv"], "x.tex' has an unknown ending; accepted: .csv"),
        (["--out", "nowhere/x.tex"], "nowhere' does not exist"),
        (["--out", "x.tex", "--baseline", "moon"], "--baseline 'moon' is unknown; accepted: Ours, fedavg"),
        (["--out", "x.tex", "--label", "moon=X"], "--label 'moon' is unknown; accepted: Ours, fedavg"),
        (["--out", "x.tex", "--label", "fedavg=Ours"], "--label gives two variants the label 'Ours'"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(fedtrip, comparison, here, options, told):
    ended = fedtrip("export", comparison, *options)
    assert ended.code == 2
    assert ended.out == ""
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not list(here.iterdir())


def test_no_folder_no_run_and_other_goals(fedtrip, comparison, here):
    assert "Missing argument" in fedtrip("export").err
    assert "is not a folder" in fedtrip("export", "nowhere").err
    (here / "empty").mkdir()
    assert "holds neither a run nor a comparison" in fedtrip("export", "empty").err
    score = {"task": {"name": "classification", "score": "macro_f1"}}
    package.run(Experiment(**{**SMALL, **score}, method="moon"), workers=1, out=here / "f1")
    ended = fedtrip("export", comparison, "f1")
    assert ended.code == 2
    assert "the runs have different goals, accuracy, macro_f1; accepted: runs of one goal" in ended.err


def test_no_code_is_run_that_a_run_names(fedtrip, comparison, monkeypatch):
    monkeypatch.setattr("fedtrip.registry.import_object", lambda *_: pytest.fail("imported"))
    assert fedtrip("export", comparison).code == 0


def test_partition_draws_a_pdf(fedtrip, here):
    ended = fedtrip("partition", "--partition", "iid", "--out", "labels.pdf")
    assert ended.code == 0, ended.err
    assert (here / "labels.pdf").read_bytes().startswith(b"%PDF")
    assert "accepted: .png, .pdf, .svg" in fedtrip("partition", "--out", "labels.jpg").err
