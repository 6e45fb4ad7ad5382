"""One list of columns serves every form of the table."""

import csv
import io
import json

from tests.comparison.test_tables import row

from fedtrip.comparison.tables import as_csv, as_markdown, as_records, columns, note


def test_a_column_has_its_title_text_order_and_data_in_one_place():
    rows = [row(), row(variant="fedavg", speedup=None, censored=1)]
    shown = columns(rows)
    assert [column.title for column in shown] == [
        "variant", "rounds to 90%", "reached", "speed-up [95 %]", "final acc. %", "GFLOPs", "MB", "GMACs", "kB kept"
    ]  # fmt: skip
    first, second = ([column.text(one) for column in shown] for one in rows)
    assert first[1:3] == ["12.0±2.0", "3/3"]
    assert second[1:4] == [">12.0±2.0", "2/3", "–"]
    orders = [[column.sort(one) for column in shown] for one in rows]
    assert orders[0][0] == "fedtrip"
    assert orders[0][1] < orders[1][1], "a bound comes after its equal"
    assert orders[0][3] < orders[1][3], "what is not there comes last"
    names = {entry.name for column in columns(rows, every=True) for entry in column.data}
    assert names == set(as_records(rows)[0])


def test_csv_and_json_have_every_column_also_one_that_is_not_shown():
    rows = [row()]
    record = json.loads(json.dumps(as_records(rows)))[0]
    assert list(record) == [
        "variant", "method", "trials", "target", "rounds", "censored", "baseline", "speedup", "speedup_p_holm",
        "final_accuracy", "gflops", "megabytes", "gmacs", "client_megabytes", "device_seconds",
    ]  # fmt: skip
    (line,) = csv.DictReader(io.StringIO(as_csv(rows)))
    assert list(line) == [
        "variant", "method", "trials", "target", "censored", "baseline", "speedup_p_holm", "client_megabytes",
        "rounds_mean", "rounds_std",
        "final_accuracy_mean", "final_accuracy_std", "gflops_mean", "gflops_std", "megabytes_mean", "megabytes_std",
        "gmacs_mean", "gmacs_std", "device_seconds_mean", "device_seconds_std", "speedup_mean", "speedup_low",
        "speedup_high", "speedup_bound", "speedup_left_out",
    ]  # fmt: skip
    assert line["device_seconds_mean"] == ""


def test_notes_are_about_the_columns_shown():
    rows = [row()]
    everything, some = columns(rows), [column for column in columns(rows) if column.importance]
    assert "GMACs" in note(rows, everything)
    assert "GMACs" not in note(rows, some)
    assert "estimate" not in note(rows, everything)
    assert note(rows, everything) in as_markdown(rows, "a title")
