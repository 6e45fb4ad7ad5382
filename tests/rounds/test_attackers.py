"""Attacks in runs: what the server gets, whom it comes from, what is kept, and the same bits everywhere."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.reference.setting import Setting, normalised
from tests.reference.watching import advance

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.families import ATTACK
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state

ATTACKS = ["signflip", "labelflip", "gaussian", "alie", "ipm"]
SMALL = {"clients": 6, "per_round": 4, "samples_per_client": 20, "batch_size": 10, "rounds": 3, "seed": 2}


class Watching(SerialEngine):
    """Keeps what the clients computed, before anybody lies."""

    def work(self, jobs):
        self.computed = {}
        for outcome in super().work(jobs):
            self.computed[outcome.client] = {name: vector.clone() for name, vector in outcome.upload.items()}
            yield outcome


def round_of(attack, method="fedavg", setting=None, **fields):
    """One round of five clients, two of which attack."""
    setting = setting or Setting(per_round=5, rounds=3, momentum=0.9)
    described = setting.experiment(method).but(attack=attack, snapshot=(1,), **fields)
    federation = prepare(described, model=setting.module, data=setting.data)
    engine, state = Watching(federation), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        done = one_round(federation, engine, state)
    return federation, state, engine.computed, done


def test_who_attacks_is_the_same_for_every_method_and_every_round():
    sets = {method: round_of("signflip:0.4", method)[0].attackers for method in ("fedavg", "scaffold", "fedtrip")}
    assert len(set(sets.values())) == 1
    assert sets["fedavg"] == ATTACK.make("ipm:0.4").attackers(2540, 5)
    assert len(sets["fedavg"]) == 2


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "slowmo"])
def test_the_server_gets_the_opposite_of_the_attackers_alone(method):
    federation, state, computed, done = round_of("signflip:0.4:2", method)
    w = state.server.w
    for upload in done.details.uploads:
        own = computed[upload.client]
        hostile = upload.client in federation.attackers
        expected = w - 2 * (own["w"] - w) if hostile else own["w"]
        assert torch.allclose(upload["w"], expected, rtol=1e-6, atol=1e-7)
        assert torch.equal(upload["w"], own["w"]) != hostile
        for name in own.keys() - {"w"}:
            assert torch.equal(upload[name], own[name])  # SCAFFOLD's Δc is as it was computed
    assert len(done.details.uploads) == 5


@pytest.mark.parametrize("attack", ["alie:0.4", "ipm:0.4:0.5"])
def test_colluders_see_the_honest_uploads_of_the_round(attack):
    federation, state, computed, done = round_of(attack)
    w = state.server.w.double()
    honest = torch.stack([computed[k]["w"].double() - w for k in range(5) if k not in federation.attackers])
    assert len(honest) == 3
    expected = honest.mean(0) - 1.5 * honest.std(0) if attack == "alie:0.4" else -0.5 * honest.mean(0)
    sizes = [len(y) for _, y in Setting().pairs]
    total = torch.zeros_like(w)
    for upload in done.details.uploads:
        sent = upload["w"].double() - w
        if upload.client in federation.attackers:
            assert torch.allclose(sent, expected, rtol=1e-4, atol=1e-7)
        else:
            assert torch.equal(upload["w"], computed[upload.client]["w"])
        total += sizes[upload.client] / sum(sizes) * sent
    assert torch.allclose(done.server.w.double() - w, total, rtol=1e-4, atol=1e-7)


def test_where_all_attack_their_own_uploads_stand_for_the_honest_ones():
    federation, state, computed, done = round_of("ipm:1:1")
    w = state.server.w.double()
    mean = torch.stack([computed[k]["w"].double() - w for k in range(5)]).mean(0)
    assert len(federation.attackers) == 5
    assert all(torch.allclose(u["w"].double() - w, -mean, rtol=1e-4, atol=1e-7) for u in done.details.uploads)


def test_what_clients_train_on_is_theirs_with_other_labels():
    """The same bits as honest clients that have these labels."""
    setting = Setting(per_round=3, rounds=4)
    attackers = ATTACK.make("labelflip:0.4").attackers(setting.seed, 5)
    flipped = [(x, 2 - y if k in attackers else y) for k, (x, y) in enumerate(setting.pairs)]

    def run(pairs, attack):
        data = fedtrip.from_clients(pairs, setting.pairs[1], mean=0.0, std=1.0)
        described = setting.experiment("feddisco").but(attack=attack)
        return fedtrip.run(described, model=setting.module, data=data, workers=1).model_sha256

    assert run(setting.pairs, "labelflip:0.4") == run(flipped, "none") != run(setting.pairs, "none")


@pytest.mark.parametrize("method", ["fedavg", "feddane"])
def test_without_attackers_it_is_the_run_without_an_attack(method):
    setting = Setting(per_round=4, rounds=2)

    def run(attack):
        return fedtrip.run(
            setting.experiment(method).but(attack=attack), model=setting.module, data=setting.data, workers=1
        ).model_sha256

    honest = run("none")
    assert {run(f"{name}:0") for name in ATTACKS} == {honest}
    assert len({honest, *(run(f"{name}:0.4") for name in ATTACKS)}) == 1 + len(ATTACKS)


@pytest.mark.parametrize("attack", ["signflip:0.4", "alie:0.4"])
def test_attackers_remember_what_honest_clients_would(attack):
    memories = {}
    for rule in ("none", attack):
        setting = Setting(per_round=5, momentum=0.9, keep_optimizer_state=True)
        described = setting.experiment("fedtrip").but(attack=rule)
        federation = prepare(described, model=setting.module, data=setting.data)
        state = initial_state(federation, ClientStore())
        with torch.random.fork_rng(devices=[]):
            advance(federation, SerialEngine(federation), state)
        memories[rule] = [state.memories.get(k) for k in range(5)]
    for honest, other in zip(*memories.values(), strict=True):
        assert (other.last_round, honest.packed().keys()) == (1, other.packed().keys())
        assert all(torch.equal(vector, other.packed()[name]) for name, vector in honest.packed().items())


def test_what_attackers_send_goes_through_the_codec():
    federation, state, _, done = round_of("gaussian:0.4", upload_codec={"name": "topk:0.1"})
    uploads = {upload.client: upload["w"] - state.server.w for upload in done.details.uploads}
    d = state.server.w.numel()
    assert all(0 < int((delta != 0).sum()) <= -(-d // 10) for delta in uploads.values())
    assert done.record.bytes_up == round_of("none", upload_codec={"name": "topk:0.1"})[3].record.bytes_up
    honest = round_of("none", upload_codec={"name": "topk:0.1"})[3]
    for k, memory in done.memories.items():  # the residuals too
        assert torch.equal(memory.codec["w"], honest.memories[k].codec["w"])
    assert federation.attackers


def test_a_lie_that_is_not_finite_is_refused_and_the_attacker_keeps_its_memory():
    for attack, codec in (
        ("signflip:0.4:1e300", "none"),
        ("ipm:0.4:1e300", "none"),
        ("signflip:0.4:1e300", "topk:0.5"),
    ):
        federation, _, _, done = round_of(attack, "fedtrip", upload_codec=codec)
        assert done.record.refused == dict.fromkeys(sorted(federation.attackers), "'w' is not finite")
        assert done.memories.keys() == set(range(5)) - federation.attackers


def test_an_honest_upload_that_is_not_finite_is_not_seen_by_colluders():
    setting = Setting(per_round=5)
    described = setting.experiment("fedavg").but(attack="alie:0.4")
    federation = prepare(described, model=setting.module, data=setting.data)
    liar = min(set(range(5)) - federation.attackers)

    class Diverging(SerialEngine):
        def work(self, jobs):
            for outcome in super().work(jobs):
                if outcome.client == liar:
                    outcome = replace(outcome, upload={"w": torch.full_like(outcome.upload["w"], torch.nan)})
                yield outcome

    with torch.random.fork_rng(devices=[]):
        done = one_round(federation, Diverging(federation), initial_state(federation, ClientStore()))
    assert done.record.refused == {liar: "'w' is not finite"}
    assert bool(done.server.w.isfinite().all())


def test_buffers_and_exchanges_without_w_are_honest():
    federation, state, computed, done = round_of("signflip:0.4", setting=normalised(per_round=5))
    for upload in done.details.uploads:
        assert torch.equal(upload["buffers"], computed[upload.client]["buffers"])
    federation, state, computed, done = round_of("signflip:0.4", "feddane")
    plain = round_of("none", "feddane")[3]
    assert torch.equal(done.server.state["g_t"], plain.server.state["g_t"])
    for upload in done.details.uploads:  # in the second exchange Δ is to what was received in the first
        hostile, w = upload.client in federation.attackers, state.server.w
        expected = 2 * w - computed[upload.client]["w"] if hostile else computed[upload.client]["w"]
        assert torch.allclose(upload["w"], expected, rtol=1e-5, atol=1e-6)


def test_krum_withstands_what_moves_the_mean():
    """Two of seven send a hundred times the opposite: the rule's model is that of an honest client."""
    setting = Setting(per_round=7, pairs=Setting().pairs + Setting().pairs[:2])
    federation, _, computed, done = round_of("signflip:0.3:100", setting=setting, combine="krum:2")
    picked = [k for k, upload in computed.items() if torch.allclose(upload["w"], done.server.w, atol=1e-6)]
    assert len(federation.attackers) == 2
    assert picked
    assert not set(picked) & federation.attackers


