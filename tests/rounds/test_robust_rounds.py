"""Robust rules in runs: too few uploads for a rule change nothing and are told by its name; its state is kept."""

from dataclasses import replace

import pytest
import torch
from tests.reference.setting import Setting
from tests.reference.watching import advance

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.methods.interface import Memory
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import TooFewClients, initial_state


def federation(combine, method="fedtrip", **fields):
    setting = Setting(per_round=5, rounds=8, momentum=0.9)
    described = setting.experiment(method).but(combine=combine, **fields)
    return prepare(described, model=setting.module, data=setting.data)


@pytest.mark.parametrize("attack", ["dropout:0.15", "corrupt:0.15"])
@pytest.mark.parametrize("method", ["fedtrip", "feddane"])
def test_a_round_with_too_few_uploads_for_the_rule_changes_nothing_and_says_so(attack, method):
    made = federation("krum:1", method, attack=attack)
    state, kinds = initial_state(made, ClientStore()), set()
    with torch.random.fork_rng(devices=[]):
        for _ in range(8):
            before, memories = state.server.w, {k: state.memories.get(k).last_round for k in range(5)}
            record = advance(made, SerialEngine(made), state)
            fell_out = [why for why in record.refused.values() if "combine" not in why]
            usable = 5 - len(record.dropped) - len(fell_out)
            kinds.add(0 < usable < 5)
            assert record.unchanged == (usable < 5)
            assert state.server.w.equal(before) == record.unchanged
            left_out = [why for why in record.refused.values() if "combine" in why]
            told = f"combine 'krum:1' needs 5 uploads in a round; usable: {usable}"
            assert left_out == [told] * (usable if record.unchanged else 0)
            after = {k: state.memories.get(k).last_round for k in range(5)}
            assert (after == memories) == record.unchanged
    assert kinds == {True, False}


def test_the_run_goes_on_after_such_a_round():
    setting = Setting(per_round=5, rounds=8)
    result = fedtrip.run(
        setting.experiment("fedavg").but(combine="krum:1", attack="dropout:0.1"),
        model=setting.module, data=setting.data, workers=1,
    )  # fmt: skip
    assert result.ended is None
    assert 0 < sum(record.unchanged for record in result.records) < 8


class Away(SerialEngine):
    """Client 0 cannot be reached."""

    def work(self, jobs):
        for outcome in super().work(jobs):
            if outcome.client == 0:
                outcome = replace(outcome, samples=0, upload={}, memory=Memory(), problem="no answer")
            yield outcome


def test_where_a_client_is_away_the_round_is_one_that_too_few_answered():
    made = federation("krum:1")
    with (
        torch.random.fork_rng(devices=[]),
        pytest.raises(TooFewClients, match=r"combine 'krum:1' needs 5 .* usable: 4"),
    ):
        one_round(made, Away(made), initial_state(made, ClientStore()), min_clients=1)


@pytest.mark.parametrize(
    ("combine", "further"),
    [("median", 0), ("clip", 5), ("krum:1", 10), ("multikrum:1", 10), ("centered:1:2", 15), ("geometric:4", 45)],
)
def test_what_a_rule_costs_is_counted(combine, further):
    """For each number of w: ‖Δ‖² of 5 clients; 5·4/2 distances; 2 norms and 1 sum more; 5 norms and 4 sums."""
    made, plain = federation(combine), federation("mean")
    with torch.random.fork_rng(devices=[]):
        macs = [
            one_round(one, SerialEngine(one), initial_state(one, ClientStore())).record.macs for one in (made, plain)
        ]
    assert macs[0] - macs[1] == further * sum(p.numel() for p in made.module.parameters())


def test_too_few_clients_are_refused_before_anything_is_computed():
    with pytest.raises(fedtrip.UserError, match="per_round is 5, but combine 'krum:2' needs 7"):
        federation("krum:2")
    with pytest.raises(fedtrip.UserError, match="per_round is 4, but combine 'krum:1' needs 5"):
        fedtrip.run(fedtrip.Experiment(combine="krum"), workers=1)  # the default of per_round


def test_an_upload_that_is_not_finite_is_refused_before_the_rule_sees_it():
    setting = Setting(per_round=5, rounds=3)
    for combine in ("geometric", "clip", "centered", "krum:0", "multikrum:0"):
        result = fedtrip.run(
            setting.experiment("fedavg").but(combine=combine, attack="corrupt:0.2"),
            model=setting.module, data=setting.data, workers=1,
        )  # fmt: skip
        assert any(record.refused for record in result.records)
        assert all(bool(vector.isfinite().all()) for vector in result.state.values())


def test_the_centres_of_centered_clipping_are_in_the_checkpoint(tmp_path):
    setting = Setting(per_round=5, rounds=4, lr=0.3)
    described = setting.experiment("fedavg").but(combine="centered:0.05")

    def run(described=described, **options):
        return fedtrip.run(described, model=setting.module, data=setting.data, **{"workers": 1, **options})

    class Killed(Exception):
        pass

    def kill(record):
        if record.round == 2:
            raise Killed

    whole = run()
    assert run(workers=2).model_sha256 == whole.model_sha256
    with pytest.raises(Killed):
        run(out=tmp_path / "run", on_round=kill)
    assert run(out=tmp_path / "run", resume=True).model_sha256 == whole.model_sha256
    assert run(described.but(combine="clip:0.05")).model_sha256 != whole.model_sha256  # what it is without centres
