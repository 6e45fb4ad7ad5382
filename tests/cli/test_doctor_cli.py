"""`fedtrip doctor` tells what is here, and ends with 1 where something is wrong."""

import importlib
import json

import pytest

import fedtrip as package


def test_it_shows_versions_cores_data_and_extras(fedtrip, monkeypatch):
    monkeypatch.delenv("FEDTRIP_DATA", raising=False)
    ended = fedtrip("doctor")
    assert ended.code == 0
    for expected in (f"fedtrip {package.__version__}", "torch", "cores", "digits", "tsne", "tensorboard"):
        assert expected in ended.out
    assert "no problem found" in ended.out


def test_as_json(fedtrip, monkeypatch):
    monkeypatch.delenv("FEDTRIP_DATA", raising=False)
    found = json.loads(fedtrip("doctor", "--json").out)
    assert found["problems"] == []
    assert found["computing"]["workers"] >= 1
    assert found["packages"]["torch"]
    assert set(found["extras"]) == {"tensorboard", "flower", "ray", "tsne", "lora", "docs"}


def test_the_native_library_is_shown_with_its_kernels(fedtrip):
    from fedtrip.native.library import KERNELS

    found = json.loads(fedtrip("doctor", "--json").out)
    assert found["native"]["kernels"] in KERNELS
    assert found["native"]["missing"] is None
    assert f"native library  {found['native']['kernels']} kernels" in fedtrip("doctor").out


@pytest.mark.usefixtures("fresh_library")
def test_why_there_is_no_native_library_is_shown(fedtrip, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.delenv("FEDTRIP_NATIVE", raising=False)
    optional = fedtrip("doctor")
    assert optional.code == 0
    assert "native library  none: there is no none.so" in optional.out
    monkeypatch.setenv("FEDTRIP_NATIVE", "required")
    required = fedtrip("doctor")
    assert required.code == 1
    assert "problem: FEDTRIP_NATIVE is 'required', but the native library is missing" in required.out


@pytest.mark.usefixtures("here", "fresh_library")
def test_a_run_without_the_library_says_so_once(fedtrip, monkeypatch):
    from fedtrip.api import progress

    monkeypatch.setenv("FEDTRIP_NATIVE_LIBRARY", "none.so")
    monkeypatch.delenv("FEDTRIP_NATIVE", raising=False)
    progress._say_if_without_library.cache_clear()
    small = ("--rounds", 1, "--samples-per-client", 20, "--workers", 1)
    told = fedtrip("run", *small, "--out", "first")
    assert told.code == 0, told.err
    (line,) = [line for line in told.err.splitlines() if "native library" in line]
    assert line.startswith("note: without the native library, torch computes: there is no none.so")
    assert "native library" not in fedtrip("run", *small, "--out", "second").err  # once a process
    for wish in (("--quiet",), ()):
        progress._say_if_without_library.cache_clear()
        if not wish:
            monkeypatch.setenv("FEDTRIP_NATIVE", "off")
        assert "native library" not in fedtrip("run", *small, *wish, "--out", "third", "--overwrite").err


def test_data_found_are_shown_with_their_place(fedtrip, tmp_path, monkeypatch):
    from fedtrip.data.catalog import KNOWN_SETS

    known = KNOWN_SETS["mnist"]
    folder = tmp_path / known.folder
    folder.mkdir(parents=True)
    for file in known.files:
        (folder / file.name).touch()
    monkeypatch.setenv("FEDTRIP_DATA", str(tmp_path))
    found = json.loads(fedtrip("doctor", "--json").out)
    assert found["data"]["mnist"] == str(folder)


def test_what_is_missing_or_wrong_is_a_problem(fedtrip, monkeypatch):
    doctor = importlib.import_module("fedtrip.cli.doctor")  # the package has the command under this name
    monkeypatch.setenv("FEDTRIP_DATA", "nowhere")
    monkeypatch.setattr(doctor, "NEEDED", (*doctor.NEEDED, "no-such-package"))
    ended = fedtrip("doctor")
    assert ended.code == 1
    assert "FEDTRIP_DATA is 'nowhere'" in ended.out
    assert "no-such-package is not installed" in ended.out


def test_doctor_says_that_no_gpu_was_tried(fedtrip):
    shown = " ".join(fedtrip("doctor").out.split())
    assert "(untested: no GPU was at hand); computing is on the CPU unless --device says otherwise" in shown
