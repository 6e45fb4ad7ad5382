"""An upload that is not what `expected` says is an error of the method's code, not a divergence."""

from dataclasses import dataclass, replace

import pytest
import torch
from tests.reference.setting import Setting

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.methods.interface import Reply
from fedtrip.rounds.check import reason_to_refuse
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import RunEnded, initial_state


@dataclass(frozen=True)
class Wrong(fedtrip.Method):
    """Trains like FedAvg and sends something else than it says."""

    mistake: str = "surplus"

    def client(self, received, memory, local):  # noqa: ARG002
        model = local.train(received)
        return Reply(upload=self.spoilt(model))

    def spoilt(self, model):
        return {
            "surplus": {**model, "v": model["w"]},
            "missing": {name: vector for name, vector in model.items() if name != "w"},
            "shape": {**model, "w": model["w"][:-1]},
            "type": {**model, "w": torch.zeros(len(model["w"]), dtype=torch.int64)},
        }[self.mistake]


REASONS = {
    "surplus": r"'v' is not what `expected` of the method names",
    "missing": r"'w' is missing",
    "shape": r"'w' has the shape \(\d+,\) instead of \(\d+,\)",
    "type": r"'w' is of type torch.int64 instead of torch.float32",
}


@pytest.mark.parametrize("mistake", REASONS)
@pytest.mark.parametrize("corrupt", [0.0, 1.0])
def test_it_is_told_as_an_error_of_the_method(mistake, corrupt):
    setting = Setting()
    data = fedtrip.from_clients(setting.pairs, setting.pairs[0])
    experiment = fedtrip.Experiment(rounds=2, per_round=2, attack=f"corrupt:{corrupt}", method=Wrong(mistake))
    told = rf"^method '\S+:Wrong': .*client \d.*{REASONS[mistake]}; accepted: .*`expected`.* w of shape \(\d+,\)"
    with pytest.raises(fedtrip.UserError, match=told):
        fedtrip.run(experiment, model=setting.module, data=data, workers=1)


class FromAfar:
    """A serial engine whose answers come from another machine, which may send anything."""

    def __init__(self, federation):
        self._engine = SerialEngine(federation)

    def work(self, jobs):
        for outcome in self._engine.work(jobs):
            yield replace(outcome, remote=True)

    def score(self, questions):
        return self._engine.score(questions)


def test_what_another_machine_sends_is_only_refused():
    setting = Setting()
    data = fedtrip.from_clients(setting.pairs, setting.pairs[0])
    experiment = fedtrip.Experiment(rounds=1, per_round=2, method=Wrong("shape"))
    federation = prepare(experiment, model=setting.module, data=data)
    state = initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]), pytest.raises(RunEnded) as ended:
        one_round(federation, FromAfar(federation), state)
    assert len(ended.value.record.refused) == 2


def test_counters_of_another_integer_type_are_refused():
    """What travels may be bytes, since codecs make bytes; a module's counters are none."""
    like = {"w": torch.zeros(3), "counters": torch.zeros(1, dtype=torch.int64)}
    assert reason_to_refuse({**like}, like) is None
    assert reason_to_refuse({**like, "w": torch.zeros(3, dtype=torch.float64)}, like) is None  # a method's own sums
    for wrong in ({"counters": torch.zeros(1, dtype=torch.uint8)}, {"w": torch.zeros(3, dtype=torch.uint8)}):
        (name,) = wrong
        assert reason_to_refuse({**like, **wrong}, like).startswith(f"'{name}' is of type torch.uint8 instead of")


def test_the_command_ends_with_code_2(fedtrip, here):
    (here / "wrongly.py").write_text(
        "from dataclasses import dataclass\n"
        "import fedtrip\n"
        "from fedtrip.methods.interface import Reply\n"
        "@dataclass(frozen=True)\n"
        "class More(fedtrip.Method):\n"
        "    def client(self, received, memory, local):\n"
        "        model = local.train(received)\n"
        "        return Reply({**model, 'v': model['w']})\n"
    )
    ended = fedtrip("run", "--method", "wrongly:More", "--rounds", 2, "--quiet", "--workers", 2)
    assert ended.code == 2
    assert ended.err.startswith("error: method 'wrongly:More': ")
    assert "diverged" not in ended.err
