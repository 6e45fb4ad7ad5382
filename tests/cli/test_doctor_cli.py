"""`fedtrip doctor` tells what is here, and ends with 1 where something is wrong."""

import importlib
import json

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
    assert set(found["extras"]) == {"tensorboard", "flower", "ray", "tsne", "docs"}


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
