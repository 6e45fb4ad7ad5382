"""A real federation on loopback: a SuperLink with TLS and node authentication, SuperNodes, and a Flower app whose
clients do what a file tells them. Everything is a process of its own; nothing is left when it is closed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
LONGEST = 480
"""Seconds after which something that was waited for is taken to have failed."""

FAULTY = '''
"""FedTrip whose clients do what FAULTS (a JSON file) says: {"CLIENT ROUND": "what"}."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from fedtrip.methods.interface import Reply
from fedtrip.methods.fedtrip import FedTrip


@dataclass(frozen=True)
class Faulty(FedTrip):
    folder: str = ""

    def client(self, received, memory, local):
        folder = Path(self.folder)
        client = local._job.client
        key = f"{client} {local.round}"
        with (folder / "processes").open("a") as file:
            file.write(json.dumps({"client": client, "round": local.round, "processes": ancestors()}) + "\\n")
        fault = json.loads((folder / "faults").read_text()).get(key)
        if fault == "error":
            raise ValueError(f"on purpose, {key}")
        if fault == "wait":
            (folder / f"waiting {key}").touch()
            while not (folder / "go").exists():
                time.sleep(0.1)
        reply = super().client(received, memory, local)
        change = {
            "nan": lambda w: w * torch.nan,
            "shape": lambda w: w[1:].clone(),
            "type": lambda w: w.to(torch.float64),
        }.get(fault, lambda w: w)
        return Reply({**reply.upload, "w": change(reply.upload["w"])}, reply.keep)


def ancestors():
    """This process, its parent, and so on."""
    found, pid = [], os.getpid()
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found
'''


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Deployment:
    """The SuperLink and three SuperNodes of the app `hospital`."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.environment = {
            **os.environ,
            **OFFLINE,
            "FLWR_HOME": str(folder / "flwr"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        self.processes = {}
        self.node_ports = {}
        self.keys, self.app = folder / "keys", folder / "hospital"
        self.command(sys.executable, "-m", "fedtrip.flower.credentials", self.keys, "--nodes", 4)
        self.command("fedtrip", "new-app", "hospital")
        (self.app / "hospital" / "faulty.py").write_text(FAULTY)
        data = self.app / "hospital" / "data.py"
        data.write_text(data.read_text().replace("CLIENTS = 2", "CLIENTS = 3"))
        (folder / "flwr").mkdir()
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink.test]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{self.keys}/ca.crt"\n'
        )

    def command(self, *arguments, check=True):
        """Run a command of this environment to its end."""
        ended = subprocess.run(
            list(map(str, arguments)), cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=LONGEST, check=False,
        )  # fmt: skip
        assert not check or ended.returncode == 0, f"{arguments}\n{ended.stdout}\n{ended.stderr}"
        return ended

    def start(self, name, *arguments, **environment):
        """Start a process that runs until it is killed; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                list(map(str, arguments)), cwd=self.folder, env={**self.environment, **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def start_superlink(self):
        self.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", self.port,
            "--ssl-ca-certfile", self.keys / "ca.crt", "--ssl-certfile", self.keys / "server.pem",
            "--ssl-keyfile", self.keys / "server.key", "--enable-supernode-auth",
            "--database", self.folder / "superlink.db", "--disable-runtime-dependency-installation",
        )  # fmt: skip
        self.wait_until(lambda: self.command("flwr", "supernode", "list", "test", check=False).returncode == 0)

    def start_node(self, client, **environment):
        port = self.node_ports.setdefault(client, free_port())
        self.start(
            f"node-{client}", "flower-supernode", "--superlink", f"127.0.0.1:{self.port}",
            "--root-certificates", self.keys / "ca.crt",
            "--auth-supernode-private-key", self.keys / f"node-{client + 1}",
            "--port", port, "--node-config",
            f'partition-id={client} data="hospital.data:load" memory-dir="{self.folder}/memory-{client}"',
            **environment,
        )  # fmt: skip

    def online(self):
        """How many nodes the SuperLink has."""
        listed = self.command("flwr", "supernode", "list", "test", "--format", "json", check=False)
        return sum(node["status"] == "online" for node in json.loads(listed.stdout)["nodes"]) if listed.stdout else 0

    def kill(self, name):
        """kill -9 of the process itself, as the system's out-of-memory killer would."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def stop(self, name):
        """End a process and all that it started."""
        process = self.processes.pop(name)
        for kind in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, kind)
            except ProcessLookupError:
                break
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                continue
            time.sleep(0.5)
        process.wait()

    def close(self):
        for name in list(self.processes):
            self.stop(name)

    def work(self, name, faults, **experiment):
        """The folder of a run: its experiment file, and what its clients shall do."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "faults").write_text(json.dumps(faults))
        fields = {
            "dataset": '"nodes"', "clients": 3, "per_round": 3, "mean": "[0.0]", "std": "[1.0]", "rounds": 3,
            "batch_size": 50, **experiment,
        }  # fmt: skip
        text = "".join(f"{field} = {value}\n" for field, value in fields.items())
        (folder / "experiment.toml").write_text(
            f'{text}\n[method]\nname = "hospital.faulty:Faulty"\nfolder = "{folder}"\n'
        )
        return folder

    def submit(self, folder, **config):
        """`flwr run`; returns the run's number. The run folder is `out` in this one."""
        settings = {"experiment": f'"{folder}/experiment.toml"', "out": f'"{folder}/out"', **config}
        text = " ".join(f"{name.replace('_', '-')}={value}" for name, value in settings.items())
        told = self.command("flwr", "run", self.app, "test", "--run-config", text, "--format", "json")
        return json.loads(told.stdout)["run-id"]

    def ended(self, run):
        """How a run ended, or None if it goes on."""
        listed = json.loads(self.command("flwr", "list", "test", "--run-id", run, "--format", "json").stdout)
        status = listed["runs"][0]["status"]
        return status if status.startswith("finished") else None

    def wait_for_end(self, run):
        self.wait_until(lambda: self.ended(run) is not None, every=2)  # each look is a process
        return self.ended(run)

    def log_of(self, run):
        """What the run's server wrote."""
        return self.command("flwr", "log", run, "test", "--show").stdout

    def wait_until(self, condition, every=0.3):
        deadline = time.monotonic() + LONGEST
        while not condition():
            assert time.monotonic() < deadline, "waited too long; " + self.last_words()
            time.sleep(every)

    def last_words(self):
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)
