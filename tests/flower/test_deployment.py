"""A federation of real processes, with TLS and node authentication: same bits, faults, and what is left of them."""

import json
import os

import pytest

import fedtrip
from fedtrip.runs.folder import read_records, read_summary

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from .deployment import Deployment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("flower"))
    try:
        made.start_superlink()
        for client in range(3):
            made.command("flwr", "supernode", "register", made.keys / f"node-{client + 1}.pub", "test")
            made.start_node(client)
        made.wait_until(lambda: made.online() == 3, every=2)
        yield made
    finally:
        made.close()


def on_this_machine(deployment, folder, faults, monkeypatch):
    """The same experiment without Flower; a client that did not answer there sends something useless here."""
    monkeypatch.syspath_prepend(deployment.app)
    from hospital.data import load, load_test

    reference = folder / "reference"
    reference.mkdir()
    (reference / "faults").write_text(json.dumps(dict.fromkeys(faults, "nan")))
    experiment = fedtrip.Experiment.from_toml(folder / "experiment.toml")
    options = {**experiment.method.options, "folder": str(reference)}
    experiment = experiment.but(dataset="digits", method={"name": experiment.method.name, **options}, partition="given")
    data = fedtrip.from_clients([load({"partition-id": client}) for client in range(3)], load_test({}))
    return fedtrip.run(experiment, data=data, workers=1)


def test_one_experiment_has_the_same_bits_on_one_machine_on_a_simulation_and_on_a_deployment(deployment):
    folder = deployment.folder / "everywhere"
    folder.mkdir()
    file = folder / "experiment.toml"
    file.write_text('clients = 3\nper_round = 3\nrounds = 2\nsamples_per_client = 100\n[method]\nname = "feddane"\n')
    run = deployment.submit(folder)
    for engine in ("local", "flower-simulation"):
        deployment.command("fedtrip", "run", file, "--engine", engine, "--quiet", "--out", folder / engine)
    assert deployment.wait_for_end(run) == "finished:completed", deployment.log_of(run)
    digests = {read_summary(folder / engine)["model_sha256"] for engine in ("out", "local", "flower-simulation")}
    assert len(digests) == 1


def test_useless_uploads_errors_and_slow_clients_are_left_out_and_recorded(deployment, monkeypatch):
    faults = {"0 2": "nan", "1 2": "type", "0 3": "error", "1 3": "shape", "2 4": "wait"}
    folder = deployment.work("faults", faults, rounds=4)
    run = deployment.submit(folder, round_timeout=75)
    assert deployment.wait_for_end(run) == "finished:completed", deployment.log_of(run)
    records = read_records(folder / "out")
    refused = {(record.round, client): why for record in records for client, why in record.refused.items()}
    for key, told in {
        (2, 0): "'w' is not finite",
        (2, 1): "'w' is of type float64",
        (3, 0): "on purpose, 0 3",
        (3, 1): "'w' has",
        (4, 2): "no answer within 75 s",
    }.items():
        assert told in refused.pop(key)
    assert not refused
    log = deployment.log_of(run)
    node = next(line for line in log.splitlines() if "is client 0 with" in line).split("node ")[1].split()[0]
    assert f"client 0 on node {node}: error" in log
    assert read_summary(folder / "out")["model_sha256"] == (
        on_this_machine(deployment, folder, faults, monkeypatch).model_sha256
    )
    for record in records:
        assert record.bytes_down < record.wire_down < 1.1 * record.bytes_down
        assert record.wire_up > 0

    # each client's work was done below its own SuperNode, and nowhere else
    lines = [json.loads(line) for line in (folder / "processes").read_text().splitlines()]
    assert {line["client"] for line in lines} == {0, 1, 2}
    for line in lines:
        above = [name for name, process in deployment.processes.items() if process.pid in line["processes"]]
        assert above == [f"node-{line['client']}"]
        assert os.getpid() in line["processes"]
    (folder / "go").touch()


