"""Run and comparison folders of anybody: read, or refused in one clear line that cannot play with the terminal."""

import io
import json
import shutil
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy
from rich.text import Text

from fedtrip import Experiment, UserError, compare, run
from fedtrip.data import load_dataset
from fedtrip.rounds.record import RoundRecord
from fedtrip.vectors import Vectors

DEEP = "[" * 100_000
NOT_UTF8 = b"\xff\xfe\x00{"
SMALL = {"rounds": 2, "clients": 3, "per_round": 2, "samples_per_client": 20}


# ---- npz files whose headers lie


@pytest.mark.parametrize("shape", [(0, 10**30), (True,), (2**63, 2**63, 0), (-1,), (3.0,)])
def test_npz_headers_with_impossible_shapes(tmp_path, shape):
    arrays = {"x_train": np.ones((4, 2)), "y_train": np.arange(4), "x_test": np.ones((4, 2)), "y_test": np.arange(4)}
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            stream = io.BytesIO()
            if name == "x_train":
                npy.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
                stream.write(b"\0" if shape == (True,) else b"")
            else:
                np.save(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())
    with pytest.raises(UserError, match=r"odd\.npz: "):
        load_dataset(f"npz:{path}")


# ---- run folders


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "run"
    run(Experiment(**SMALL), workers=1, out=folder)
    return folder


def lines_with(**changes):
    def changed(text):
        return "".join(json.dumps({**json.loads(line), **changes}) + "\n" for line in text.splitlines())

    return changed


def summary_with(**changes):
    return lambda text: json.dumps({**json.loads(text), **changes})


DAMAGES = {
    "metrics.jsonl": {
        "not UTF-8": NOT_UTF8,
        "deep": DEEP,
        "text for a number": lines_with(accuracy="high"),
        "text for a count": lines_with(bytes_up="many"),
        "a number for a list": lines_with(clients=3),
        "text in a list": lines_with(clients=["a"]),
        "huge": lines_with(macs=10**400),
        "negative": lines_with(bytes_down=-1),
        "truth": lines_with(round=True),
        "one round twice": lines_with(round=2),
        "seconds": lines_with(seconds=None),
        "refused": lines_with(refused=[1]),
        "unchanged": lines_with(unchanged="no"),
        "a list": "[]\n[]\n",
    },
    "summary.json": {
        "not UTF-8": NOT_UTF8,
        "deep": DEEP,
        "ended": summary_with(ended=3),
        "gflops": summary_with(gflops_per_round="many"),
        "gflops of truth": summary_with(gflops_per_round=True),
        "acceleration": summary_with(acceleration=7),
        "accelerations": summary_with(acceleration=[7]),
        "kernels": summary_with(kernels=7),
        "versions": summary_with(versions={"torch": {"a": [1]}}),
        "a list": "[]",
    },
    "experiment.toml": {"not UTF-8": NOT_UTF8, "deep": f"a = {DEEP}"},
    "model.safetensors": {"not UTF-8": NOT_UTF8, "empty": b""},
}


