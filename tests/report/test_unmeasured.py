"""Where neither side reached the target nothing was measured, and no table says that it was."""

from __future__ import annotations

import csv
import io

from fedtrip.comparison.tables import as_csv, as_records, columns
from fedtrip.report import write_report
from fedtrip.report.parts import make_parts


def test_neither_side_reached_the_target(make_runs, tmp_path):
    """Not "?1.00× [1.00, 1.00]": a dash for people, null and nothing for programs."""
    runs = {name: make_runs(name, [None, None]) for name in ("fedtrip", "fedavg")}
    (part,) = make_parts(runs)
    assert [columns(part.rows)[3].text(row) for row in part.rows] == ["–", "–"]
    assert [record["speedup"] for record in as_records(part.rows)] == [None, None]
    lines = csv.DictReader(io.StringIO(as_csv(part.rows)))
    assert {text for line in lines for name, text in line.items() if name.startswith("speedup")} == {""}
    write_report(runs, tmp_path / "page.html")
    assert "1.00×" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_pairs_that_were_left_out_are_told(make_runs):
    (part,) = make_parts({"fedtrip": make_runs("fedtrip", [8, None, 9]), "fedavg": make_runs("fedavg", [16, None, 18])})
    assert columns(part.rows)[3].text(part.rows[0]) == "2.00× [2.00, 2.00] (2 of 3)"
    assert as_records(part.rows)[0]["speedup"]["left_out"] == 1
    (line, _) = csv.DictReader(io.StringIO(as_csv(part.rows)))
    assert line["speedup_left_out"] == "1"
