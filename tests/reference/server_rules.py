"""What FedAvgM, FedAdagrad, FedAdam and FedYogi have in common: FedAvg with a server optimizer, to the bit."""

import torch
from tests.reference.quadratic import combined, correction_of, vectors
from tests.reference.setting import Net, Setting, made, normalised
from tests.reference.watching import bytes_of, watched
from torch import nn

import fedtrip
from fedtrip.methods.interface import CostSymbols, Memory, Server, Upload

SETTINGS = {
    "plain": Setting(),
    "everything": Setting(
        weight_decay=0.01, local_epochs=2, module=made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2)))
    ),
}


def assert_is_fedavg_with(rule, method, **options):
    """The method is FedAvg with plain SGD and this server optimizer: the same bits, the same work."""
    for setting in SETTINGS.values():
        own = setting.run(method, **options)
        other = fedtrip.run(
            setting.experiment("fedavg").but(server_optimizer={"name": rule, **options}),
            model=setting.module, data=setting.data, workers=1,
        )  # fmt: skip
        assert own.model_sha256 == other.model_sha256 != setting.run("fedavg").model_sha256
        assert [r.macs for r in own.records] == [r.macs for r in other.records]


def assert_costs_a_client_nothing(method, state):
    """FedAvg's bytes, no memory; the server's state is of the size of w, without the buffers, in float64."""
    setting = normalised(rounds=3)
    wire, records, history = watched(setting, method)
    w, model = bytes_of(setting)
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * model
        assert record.client_memory == 0
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters"}
    for server, _ in history:
        assert set(server.state) == state
        assert all((v.dtype, v.numel()) == (torch.float64, w // 4) for v in server.state.values())
    attaching = setting.federation(method).method.attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (0.0, "0", "0")


def assert_clients_take_plain_steps(method):
    w, initial = vectors(2)
    assert correction_of(method, {"w": w}, Memory(), round_number=2, initial=initial) is None
    assert method.momentum == 0.0
    assert method.weighting == "samples"


def course(method, deltas):
    """The servers after rounds in which the one client moves by these differences, from w = 0."""
    server = Server(model={"w": torch.zeros(len(deltas[0]))}, state=method.start(torch.zeros(len(deltas[0]))))
    seen = []
    for delta in deltas:
        upload = Upload(0, 5, {"w": server.w + torch.tensor(delta)})
        server = method.aggregate(server, combined(method, [upload]))
        seen.append(server)
    return seen
