"""Local training: SGD as torch.optim does it, on a module that stays the user's own."""

import copy
from dataclasses import dataclass, replace

import pytest
import torch
from tests.reference.naive import CLOSE, apart, run_naive
from tests.reference.naive_methods import flat
from tests.reference.setting import CLASSES, FEATURES, Net, Setting, made, normalised, samples
from torch import nn
from torch.nn import functional

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.methods.interface import Memory, Method, Reply
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job


def relative(state, module):
    """‖library − reference‖ / ‖reference‖ over all parameters."""
    wanted = module.state_dict()
    difference = torch.cat([(state[key].double() - wanted[key].double()).flatten() for key in wanted])
    return float(difference.norm() / torch.cat([value.double().flatten() for value in wanted.values()]).norm())


def one_client(n, **changes):
    return Setting(pairs=samples([n]), per_round=1, rounds=1, **changes)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.03])
@pytest.mark.parametrize(
    ("n", "batch_size", "epochs"),
    [(40, 10, 1), (43, 10, 1), (7, 50, 1), (23, 5, 4), (5, 1, 2)],
    ids=["even", "last-smaller", "below-batch", "epochs", "single"],
)
def test_an_epoch_is_torchs_sgd(momentum, weight_decay, n, batch_size, epochs):
    setting = one_client(
        n, batch_size=batch_size, local_epochs=epochs, momentum=momentum, weight_decay=weight_decay, lr=0.05
    )
    result, (module, _) = setting.run("fedavg"), run_naive(setting, "fedavg")
    assert relative(result.state, module) < 1e-6
    assert relative(setting.module.state_dict(), module) > 1e-3


def test_weight_decay_is_part_of_what_momentum_sees():
    setting = Setting(momentum=0.9, weight_decay=0.1, local_epochs=2)
    for name in ("fedavg", "fedtrip"):
        module, _ = run_naive(setting, name)
        assert apart(setting.run(name).state, module) < CLOSE


@pytest.mark.parametrize("name", ["fedavg", "fedtrip", "feddyn", "moon"])
@pytest.mark.parametrize("keep", [False, True], ids=["reset", "keep"])
def test_momentum_is_kept_over_a_clients_rounds_or_reset(name, keep):
    setting = Setting(momentum=0.9, keep_optimizer_state=keep)
    options = {"fedtrip": {"mu": 0.4}}.get(name, {})
    module, _ = run_naive(setting, name, **options)
    other, _ = run_naive(setting.but(keep_optimizer_state=not keep), name, **options)
    state = setting.run(name, **options).state
    assert apart(state, module) < CLOSE
    assert apart(state, other) > 1e-3


def test_kept_state_without_momentum_changes_nothing():
    setting = Setting(momentum=0.0)
    kept = setting.but(keep_optimizer_state=True)
    assert setting.run("fedtrip").model_sha256 == kept.run("fedtrip").model_sha256


class Convolutional(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(2, 3, 3, padding=1, bias=False),
            nn.GroupNorm(1, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4, CLASSES),
        )


def test_convolutions_and_scalars_train_like_the_reference():
    generator = torch.Generator().manual_seed(0)
    pairs = [
        (torch.randn(n, 2, 4, 4, generator=generator), torch.randint(0, CLASSES, (n,), generator=generator))
        for n in (9, 5, 13)
    ]
    pairs[0][1][0] = CLASSES - 1
    setting = Setting(module=made(Convolutional), pairs=pairs, momentum=0.9, rounds=3)
    assert apart(setting.run("fedtrip", mu=0.4).state, run_naive(setting, "fedtrip", mu=0.4)[0]) < CLOSE


class Scaled(nn.Module):
    """A parameter without dimensions, and one that is not used."""

    def __init__(self):
        super().__init__()
        self.net = Net()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.idle = nn.Parameter(torch.ones(3, 2))

    def forward(self, x):
        return self.scale * self.net(x)


