"""docs/deploy.md, run as it is written: from nothing to a federation of two nodes."""

import os
import signal
from contextlib import suppress

import pytest

from fedtrip.runs.folder import read_records, read_summary
from test_docs import ROOT, blocks_to_run, run_blocks

from .deployment import OFFLINE, free_port

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")


@pytest.mark.slow
def test_the_page_leads_to_a_finished_run(tmp_path, monkeypatch):
    ports = {name: str(free_port()) for name in ("PORT", "NODE_PORT_0", "NODE_PORT_1")}
    for name, value in (OFFLINE | ports).items():
        monkeypatch.setenv(name, value)
    try:
        ended = run_blocks(blocks_to_run(ROOT / "docs" / "deploy.md"), tmp_path)
    finally:
        for file in (tmp_path / "work").glob("*.pid"):  # those that the page did not come to stop
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGTERM)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    result = tmp_path / "work" / "result"
    assert not any(record.refused for record in read_records(result))
    assert f"model {read_summary(result)['model_sha256']} in" in ended.stdout
    assert "node " in ended.stdout
