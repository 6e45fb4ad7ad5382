"""A robust rule holds for a module's own statistics too: one client's huge BatchNorm buffers move nothing."""

from dataclasses import replace

import pytest
import torch
from tests.reference.setting import normalised

from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state

HUGE = {"w": 1e30, "buffers": 1e30, "counters": 2**60}


class OneLies(SerialEngine):
    """Client 2 sends numbers that are finite and huge; what the others sent is kept."""

    def work(self, jobs):
        self.honest = []
        for outcome in super().work(jobs):
            if outcome.client == 2:
                upload = {name: torch.full_like(v, HUGE[name]) for name, v in outcome.upload.items()}
                outcome = replace(outcome, upload=upload)
            else:
                self.honest.append(outcome.upload)
            yield outcome


def after_a_round(combine, method):
    setting = normalised(per_round=5)
    experiment = setting.experiment(method).but(combine=combine)
    federation = prepare(experiment, model=setting.module, data=setting.data)
    engine, state = OneLies(federation), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        return engine, state.server.model, one_round(federation, engine, state).server.model


@pytest.mark.parametrize(
    ("combine", "method"),
    [
        *((rule, method) for rule in ("median", "trimmed:0.2", "mean") for method in ("fedavg", "fedtrip", "slowmo")),
        ("krum:1", "fedavg"),
        ("multikrum:1", "fedavg"),
    ],
)
def test_one_client_cannot_move_the_statistics(combine, method):
    engine, _, after = after_a_round(combine, method)
    for name in ("buffers", "counters"):
        sent = torch.stack([upload[name] for upload in engine.honest])
        inside = bool(((sent.amin(0) <= after[name]) & (after[name] <= sent.amax(0))).all())
        assert inside == (combine != "mean"), name
    assert bool((after["w"].abs() < 10).all()) == (combine != "mean")


@pytest.mark.parametrize("combine", ["clip:0.5", "centered:0.5"])
def test_clipped_no_vector_moves_by_more_than_c(combine):
    engine, before, after = after_a_round(combine, "fedavg")
    for name in ("w", "buffers"):
        moved = (after[name].double() - before[name].double()).norm()
        assert 0 < moved < 0.5 + 1e-6, name
    sent = torch.stack([upload["counters"] for upload in engine.honest])
    assert bool(((sent.amin(0) <= after["counters"]) & (after["counters"] <= sent.amax(0))).all())
