"""`fedtrip reproduce`: what it offers, what it says before it begins, and what it refuses."""

import json

import pytest

from fedtrip.paper.archive import Archive
from fedtrip.paper.missing import span
from fedtrip.paper.registry import ENTRIES
from fedtrip.paper.reproduction import work_folder


def test_the_list_names_every_entry_and_what_it_takes(fedtrip):
    ended = fedtrip("reproduce", "--list")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines] == list(ENTRIES)
    assert "36 lines × 10 trials" in lines[2]
    assert "50 rounds and 3 t-SNE" in next(line for line in lines if line.startswith("fig2"))


def test_a_dry_run_says_what_it_takes_and_writes_nothing(fedtrip, here):
    ended = fedtrip("reproduce", "table4", "fig2", "--case", "mlp-mnist", "--trials", 2, "--dry-run")
    assert ended.code == 0
    first, second = ended.err.splitlines()
    assert first.startswith("table4: 12 runs, 0 of them finished; 12 to run, about ")
    assert second.startswith("fig2: once a run of 50 rounds")
    assert list(here.iterdir()) == []


def test_a_dry_run_says_what_each_case_lacks_and_where_it_looked(fedtrip, here, monkeypatch):
    monkeypatch.setenv("FEDTRIP_DATA", str(here))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    line = next(one for one in ENTRIES["table4"].lines if (one.case, one.label) == ("mlp-mnist", "FedAvg"))
    begun = work_folder(here / "results", line.experiment.but(seed=1))
    begun.mkdir(parents=True)
    (begun / "metrics.jsonl").touch()
    finished = line.experiment.but(seed=0)
    honest = Archive.find
    monkeypatch.setattr(Archive, "find", lambda self, wanted: True if wanted == finished else honest(self, wanted))
    options = ["--case", "mlp-mnist,cnn-mnist", "--methods", "fedavg,fedtrip", "--trials", 3, "--dry-run"]
    ended = fedtrip("reproduce", "table4", *options)
    assert ended.code == 0
    mlp, cnn, data, looked = ended.out.splitlines()
    assert mlp == "  mlp-mnist: 5 of 6 missing: FedTrip, seeds 0-2; FedAvg, seeds 1-2; 1 of them begun"
    assert cnn == "  cnn-mnist: 6 of 6 missing: FedTrip, seeds 0-2; FedAvg, seeds 0-2"
    assert data.startswith("  data set mnist: not here: looked in ")
    assert f"'{here}/MNIST/raw'" in data
    assert "it is downloaded when needed, " in data
    assert f"'{here}/results/runs' (0 there), begun ones in '{here}/results/unfinished'" in looked
    as_json = json.loads(fedtrip("reproduce", "table4", *options, "--json").out)
    assert as_json["cases"][0] == {
        "case": "mlp-mnist", "runs": 6, "missing": {"FedTrip": [0, 1, 2], "FedAvg": [1, 2]}, "begun": 1,
    }  # fmt: skip
    assert as_json["data"][0]["here"] is False


def test_a_dry_run_of_what_is_all_there(fedtrip, here, monkeypatch, write_idx_set):
    write_idx_set(here / "data/MNIST/raw")
    monkeypatch.setattr(Archive, "find", lambda *_: True)
    ended = fedtrip("reproduce", "table4", "--case", "mlp-mnist", "--dry-run", "--data-dir", here / "data")
    assert ended.out.splitlines()[:2] == ["  mlp-mnist: all 60 there", f"  data set mnist: in '{here}/data/MNIST/raw'"]


def test_seeds_as_one_writes_them():
    assert span([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_tables_that_need_no_run_agree_with_the_paper_or_say_why(fedtrip, here):
    for name in ("table3", "table8"):
        ended = fedtrip("reproduce", name, "--json")
        assert ended.code == 0
        cells = json.loads(ended.out)["cells"]
        assert all(cell["agrees"] or cell["remark"] for cell in cells)
        assert (here / "results" / name / "table.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("table9",), "entry 'table9'"),
        (("table4", "--case", "mlp-minst"), "mlp-minst"),
        (("table4", "--methods", "fedtripp"), "fedtripp"),
        (("table4", "--trials", 0), "--trials is 0; accepted: at least 1"),
        (("table4", "--workers", 0), "workers"),
        (("table4", "--published"), "--published is only for table5"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_written(fedtrip, here, arguments, told):
    ended = fedtrip("reproduce", *arguments)
    assert ended.code == 2
    assert told in " ".join(ended.err.split())
    assert list(here.iterdir()) == []
