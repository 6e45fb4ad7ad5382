"""`fedtrip compare` through the real entry point."""

import json
import sys

import pytest

from fedtrip.runs.folder import read_summary

SMALL = (
    "--rounds",
    3,
    "--clients",
    4,
    "--per-round",
    2,
    "--samples-per-client",
    30,
    "--batch-size",
    10,
    "--target",
    0.2,
)


def test_a_table_of_at_most_80_columns(fedtrip, here):
    ended = fedtrip(
        "compare", *SMALL, "--methods", "fedtrip, fedavg,slowmo", "--trials", 2, "--set", "fedtrip.mu=0.1,0.4",
        "--workers", 1, "--out", "cmp",
    )  # fmt: skip
    assert ended.code == 0
    *table, _, _, _, _ = ended.out.rstrip().splitlines()  # the last four are paths, of any length
    assert max(map(len, table)) <= 80
    for part in ("digits, mlp, dirichlet:0.5, 2 trials", "mu=0.1", "mu=0.4", "fedavg", "slowmo", "to 20%", "[95 %]"):
        assert part in ended.out
    assert ended.out.rstrip().endswith(str(here / "cmp/report.html"))
    assert "4 variants × 2 trials: 24/24" in ended.err
    assert {path.name for path in (here / "cmp/runs").iterdir()} == {
        "fedtrip_mu=0.1", "fedtrip_mu=0.4", "fedavg", "slowmo"
    }  # fmt: skip


def test_json_is_the_table(fedtrip, here):
    ended = fedtrip(
        "compare", *SMALL, "--methods", "fedavg,fedprox", "--trials", 1, "--workers", 1, "--json", "-q", "--seed", 5,
        "--set", "lr=0.1,0.2",
    )  # fmt: skip
    printed = json.loads(ended.out)
    assert ended.err == ""
    assert printed["out"] == str(here / "runs/compare-mlp-digits")
    assert printed["rows"] == json.loads((here / "runs/compare-mlp-digits/table.json").read_text())
    assert [row["variant"] for row in printed["rows"]] == [
        "fedavg lr=0.1", "fedavg lr=0.2", "fedprox lr=0.1", "fedprox lr=0.2"
    ]  # fmt: skip
    assert (here / "runs/compare-mlp-digits/runs/fedavg_lr=0.1/5/summary.json").is_file()
    assert all(row["rounds"]["std"] is None for row in printed["rows"])


def test_the_default_are_the_papers_six_and_our_rules_for_fedtrip(fedtrip):
    ended = fedtrip("compare", *SMALL, "--rounds", 1, "--trials", 1, "--workers", 1, "-q", "--json")
    assert [row["method"] for row in json.loads(ended.out)["rows"]] == [
        "fedtrip", "fedtrip-auto", "fedavg", "fedprox", "slowmo", "moon", "feddyn"
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(here):
    return here


def test_runs_that_never_got_there_are_marked(fedtrip):
    ended = fedtrip(
        "compare", *SMALL, "--target", 1.0, "--methods", "fedtrip,fedavg", "--trials", 2, "--workers", 1, "-q"
    )
    assert ended.code == 0
    assert ended.out.count(">3.0±0.0") == 2
    assert ended.out.count("0/2") == 2
    assert "×" not in ended.out, "nothing was measured where neither got there"


def test_a_diverged_run_is_told_and_counted(fedtrip):
    ended = fedtrip(
        "compare", *SMALL, "--target", 1.0, "--rounds", 40, "--local-epochs", 5, "--methods", "fedtrip", "--trials", 1,
        "--workers", 1, "-q", "--set", "fedtrip.mu=500",
    )  # fmt: skip
    assert "ended early: fedtrip mu=500, seed 0: round" in ended.err
    assert ">40.0" in ended.out


def test_a_method_of_ones_own_beside_fedavg_on_two_workers(fedtrip, here, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (here / "compared_method.py").write_text(
        "from dataclasses import dataclass\nimport fedtrip\n\n@dataclass(frozen=True)\nclass Pull(fedtrip.Method):\n"
        "    strength: float = 0.1\n\n    def client(self, received, memory, local):\n"
        "        pull = fedtrip.Affine(self.strength, -self.strength * received['w'])\n"
        "        return fedtrip.Reply(upload=local.train(received, pull))\n"
    )
    name = "compared_method:Pull"
    shas = []
    for workers in (1, 2):
        ended = fedtrip(
            "compare", *SMALL, "--methods", f"{name},fedprox", "--trials", 2, "--workers", workers, "-q",
            "--set", f"{name}.strength=0.1,0.3", "--set", "fedprox.mu=0.3", "--out", f"cmp{workers}",
        )  # fmt: skip
        assert ended.code == 0, ended.err
        folders = sorted((here / f"cmp{workers}/runs").iterdir())
        assert [path.name for path in folders] == [
            "compared_method_Pull_strength=0.1", "compared_method_Pull_strength=0.3", "fedprox"
        ]  # fmt: skip
        shas.append([read_summary(path / "1")["model_sha256"] for path in folders])
    assert shas[0] == shas[1]
    assert shas[0][1] == shas[0][2] != shas[0][0]
    sys.modules.pop("compared_method")


def test_overwrite(fedtrip):
    options = ("compare", *SMALL, "--methods", "fedavg", "--trials", 1, "--workers", 1, "-q", "--out", "cmp")
    assert fedtrip(*options).code == 0
    refused = fedtrip(*options)
    assert refused.code == 2
    assert "holds a comparison already; accepted: another folder" in refused.err
    assert fedtrip(*options, "--overwrite").code == 0
    assert "holds no run" in fedtrip("run", "--out", "cmp", "--overwrite").err