@pytest.mark.parametrize(("name", "damage"), [(name, damage) for name in DAMAGES for damage in DAMAGES[name]])
def test_a_damaged_run_is_refused_in_one_line(fedtrip, stored, tmp_path, name, damage):
    shutil.copytree(stored, tmp_path / "run")
    content, file = DAMAGES[name][damage], tmp_path / "run" / name
    if callable(content):
        content = content(file.read_text())
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = fedtrip("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert ended.code == 2
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1
    assert len(ended.err) < 1000
    assert name in ended.err
    assert not (tmp_path / "page.html").exists()


# ---- comparison folders


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "cmp"
    compare(Experiment(**SMALL), methods=["fedavg"], trials=1, workers=1, out=folder)
    return folder


def manifest_with(**changes):
    return lambda text: json.dumps({**json.loads(text), **changes})


@pytest.mark.parametrize(
    "content",
    [
        manifest_with(variants={"fedavg": "../../../elsewhere"}),
        manifest_with(variants={"fedavg": ".."}),
        manifest_with(variants={"fedavg": "/elsewhere"}),
        manifest_with(variants={"fedavg": ""}),
        manifest_with(variants={"fedavg": "a\0b"}),
        manifest_with(variants={"fedavg": 3}),
        manifest_with(variants=["fedavg"]),
        manifest_with(seeds=["../../x"]),
        manifest_with(seeds=[True]),
        manifest_with(seeds=7),
        "[]",
        DEEP,
        NOT_UTF8,
    ],
)
def test_a_manifest_that_leads_elsewhere_or_makes_no_sense_is_refused(fedtrip, compared, tmp_path, content):
    shutil.copytree(compared, tmp_path / "cmp")
    file = tmp_path / "cmp/comparison.json"
    if callable(content):
        content = content(file.read_text())
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = fedtrip("report", tmp_path / "cmp", "--out", tmp_path / "page.html")
    assert ended.code == 2
    assert ended.err.startswith("error: ")
    assert "comparison.json" in ended.err
    assert len(ended.err.splitlines()) == 1
    again = fedtrip("compare", "--methods", "fedavg", "--trials", 1, "--resume", "--out", tmp_path / "cmp", "--quiet")
    assert again.code == 2


# ---- characters that a terminal obeys

EVIL = "a\x1b]0;owned\x07\x1b[31m\x9b2Jb\u202ec\rd"


def is_harmless(text):
    return all(c == "\n" or c.isprintable() for c in text)


def test_error_messages_hold_no_control_characters(fedtrip, here):
    (here / "evil.toml").write_text(f"dataset = {json.dumps(EVIL)}\n", encoding="utf-8")
    (here / "worse.toml").write_text(f"{json.dumps(EVIL)} = 1\n", encoding="utf-8")
    for arguments in (("run", "evil.toml"), ("run", "worse.toml"), ("run", "--model", EVIL), ("evaluate", EVIL),
                      ("report", EVIL), (EVIL,), ("run", f"--{EVIL}")):  # fmt: skip
        ended = fedtrip(*arguments)
        assert ended.code == 2
        assert is_harmless(ended.err), ended.err
        assert len(ended.err.splitlines()) == 1
        assert "\\x1b" in ended.err


def test_a_name_that_is_no_unicode_is_told_too(fedtrip, here):
    ended = fedtrip("report", here / "not-\udcff-there")
    assert ended.code == 2
    assert "not-\\udcff-there" in ended.err


def test_what_is_printed_and_shown_holds_no_control_characters(capsys):
    from fedtrip.api.progress import Live, refusals
    from fedtrip.cli.console import err, out, print_json

    record = RoundRecord(1, {}, (0,), 0, 0, 0, 0.1, refused={0: f"{EVIL}\nsecond line"})
    out.print(EVIL, markup=False)
    err.print(Text(EVIL))
    with Live(EVIL + "\nsecond line", 1) as live:
        live.advance(EVIL + "\nsecond line")
        live.warn(refusals(record))
    print_json({"name": EVIL})
    shown = capsys.readouterr()
    assert is_harmless(shown.out)
    assert is_harmless(shown.err)
    assert "\nsecond" not in shown.err
    assert json.loads(shown.out[shown.out.index("{") :]) == {"name": EVIL}


def test_reasons_of_refusals_are_one_harmless_line(monkeypatch):
    """A node may call its vectors what it likes."""
    from fedtrip.engines.serial import SerialEngine

    honest = SerialEngine.work

    def named_badly(self, jobs):
        from dataclasses import replace

        first, *others = honest(self, jobs)
        upload: Vectors = {**first.upload, f"{EVIL}\nx": first.upload["w"]}
        return iter([replace(first, upload=upload, remote=True), *others])

    monkeypatch.setattr(SerialEngine, "work", named_badly)
    result = run(Experiment(**SMALL), workers=1)
    reasons = [reason for record in result.records for reason in record.refused.values()]
    assert len(reasons) == 2
    assert all(is_harmless(reason) and "\n" not in reason for reason in reasons)
