"""Placement, on a pretended device (pretend.py): what local training touches is there, its boundary on the CPU.

test_device.py runs this in a process of its own: torch takes a new device only before its first backward pass.
"""

import dataclasses
from contextlib import nullcontext

import pytest
import torch
from tests.training import pretend
from tests.training.test_device import SMALL, net

import fedtrip
from fedtrip import Correction, Experiment, Method, Reply
from fedtrip.errors import UserError
from fedtrip.experiment.device import checked_device
from fedtrip.experiment.federation import prepare
from fedtrip.training import prepared_model
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.workbench import Workbench


class Uneven(Correction):
    """A correction that is not affine, with a vector of its own."""

    def __init__(self, w):
        self.w = w

    def add_to(self, h, w_k):
        h.add_(0.1 * (w_k - self.w).clamp(-1, 1))

    def operations(self):
        return 2


@dataclasses.dataclass(frozen=True)
class OfOnesOwn(Method):
    """FedAvg with such a correction."""

    title = "of one's own"

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(upload=local.train(received, Uneven(received["w"])))


class Seen(FlatModel):
    """`parameter.data = view` does not take the numbers of a tensor that is a class of Python's along: here it does."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        for name, parameter in self.module.named_parameters():
            if isinstance(parameter, pretend.OnDevice):
                parameter.inner = self._places[name].of(self.w).inner


@pytest.fixture
def pretending(monkeypatch):
    # torch's inference mode has no views of such tensors; without gradients their numbers are the same
    monkeypatch.setattr(torch, "inference_mode", lambda on=True: torch.no_grad() if on else nullcontext())
    monkeypatch.setattr(prepared_model, "FlatModel", Seen)
    pretend.set_up()
    with pretend.Pretending():
        yield


METHODS = [
    "fedavg", "fedtrip", "feddyn", "scaffold", "mimelite", "feddane", "moon", "fedgkd", "pfedme", "apfl",
    "mofedsam", "fedsmoo", "fedlesam-s", OfOnesOwn(),
]  # fmt: skip


@pytest.mark.usefixtures("pretending")
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_method_gives_the_cpus_numbers_with_nothing_left_behind(method):
    experiment = Experiment(**SMALL, method=method)
    here = fedtrip.run(experiment, model=net(), workers=1)
    there = fedtrip.run(experiment.but(device=pretend.NAME), model=net(), workers=1)
    assert there.model_sha256 == here.model_sha256
    assert there.experiment.device == pretend.NAME
    assert all(tensor.device.type == "cpu" for tensor in there.state.values())
    assert [record.scores for record in there.records] == [record.scores for record in here.records]
    assert there.client_scores == here.client_scores


@pytest.mark.usefixtures("pretending")
@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": "adam", "keep_optimizer_state": True},
        {"clip": "0.5", "weight_decay": 0.01},
        {"clip": "gradient:0.5", "keep_optimizer_state": True},
        {"validation": 0.2, "keep_best": True, "upload_codec": "int8"},
        {"augment": "noise:0.1"},
    ],
)
def test_optimizers_and_clipping_work_there(fields):
    experiment = Experiment(**SMALL, **fields)
    here = fedtrip.run(experiment, model=net(), workers=1)
    there = fedtrip.run(experiment.but(device=pretend.NAME), model=net(), workers=1)
    first = net().state_dict()
    for name, one in here.state.items():  # other roundings, which Adam makes steps of where a gradient is nearly zero
        apart, moved = (float((one.double() - other[name].double()).norm()) for other in (there.state, first))
        assert apart <= 0.02 * moved
    assert there.experiment.compute == "torch"


@pytest.mark.usefixtures("pretending")
def test_model_and_samples_lie_on_the_device():
    bench = Workbench(prepare(Experiment(**SMALL, method="fedavg", device=pretend.NAME), model=net()))
    flat = bench._model.flat
    for tensor in (flat.w, flat.g, *flat.module.parameters(), *flat.module.buffers()):
        assert tensor.device.type == pretend.NAME
    for part, client in (("train", 1), ("test", None), ("test", 1)):
        assert bench._samples(part, client)[0].device.type == pretend.NAME
    assert {vector.device.type for vector in flat.model().values()} == {"cpu"}


@pytest.mark.usefixtures("pretending")
def test_a_tensor_that_is_left_behind_is_found():
    """The pretended device is as strict as a real one: without it this file would prove nothing."""
    there = net().to(pretend.NAME)
    with pytest.raises(RuntimeError, match="is on the CPU, others are not"):
        there(torch.zeros(2, 1, 8, 8))


@pytest.mark.usefixtures("pretending")
def test_the_native_engine_is_on_the_cpu():
    with pytest.raises(UserError, match="compute is 'native', which cannot be here: it computes on the CPU"):
        prepare(Experiment(compute="native", device=pretend.NAME))
    assert prepare(Experiment(device=pretend.NAME)).experiment.compute == "torch"
    assert checked_device("cpu") == torch.device("cpu")
