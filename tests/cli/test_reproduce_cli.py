"""`fedtrip reproduce`: what it offers, what it says before it begins, and what it refuses."""

import json

import pytest

from fedtrip.paper.registry import ENTRIES


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