def test_odd_parameters_train_like_the_reference():
    setting = Setting(module=made(Scaled), momentum=0.9, rounds=3)
    result = setting.run("fedprox", mu=0.4)
    assert apart(result.state, run_naive(setting, "fedprox", mu=0.4)[0]) < CLOSE
    assert float(result.state["scale"]) != 1.5
    assert torch.equal(result.state["idle"], torch.ones(3, 2))


# Dropout and buffers


def dropping():
    return Net(nn.ReLU(), nn.Dropout(0.5))


def test_dropout_depends_on_seed_round_and_client_alone():
    setting = Setting(module=made(dropping), per_round=3, rounds=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        once = setting.run("fedavg").model_sha256
        torch.manual_seed(2)
        assert setting.run("fedavg").model_sha256 == once

    federation = setting.federation("fedavg")
    received = initial_state(federation, ClientStore()).server.model
    jobs = [Job(k, t, 0, received, Memory()) for k in range(5) for t in (1, 2)]
    with torch.random.fork_rng(devices=[]):
        forward = list(SerialEngine(federation).work(jobs))
        backward = list(SerialEngine(federation).work(jobs[::-1]))[::-1]
        alone = list(SerialEngine(federation).work(jobs[4:5]))
    for a, b in zip(forward, backward, strict=True):
        assert torch.equal(a.upload["w"], b.upload["w"])
    assert torch.equal(alone[0].upload["w"], forward[4].upload["w"])


def test_dropout_is_on_in_training_and_its_masks_differ():
    # Two clients with one and the same sample many times, so that its order has no meaning: only the masks tell apart
    # the clients, and the rounds of one client.
    x, y = samples([1])[0]
    same = x.repeat(8, 1), y.repeat(8)
    setting = Setting(module=made(dropping), pairs=[same, same], batch_size=8)
    federation = setting.federation("fedavg")
    received = initial_state(federation, ClientStore()).server.model
    jobs = [Job(k, t, 0, received, Memory()) for k, t in ((0, 1), (1, 1), (0, 2))]
    with torch.random.fork_rng(devices=[]):
        a, b, c = (outcome.upload["w"] for outcome in list(SerialEngine(federation).work(jobs)))
    assert float((a - b).abs().max()) > 1e-4
    assert float((a - c).abs().max()) > 1e-4


def test_the_test_set_is_evaluated_without_dropout():
    setting = Setting(module=made(dropping), rounds=1)
    result = setting.run("fedavg")
    x, y = setting.pairs[0]
    with torch.no_grad():
        loss = functional.cross_entropy(result.module(x), y)
    assert result.records[-1].loss == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedtrip"])
def test_batchnorm_trains_like_the_reference_and_its_buffers_are_not_regularised(name):
    options = {} if name == "fedavg" else {"mu": 0.8}
    setting = normalised(weight_decay=0.02, rounds=4)
    assert apart(setting.run(name, **options).state, run_naive(setting, name, **options)[0]) < CLOSE


class Bookkeeping(nn.Module):
    """Buffers of all kinds: one that is not stored must not carry over from one client to the next."""

    def __init__(self):
        super().__init__()
        self.net = Net()
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("scale", torch.tensor([2.0]))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x):
        if self.training:
            self.seen += len(x)
            self.scratch += 1
        return self.net(x) * self.scale * (1 + 0.1 * self.scratch)


def test_a_buffer_that_is_not_stored_starts_anew_for_every_client():
    setting = Setting(module=made(Bookkeeping), rounds=4)
    result = setting.run("fedavg")
    federation = setting.federation("fedavg")
    received = initial_state(federation, ClientStore()).server.model
    jobs = [Job(k, 1, 0, received, Memory()) for k in range(5)]
    with torch.random.fork_rng(devices=[]):
        together = list(SerialEngine(federation).work(jobs))
        for job, outcome in zip(jobs, together, strict=True):
            alone = next(SerialEngine(federation).work([job]))
            assert torch.equal(alone.upload["w"], outcome.upload["w"])
    assert float(result.state["scale"]) == 2.0
    assert int(result.state["seen"]) == sum(
        max(len(setting.pairs[k][1]) for k in setting.chosen(t)) for t in range(1, 5)
    )
    assert "scratch" not in result.state