@pytest.mark.parametrize("attack", ["alie:0.35", "backdoor:0.35", {"name": "gaussian:0.35", "scale": 3.0}])
def test_the_same_bits_with_workers_and_after_a_resumption(attack, tmp_path):
    described = fedtrip.Experiment(**SMALL, attack=attack, method="fedtrip", upload_codec="int8", combine="median")
    whole = fedtrip.run(described, workers=1)
    assert len(prepare(described).attackers) == 2
    twice = fedtrip.run(described, workers=2)
    assert twice.model_sha256 == whole.model_sha256 != fedtrip.run(described.but(attack="none"), workers=1).model_sha256
    assert [r.scores for r in twice.records] == [r.scores for r in whole.records]

    class Killed(Exception):
        pass

    def kill(record):
        if record.round == 1:
            raise Killed

    with pytest.raises(Killed):
        fedtrip.run(described, workers=1, out=tmp_path / "run", on_round=kill)
    resumed = fedtrip.run(described, workers=1, out=tmp_path / "run", resume=True)
    assert resumed.model_sha256 == whole.model_sha256
    assert [r.scores for r in fedtrip.load_result(tmp_path / "run").records] == [r.scores for r in whole.records]
    stored = fedtrip.Experiment.from_toml(tmp_path / "run/experiment.toml")
    assert stored.attack.name == (attack if isinstance(attack, str) else attack["name"]).partition(":")[0]
    assert fedtrip.run(stored, workers=1).model_sha256 == whole.model_sha256


