"""`fedtrip tune` through the real entry point."""

import json

import pytest

SMALL = ("--rounds", 9, "--clients", 4, "--per-round", 2, "--samples-per-client", 20, "--batch-size", 10)
LEAST = ("--tuning-trials", 1, "--trials", 1, "--workers", 1)


@pytest.fixture(autouse=True)
def folder(here):
    return here


def test_a_table_of_at_most_80_columns_and_where_to_read_on(fedtrip, here):
    ended = fedtrip(
        "tune", *SMALL, *LEAST, "--methods", "fedavg, scaffold", "--budget", 30, "--target", 0.3, "--out", "t"
    )
    assert ended.code == 0, ended.err
    *shown, page, report = ended.out.rstrip().splitlines()
    assert max(map(len, shown)) <= 80
    assert (page, report) == (f"page    {here / 't/tuning.md'}", f"report  {here / 't/verdict/report.html'}")
    for part in (
        "Every method spent 30 of 30 rounds on 6 configurations.",
        "before",
        "after",
        "gain",
        "[95 %]",
        "fedavg: ",
        "lr=",
        "eta_g=",
    ):
        assert part in ended.out
    assert "declares no ranges of its own: nothing else of it is tuned" in ended.out
    # (6·3 + 2·6)·2 rounds to tune, 2·2·9 for the verdict
    assert "2 methods × 6 configurations: 96/96" in ended.err
    stored = json.loads((here / "t/tuning.json").read_text())
    assert stored["command"].startswith("fedtrip tune --rounds 9 --clients 4")


def test_json_is_the_file(fedtrip, here):
    ended = fedtrip(
        "tune", *SMALL, *LEAST, "--methods", "fedprox", "--budget", 30, "--json", "-q", "--seed", 5,
        "--range", "fedprox.mu=0.01..1:log", "--range", "momentum=0,0.9", "--set", "weight_decay=0.01",
    )  # fmt: skip
    assert ended.err == ""
    printed = json.loads(ended.out)
    assert printed.pop("out") == str(here / "runs/tune-mlp-digits")
    assert printed == json.loads((here / "runs/tune-mlp-digits/tuning.json").read_text())
    assert printed["ranges"] == {
        "fedprox": {"lr": "0.001..1:log", "fedprox.mu": "0.01..1:log", "momentum": "0,0.9"}
    }  # fmt: skip
    assert (printed["seeds"], printed["fresh_seeds"]) == ([5], [6])
    assert printed["configurations"]["fedprox"][0] == {"lr": 0.01, "fedprox.mu": 0.1, "momentum": 0.9}


def test_no_test_score_is_shown_before_the_verdict(fedtrip, here, monkeypatch):
    """The line of progress has validation scores while configurations are judged."""
    from fedtrip.api import progress

    notes = []
    monkeypatch.setattr(progress.Live, "advance", lambda _self, note, steps=1: notes.append((note, steps)))
    ended = fedtrip("tune", *SMALL, *LEAST, "--methods", "fedavg", "--budget", 30, "--out", "t")
    assert ended.code == 0, ended.err
    lines = {
        seed: [json.loads(line) for line in (here / f"t/{run}/metrics.jsonl").read_text().splitlines()]
        for seed, run in ((0, "tuning/fedavg/0/0"), (1, "verdict/runs/fedavg/1"))
    }
    shown = [note for note, _ in notes]
    assert [note for note in shown if note.startswith("fedavg 0, seed 0")][:3] == [
        f"fedavg 0, seed 0: {line['validation']['accuracy']:.2%}" for line in lines[0][:3]
    ]
    assert [note for note in shown if note.startswith("fedavg, seed 1")] == [
        f"fedavg, seed 1: {line['scores']['accuracy']:.2%}" for line in lines[1]
    ]
    assert sum(steps for _, steps in notes) == 30 + 2 * 9


def test_an_experiment_file_and_its_options(fedtrip, here):
    (here / "mine.toml").write_text('rounds = 9\nclients = 4\nper_round = 2\n[method]\nname = "fedprox"\nmu = 0.7\n')
    ended = fedtrip("tune", "mine.toml", *LEAST, "--methods", "fedprox,fedavg", "--budget", 18, "-q", "--json")
    assert ended.code == 0, ended.err
    assert [one[0] for one in json.loads(ended.out)["configurations"].values()] == [
        {"lr": 0.01, "fedprox.mu": 0.7}, {"lr": 0.01}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--budget is missing; accepted: the rounds that each method may spend, such as --budget 1000"),
        (
            ("--budget", 17),
            "budget is 17; accepted: at least 18 rounds for each method, which let 2 configurations run 9",
        ),
        (("--budget", "many"), "Invalid value for '--budget'"),
        (("--budget", 30, "--range", "fedavg.mu"), "--range 'fedavg.mu' cannot be read; accepted: NAME=LOW..HIGH:log"),
        (("--budget", 30, "--range", "lr=1..2", "--range", "lr=2..3"), "--range lr is given more than once"),
        (
            ("--budget", 30, "--range", "lr=2..1:log"),
            "--range lr: range '2..1:log' is empty; accepted: two finite numbers",
        ),
        (
            ("--budget", 30, "--range", "target=0.1..0.2"),
            "--range target: that is not tuned; accepted: augment, batch_size",
        ),
        (("--budget", 30, "--set", "lr=0.1,0.2"), "--set lr has 2 values; accepted: one, or --range lr=VALUE,VALUE"),
        (("--budget", 30, "--set", "lr=0.1"), "fedavg has fewer configurations than the 6 that the budget is for"),
        (("--budget", 30, "--resume"), "--resume needs to know which tuning; accepted: --resume --out FOLDER"),
        (("--budget", 30, "--methods", ","), "--methods is ','; accepted: names, comma-separated, paper or all"),
        (("--budget", 30, "--validation", 1.5), "validation is 1.5; accepted: less than 1"),
        (("--budget", 30, "--tuning-trials", 0), "tuning_trials is 0; accepted: at least 1"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(fedtrip, here, options, message):
    ended = fedtrip("tune", *SMALL, *LEAST, "--methods", "fedavg", *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert not any(here.iterdir())


def test_a_folder_that_holds_something_else(fedtrip, here):
    (here / "mine").mkdir()
    (here / "mine/notes.txt").write_text("mine")
    command = ("tune", *SMALL, *LEAST, "--methods", "fedavg", "--budget", 18, "-q", "--out", "mine")
    for options in ((), ("--overwrite",), ("--resume",)):
        ended = fedtrip(*command, *options)
        assert ended.code == 2
        assert "is not empty and holds no tuning; accepted: a new or empty folder" in ended.err
    assert [path.name for path in (here / "mine").iterdir()] == ["notes.txt"]


def test_the_report_command_takes_a_tunings_folder(fedtrip, here):
    assert fedtrip("tune", *SMALL, *LEAST, "--methods", "fedavg", "--budget", 18, "-q", "--out", "t").code == 0
    ended = fedtrip("report", "t", "--out", "again.html")
    assert ended.code == 0, ended.err
    page = (here / "again.html").read_text()
    assert "digits, mlp, dirichlet:0.5, tuned</h2>" in page


def test_the_help_teaches(fedtrip):
    ended = fedtrip("tune", "--help")
    assert ended.code == 0
    text = " ".join(ended.out.split())
    for part in (
        "same budget of rounds", "successive halving", "validation data", "fresh seeds", "its defaults among them",
        "fedtrip tune --methods fedavg,fedprox,scaffold --budget 1000", "fedprox.mu=0.001..1:log", "--tuning-trials",
    ):  # fmt: skip
        assert part.lower() in text.lower()