def test_a_node_without_the_native_library_refuses_and_says_why(deployment, monkeypatch):
    """It would give other bits: the run goes on without it, and the record says what the node lacks."""
    deployment.stop("node-2")
    deployment.start_node(2, FEDTRIP_NATIVE="off")
    deployment.wait_until(lambda: deployment.online() == 3, every=2)
    folder = deployment.work("without-library", {}, rounds=2)
    run = deployment.submit(folder)
    assert deployment.wait_for_end(run) == "finished:completed", deployment.log_of(run)
    refused = [record.refused for record in read_records(folder / "out")]
    assert [list(some) for some in refused] == [[2], [2]]
    for some in refused:
        assert some[2].startswith("its node is not connected; node ")
        assert "cannot take part: " in some[2]
        assert "compute is 'native', which cannot be here: the native library is missing" in some[2]
    expected = on_this_machine(deployment, folder, {"2 1", "2 2"}, monkeypatch)
    assert read_summary(folder / "out")["model_sha256"] == expected.model_sha256
    deployment.stop("node-2")
    deployment.start_node(2)
    deployment.wait_until(lambda: deployment.online() == 3, every=2)


def test_a_killed_node_is_left_out_and_rejoins_with_its_memory(deployment, monkeypatch):
    faults = {"2 2": "wait", "0 3": "wait"}
    folder = deployment.work("killed-node", faults, rounds=4)
    run = deployment.submit(folder)
    deployment.wait_until((folder / "waiting 2 2").exists)
    deployment.kill("node-2")
    deployment.wait_until((folder / "waiting 0 3").exists)  # the round was closed without it, the next one has begun
    assert "client 2 on node" in deployment.log_of(run)
    memory = deployment.folder / "memory-2" / (folder / "out" / "checkpoint" / "run-key").read_text()
    assert [path.name for path in memory.iterdir()] == ["2-1-0.safetensors"]
    deployment.start_node(2)
    deployment.wait_until(lambda: deployment.online() == 3, every=2)
    (folder / "go").touch()
    assert deployment.wait_for_end(run) == "finished:completed", deployment.log_of(run)
    records = read_records(folder / "out")
    assert [list(record.refused) for record in records] == [[], [2], [2], []]
    expected = on_this_machine(deployment, folder, {"2 2", "2 3"}, monkeypatch)
    assert read_summary(folder / "out")["model_sha256"] == expected.model_sha256
    assert not memory.exists()  # forgotten when the run was finished


def test_too_few_clients_end_a_run_that_goes_on_later_and_survives_its_superlink(deployment, monkeypatch):
    folder = deployment.work("resumed", {"1 2": "error", "0 3": "wait"}, rounds=4)
    run = deployment.submit(folder, min_clients=3)
    assert deployment.wait_for_end(run) == "finished:failed"
    log = deployment.log_of(run)
    assert log.count("2 of 3 clients sent a usable upload, min-clients is 3") >= 3
    assert len(read_records(folder / "out")) == 1

    (folder / "faults").write_text(json.dumps({"0 3": "wait"}))
    deployment.submit(folder, min_clients=3)
    deployment.wait_until((folder / "waiting 0 3").exists)
    deployment.kill("superlink")
    (folder / "go").touch()
    deployment.start_superlink()
    deployment.wait_until(lambda: deployment.online() == 3, every=2)
    run = deployment.submit(folder, min_clients=3)
    assert deployment.wait_for_end(run) == "finished:completed", deployment.log_of(run)
    records = read_records(folder / "out")
    assert [record.round for record in records] == [1, 2, 3, 4]
    assert not any(record.refused for record in records)
    expected = on_this_machine(deployment, folder, {}, monkeypatch)
    assert read_summary(folder / "out")["model_sha256"] == expected.model_sha256


def test_an_unregistered_node_is_turned_away(deployment):
    deployment.start_node(3)
    log = deployment.folder / "node-3.log"
    deployment.wait_until(lambda: deployment.processes["node-3"].poll() is not None or "failed" in log.read_text())
    assert "SuperNode ID" not in log.read_text()
    assert deployment.online() == 3