def test_the_success_of_a_backdoor_is_a_score_of_every_round(tmp_path):
    described = fedtrip.Experiment(clients=6, per_round=6, rounds=8, seed=1, method="fedavg", attack="backdoor:0.35:4")
    result = fedtrip.run(described, workers=1, out=tmp_path / "run")
    rounds = [json.loads(line)["scores"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert all(0 <= scores["attack_success"] <= 1 for scores in rounds)
    dataset = prepare(described).dataset
    x, y = dataset.x_test.clone(), dataset.y_test
    x[..., -3:, -3:] = dataset.x_train.max()
    called = result.predictor()(x).argmax(1)
    success = float(((called == 4) & (y != 4)).sum() / (y != 4).sum())
    assert rounds[-1]["attack_success"] == pytest.approx(success)
    assert success > 0.5
    assert result.attack_success == pytest.approx(np.mean([scores["attack_success"] for scores in rounds]))
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["attack_success"] == result.attack_success
    honest = fedtrip.run(described.but(attack="backdoor:0:4"), workers=1)  # measured, but nobody does it
    assert honest.records[-1].scores["attack_success"] < 0.3
    assert honest.model_sha256 == fedtrip.run(described.but(attack="none"), workers=1).model_sha256


def test_the_success_stands_in_the_tables(tmp_path):
    described = fedtrip.Experiment(**SMALL, method="fedavg", attack="backdoor:0.35")
    rows = fedtrip.compare(described, methods=["fedavg"], trials=1, out=tmp_path / "compared", workers=1)
    table = (tmp_path / "compared/table.md").read_text()
    assert "attack success %" in table
    assert "attack_success" in (tmp_path / "compared/table.csv").read_text()
    assert rows is not None


def test_classes_are_needed_to_change_them():
    for attack in ("labelflip:0.2", "backdoor:0.2"):
        with pytest.raises(
            fedtrip.UserError, match=rf"attack '{attack}' changes the classes.*task 'regression'.*accepted: task class"
        ):
            fedtrip.run(fedtrip.Experiment(**SMALL, attack=attack, task="regression"), workers=1)


def test_samples_that_are_no_images_cannot_have_a_patch():
    setting = Setting()
    with pytest.raises(fedtrip.UserError, match=r"attack 'backdoor:0.4.*patch of 3×3 pixels.*accepted: images"):
        fedtrip.run(setting.experiment("fedavg").but(attack="backdoor:0.4"), model=setting.module, data=setting.data)