# The user's module


@pytest.mark.parametrize("name", ["scaffold", "mimelite", "feddane"])
@pytest.mark.parametrize("kind", ["tied", "frozen"])
def test_full_gradients_of_shared_and_frozen_parameters(name, kind):
    module = made(Tied if kind == "tied" else Net)
    if kind == "frozen":
        module.body[0].weight.requires_grad_(False)
    setting = Setting(module=module, weight_decay=0.1, rounds=4)
    result = setting.run(name, **({"option": "I"} if name == "scaffold" else {}))
    wanted, _ = run_naive(setting, name, **({"option": "I"} if name == "scaffold" else {}))
    assert apart(result.state, wanted) < CLOSE
    assert result.records[0].bytes_up == result.records[0].bytes_down == 2 * 2 * 4 * flat(module).numel()


class Tied(nn.Module):
    """One matrix used twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES, bias=False)
        self.second = nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


@pytest.mark.parametrize("name", ["fedavg", "fedtrip", "feddyn", "fedgkd"])
def test_shared_parameters_are_one(name):
    setting = Setting(module=made(Tied), momentum=0.9, rounds=4)
    options = {"fedtrip": {"mu": 0.4}}.get(name, {})
    result = setting.run(name, **options)
    assert apart(result.state, run_naive(setting, name, **options)[0]) < CLOSE
    assert torch.equal(result.state["first.weight"], result.state["second.weight"])
    trained = result.module
    assert trained.first.weight is trained.second.weight
    sent = 4 * (FEATURES * FEATURES + FEATURES + FEATURES * CLASSES + CLASSES)
    assert all(record.bytes_up == 2 * sent for record in result.records)


@pytest.mark.parametrize("name", ["fedavg", "fedtrip", "feddyn", "moon", "fedgkd"])
def test_frozen_parameters_do_not_change_or_travel(name):
    module = made(Net)
    module.body[0].weight.requires_grad_(False)
    setting = Setting(module=module, momentum=0.9, weight_decay=0.1, rounds=4)
    options = {"fedtrip": {"mu": 0.4}}.get(name, {})
    result = setting.run(name, **options)
    assert torch.equal(result.state["body.0.weight"], module.body[0].weight)
    assert apart(result.state, run_naive(setting, name, **options)[0]) < CLOSE
    assert result.records[0].bytes_up == 2 * 4 * flat(module).numel()


@pytest.mark.parametrize("name", ["fedavg", "fedtrip", "moon", "feddyn"])
@pytest.mark.parametrize("training", [True, False])
def test_the_users_module_is_not_touched(name, training):
    module = made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3))).train(training)
    module.body[1].eval()
    module.head.bias.requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    modes = [part.training for part in module.modules()]
    pointers = [p.data_ptr() for p in module.parameters()]
    result = Setting(module=module, rounds=2, momentum=0.9).run(name)
    after = module.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert [part.training for part in module.modules()] == modes
    assert [p.data_ptr() for p in module.parameters()] == pointers
    assert [p.requires_grad for p in module.parameters()] == [n != "head.bias" for n, _ in module.named_parameters()]
    assert all(p.grad is None for p in module.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert not torch.equal(result.state["head.weight"], before["head.weight"])
    result.module.head.weight.data.zero_()  # nor is the result's module the user's, or the result
    assert torch.equal(module.head.weight, before["head.weight"])
    assert result.module.head.weight.abs().sum() > 0


@pytest.mark.parametrize("name", ["fedavg", "moon"])
def test_torchs_generator_and_threads_are_left_as_they_were(name):
    before = torch.get_num_threads()
    setting = Setting(module=made(dropping), rounds=2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(77)
        wanted = torch.get_rng_state()
        torch.set_num_threads(2)
        try:
            setting.run(name)
            assert torch.get_num_threads() == 2
            assert torch.equal(torch.get_rng_state(), wanted)
            fedtrip.run(setting.experiment(name), model=dropping, data=setting.data, workers=1)
            assert torch.equal(torch.get_rng_state(), wanted)
            setting.but(lr=1e30).run(name)  # also where the run ends early
            assert torch.get_num_threads() == 2
            assert torch.equal(torch.get_rng_state(), wanted)
        finally:
            torch.set_num_threads(before)
    assert torch.is_grad_enabled()


def test_gradients_are_computed_also_where_the_caller_switched_them_off():
    setting = Setting(rounds=2, momentum=0.9)
    wanted = setting.run("moon").model_sha256
    with torch.no_grad():
        assert setting.run("moon").model_sha256 == wanted
        assert not torch.is_grad_enabled()


def test_a_user_may_stop_a_run_and_go_on():
    setting = Setting(rounds=4)

    def stop(record):
        raise KeyboardInterrupt(record.round)

    before = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt):
        fedtrip.run(setting.experiment("moon"), model=setting.module, data=setting.data, workers=1, on_round=stop)
    assert torch.get_num_threads() == before
    assert setting.run("fedavg").ended is None


# A client's other tools


@dataclass(frozen=True)
class Probe(Method):
    """A method that keeps what its tools give, in the upload."""

    def client(self, received, memory, local):  # noqa: ARG002
        trained = local.train(received, lr_scale=0.5)
        return Reply(
            upload={
                **trained,
                "gradient": local.gradient(received),
                "logits": local.logits(received),
                "z": local.representations(received),
                "again": local.train(received)["w"],
                "numbers": torch.tensor([local.round, local.exchange, local.steps, local.lr]),
                "initial": local.initial.clone(),
            }
        )


def probed(setting, client, round_number=2):
    moon = setting.federation("moon")
    federation = replace(moon, rules=replace(moon.rules, method=Probe()))
    received = initial_state(federation, ClientStore()).server.model
    moved = {**received, "w": received["w"] + 0.1}
    with torch.random.fork_rng(devices=[]):
        outcome = next(SerialEngine(federation).work([Job(client, round_number, 0, moved, Memory())]))
        same = next(SerialEngine(setting.federation("fedavg")).work([Job(client, round_number, 0, moved, Memory())]))
        half = setting.but(lr=setting.lr / 2).federation("fedavg")
        slow = next(SerialEngine(half).work([Job(client, round_number, 0, moved, Memory())]))
    module = copy.deepcopy(setting.module)
    with torch.no_grad():
        for p in module.parameters():
            p += 0.1
    return outcome.upload, same.upload, slow.upload, received, module.double()


def test_the_tools_of_a_client():
    module = made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5)))
    with torch.no_grad():
        module.body[1].running_mean += 0.3
    setting = Setting(module=module, weight_decay=0.07, local_epochs=3)
    upload, same, slow, received, reference = probed(setting, client=1)
    x, y = setting.pairs[1][0].double(), setting.pairs[1][1]
    reference.eval()
    with torch.no_grad():
        torch.testing.assert_close(upload["logits"].double(), reference(x), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(upload["z"].double(), reference.body[:-1](x), rtol=1e-5, atol=1e-6)
    functional.cross_entropy(reference(x), y).backward()
    wanted = torch.cat([(p.grad + 0.07 * p.detach()).reshape(-1) for p in reference.parameters()])
    assert float(upload["gradient"].norm()) == pytest.approx(float(wanted.norm()), rel=1e-5)
    assert upload["numbers"].tolist() == [2, 0, 3 * 3, pytest.approx(0.1)]  # E·⌈10/4⌉
    assert torch.equal(upload["initial"], received["w"])
    # Training does not depend on what was done before in the round, and lr_scale scales the rate.
    assert torch.equal(upload["again"], same["w"])
    assert torch.equal(upload["w"], slow["w"])


@pytest.mark.parametrize(("client", "steps"), [(0, 2), (1, 3), (2, 1), (3, 3)])
def test_steps_count_the_last_smaller_batch(client, steps):
    upload, *_ = probed(Setting(local_epochs=2), client)
    assert int(upload["numbers"][2]) == 2 * steps
