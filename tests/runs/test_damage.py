"""A stored run whose files are not what the run wrote: every reader says so in one line."""

import json
import random
import re

import pytest
from test_checkpoint import SMALL, Stopped, stopping_after

import fedtrip as package
from fedtrip import Experiment, UserError

FILES = ("experiment.toml", "metrics.jsonl", "model.safetensors", "summary.json")
ARGUMENTS = ("--rounds", 2, "--clients", 3, "--per-round", 2, "--samples-per-client", 20, "--workers", 1, "-q")


@pytest.fixture
def finished(blobs, tmp_path):
    """A finished run, and what it is called again with."""
    experiment = Experiment(**SMALL, method="fedtrip")
    package.run(experiment, data=blobs, out=tmp_path / "run", workers=1)
    return tmp_path / "run", experiment


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def better(run):
    """An accuracy that nobody reached, in a line that is well made."""
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["scores"]["accuracy"] = 0.999
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def says_the_same(one, other):
    """Whether two texts are the same JSON."""
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_of_a_finished_run_is_refused(name, finished, blobs):
    run, experiment = finished
    whole = (run / name).read_bytes()
    bits = random.Random(name).sample(range(8 * len(whole)), 58)
    for bit in bits:
        flip(run / name, bit)
        if name == "summary.json" and says_the_same((run / name).read_bytes(), whole):  # 1e-05 and 1E-05 are one number
            continue
        for read in (
            lambda: package.load_result(run, data=blobs),
            lambda: package.load(run, data=blobs),
            lambda: package.evaluate(run, data=blobs),
            lambda: package.run(experiment, data=blobs, out=run, resume=True, workers=1),
        ):
            with pytest.raises(UserError) as refused:
                read()
            assert "\n" not in str(refused.value)
        (run / name).write_bytes(whole)
    package.load_result(run)


@pytest.mark.parametrize("how", ["edited", "shorter", "longer", "experiment"])
def test_what_is_well_made_but_not_what_was_written_is_refused(how, finished, blobs):
    run, _ = finished
    if how == "edited":
        better(run)
    elif how == "experiment":
        path = run / "experiment.toml"
        path.write_text(re.sub(r"(?m)^rounds = 4$", "rounds = 5", path.read_text()))
    else:
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[:-1] if how == "shorter" else [*lines, lines[-1]]))
    name = "experiment.toml" if how == "experiment" else "metrics.jsonl"
    with pytest.raises(UserError, match=rf"{name}' is damaged: its SHA-256 is \w{{64}}, summary.json says \w{{64}}; "):
        package.load_result(run, data=blobs)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("damage", ["model", "records"])
def test_every_command_ends_with_one_line_and_code_2(damage, fedtrip, here, listing):
    assert fedtrip("run", *ARGUMENTS, "--out", "mine").code == 0
    comparison = ("compare", *ARGUMENTS, "--methods", "fedtrip,fedavg", "--trials", 1, "--out", "cmp")
    assert fedtrip(*comparison).code == 0
    for run in (here / "mine", here / "cmp/runs/fedtrip/0"):
        if damage == "model":
            flip(run / "model.safetensors", 8 * (run / "model.safetensors").stat().st_size - 20)
        else:
            better(run)
    before = listing(here)
    for command in (
        ("evaluate", "mine"),
        ("report", "mine"),
        ("report", "cmp"),
        ("run", "--resume", "mine", "-q"),
        (*comparison, "--resume"),
    ):
        ended = fedtrip(*command)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), command
        assert "' is damaged: " in ended.err
    assert listing(here) == before


def test_a_summary_of_an_earlier_version_vouches_for_the_model_alone(finished, blobs):
    run, _ = finished
    summary = json.loads((run / "summary.json").read_text())
    del summary["files_sha256"], summary["summary_sha256"]
    (run / "summary.json").write_text(json.dumps(summary))
    better(run)
    assert package.load_result(run, data=blobs).records[1].accuracy == 0.999
    flip(run / "model.safetensors", 8 * (run / "model.safetensors").stat().st_size - 20)
    with pytest.raises(UserError, match=r"model.safetensors' is damaged: the SHA-256 of the model is \w{64}, summary"):
        package.load_result(run, data=blobs)


@pytest.mark.parametrize("line", [0, 1])
def test_an_edited_record_of_an_unfinished_run_is_refused(line, blobs, tmp_path, listing):
    run, experiment = tmp_path / "run", Experiment(**SMALL)
    with pytest.raises(Stopped):
        package.run(experiment, data=blobs, out=run, workers=1, on_round=stopping_after(2))
    whole = (run / "metrics.jsonl").read_text()
    lines = [json.loads(text) for text in whole.splitlines()]
    lines[line]["scores"]["accuracy"] = 0.999
    (run / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    before = listing(run)
    with pytest.raises(UserError, match=r"metrics.jsonl' is damaged: the SHA-256 of its first 2 lines is \w{64}, "):
        package.run(experiment, data=blobs, out=run, resume=True, workers=1)
    assert listing(run) == before
    (run / "metrics.jsonl").write_text(whole + '{"round": 3, "half a li')  # beyond the checkpoint: done again
    again = package.run(experiment, data=blobs, out=run, resume=True, workers=1)
    assert again.model_sha256 == package.run(experiment, data=blobs, workers=1).model_sha256


def test_a_stale_memory_of_a_client_is_refused_by_name(blobs, tmp_path, listing):
    """Client 1 took part in rounds 1 and 2; what it kept of round 2 is gone, what it kept of round 1 is there."""
    experiment = Experiment(**SMALL, method="fedtrip")
    for last in (1, 2):
        with pytest.raises(Stopped):
            package.run(experiment, data=blobs, out=tmp_path / str(last), workers=1, on_round=stopping_after(last))
    earlier, later = (tmp_path / f"{last}/checkpoint/clients/1-{last}.safetensors" for last in (1, 2))
    (later.parent / earlier.name).write_bytes(earlier.read_bytes())
    later.rename(tmp_path / "kept")
    before = listing(tmp_path / "2")
    with pytest.raises(UserError, match=r"the memory of client 1, '.*/2/checkpoint/clients/1-2\.safetensors', is gone"):
        package.run(experiment, data=blobs, out=tmp_path / "2", resume=True, workers=1)
    assert listing(tmp_path / "2") == before
    (tmp_path / "kept").rename(later)
    again = package.run(experiment, data=blobs, out=tmp_path / "2", resume=True, workers=1)
    assert again.model_sha256 == package.run(experiment, data=blobs, workers=1).model_sha256
