"""FedGKD: loss CE + (γ/2)·T²·KL(teacher ‖ student), teacher the mean of the last M global models; off in round 1."""

import math

import pytest
import torch
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import QuadraticLocal, combined, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.watching import bytes_of, watched
from torch import nn

from fedtrip.methods.fedgkd import Distillation, FedGkd, distillation_loss
from fedtrip.methods.interface import Batch, ClosedLoss, Memory, Server, Upload
from fedtrip.randomness import permutation, stream


def softmax(values, temperature):
    powers = [math.exp(v / temperature) for v in values]
    return [p / sum(powers) for p in powers]


def by_hand(b, n, chosen, *, gamma, temperature, models, lr, steps, start):
    """FedGKD on quadratics whose logits are w itself, in plain numbers: T²·KL has slope T(p_student − p_teacher)."""
    w, aggregates, after = list(start), [], []
    for t, clients in enumerate(chosen, 1):
        uploads = {}
        for k in clients:
            v = list(w)
            last = aggregates[-models:]
            teacher = [sum(column) / len(last) for column in zip(*last, strict=True)] if last else None
            for _ in range(steps):
                slope = [x - target for x, target in zip(v, b[k], strict=True)]
                if t > 1:
                    p, q = softmax(v, temperature), softmax(teacher, temperature)
                    slope = [s + gamma / 2 * temperature * (x - y) for s, x, y in zip(slope, p, q, strict=True)]
                v = [x - lr * s for x, s in zip(v, slope, strict=True)]
            uploads[k] = v
        whole = sum(n[k] for k in clients)
        w = [sum(n[k] * uploads[k][i] for k in clients) / whole for i in range(len(w))]
        aggregates.append(w)
        after.append(w)
    return after


@pytest.mark.parametrize("models", [1, 2, 5])
@pytest.mark.parametrize(("gamma", "temperature"), [(2.0, 1.0), (3.0, 2.5)])
def test_rounds_by_hand(models, gamma, temperature):
    b, n = [[4.0, -1.0, 0.5], [1.0, 3.0, -2.0], [-4.0, 0.0, 1.0]], [1, 3, 2]
    chosen = [(0, 1), (0, 2), (1, 2), (0, 1), (1, 2)]
    method = FedGkd(gamma=gamma, temperature=temperature, models=models)
    history = play(method, b=b, samples=n, chosen=chosen, lr=0.25, start=(0.5, -0.5, 1.0))
    wanted = by_hand(
        b, n, chosen, gamma=gamma, temperature=temperature, models=models, lr=0.25, steps=2, start=(0.5, -0.5, 1.0)
    )
    for found, expected in zip(w_of(history), wanted, strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_one_step_of_the_second_round_in_full():
    # Two logits, M = 1: the teacher is w = (0, 0), p_teacher = (½, ½). b = (2, 0), η = ½, γ = 1, T = 1. Step 1: the
    # student is the teacher, so its slope is the quadratic's alone: (1, 0). Step 2: p_student = (σ(1), 1 − σ(1)),
    # slope (−1 + ½(σ(1) − ½), −½(σ(1) − ½)).
    local = QuadraticLocal([2.0, 0.0], round_number=2, lr=0.5, steps=2, initial=torch.zeros(2))
    reply = FedGkd(gamma=1.0, models=1).client({"w": torch.zeros(2)}, Memory(), local)
    pull = 0.5 * (1 / (1 + math.exp(-1)) - 0.5)
    assert reply.upload["w"].tolist() == pytest.approx([1 + 0.5 * (1 - pull), 0.5 * pull], rel=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_loss_and_its_gradient_are_those_of_the_written_divergence(temperature):
    teacher, student = (torch.stack(vectors(4, size=5, seed=s)) for s in (1, 2))
    found, wanted = student.clone().requires_grad_(), student.double().requires_grad_()
    loss = distillation_loss(teacher, found, temperature)
    p = torch.softmax(teacher.double() / temperature, 1)
    q = torch.softmax(wanted / temperature, 1)
    written = temperature**2 * (p * (p.log() - q.log())).sum(1).mean()  # KL(teacher ‖ student), not the other way
    assert float(loss.detach()) == pytest.approx(float(written.detach()), rel=1e-5)
    loss.backward()
    written.backward()
    torch.testing.assert_close(found.grad.double(), wanted.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(wanted.grad, (temperature * (q - p) / 4).detach())  # T² keeps its size at any T
    assert found.grad.norm() > 0.01


def slope(teacher, student, *, gamma=1.0, temperature=1.0, rows=None):
    """The closed form of the gradient of a batch: `student` are its logits, `teacher` those of all local samples."""
    rows = torch.arange(len(student)) if rows is None else torch.tensor(rows)
    found = Distillation(teacher, gamma, temperature).gradient(Batch(rows, torch.zeros(len(rows)), student, None))
    assert found.representation is None
    assert found.logits.dtype is torch.float32
    return found.logits


def test_the_closed_gradient_by_hand():
    # T = 2: softmax(2·ln 3/2, 0) = (¾, ¼), the teacher's is (½, ½). (γ/2)·T·(¼, −¼) with γ = 3; half of it in a batch
    # of two.
    teacher, student = torch.zeros(1, 2), torch.tensor([[2 * math.log(3), 0.0]])
    assert slope(teacher, student, gamma=3.0, temperature=2.0)[0].tolist() == pytest.approx([0.75, -0.75])
    twice = slope(teacher, student.repeat(2, 1), gamma=3.0, temperature=2.0, rows=[0, 0])
    assert twice.tolist() == [pytest.approx([0.375, -0.375])] * 2


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("classes", [2, 10, 47])
def test_the_closed_gradient_is_autograds(classes, temperature):
    teacher, student = (4 * torch.stack(vectors(5, size=classes, seed=s)) for s in (1, 2))
    rows = [4, 1, 0]
    wanted = student[rows].double().requires_grad_()
    (1.7 / 2 * distillation_loss(teacher[rows].double(), wanted, temperature)).backward()
    found = slope(teacher, student[rows], gamma=1.7, temperature=temperature, rows=rows)
    torch.testing.assert_close(found.double(), wanted.grad, rtol=1e-6, atol=1e-12)
    assert isinstance(Distillation(teacher, 1.0, 1.0), ClosedLoss)
    assert not isinstance(lambda _batch: teacher.sum(), ClosedLoss)


def test_the_term_pulls_the_student_to_the_teacher_and_not_the_teacher():
    teacher, student = (torch.stack(vectors(4, size=5, seed=s)).requires_grad_() for s in (1, 2))
    before = distillation_loss(teacher.detach(), student, 1.0)
    before.backward()
    assert teacher.grad is None
    with torch.no_grad():
        assert distillation_loss(teacher, student - 0.5 * student.grad, 1.0) < before
    assert float(distillation_loss(teacher, teacher, 2.0).detach()) == pytest.approx(0, abs=1e-6)


def test_a_client_is_not_taught_in_round_one():
    w, b, initial = vectors(3, size=3)
    local = QuadraticLocal(b.tolist(), round_number=1, lr=0.1, steps=2, initial=initial)
    FedGkd(gamma=5.0, models=1).client({"w": w}, Memory(), local)
    assert local.asked == []
    setting = Setting(rounds=1, momentum=0.9, local_epochs=2)
    for models in (1, 5):
        first = setting.run("fedgkd", gamma=5.0, models=models)
        assert first.model_sha256 == setting.run("fedavg").model_sha256
        second = setting.but(rounds=2)
        assert apart(second.run("fedgkd", gamma=5.0, models=models).state, second.run("fedavg").module) > 1e-3


def test_the_teacher_is_its_own_parameters():
    w, teacher, b = vectors(3, size=3)
    local = QuadraticLocal(b.tolist(), round_number=3, lr=0.1, steps=1, initial=w)
    reply = FedGkd().client({"w": w, "teacher": teacher}, Memory(), local)
    assert [asked.tolist() for asked in local.asked] == [teacher.tolist()]
    assert set(reply.upload) == {"w"}  # the teacher does not come back
    assert reply.keep == {}
    assert not reply.upload["w"].requires_grad


@pytest.mark.parametrize("models", [1, 2, 5])
def test_the_teacher_is_the_mean_of_the_last_aggregates(models):
    # Over more rounds than the buffer holds; the initial model is never in it.
    setting = Setting(rounds=9)
    wire, _, history = watched(setting, "fedgkd", models=models)
    aggregates = [server.w.double() for server, _ in history]
    for t in range(1, 10):
        sent = [received for (r, _, _), received in wire.down.items() if r == t]
        if t == 1 or models == 1:
            assert all("teacher" not in received for received in sent)
            continue
        wanted = torch.stack(aggregates[max(0, t - 1 - models) : t - 1]).mean(0)
        for received in sent:
            torch.testing.assert_close(received["teacher"].double(), wanted, rtol=1e-6, atol=1e-7)
    assert int(history[-1][0].state["seen"]) == 9


def test_an_aggregation_leaves_the_server_before_it_as_it_was():
    method, (w, moved) = FedGkd(models=2), vectors(2)
    server = Server(model={"w": w}, state=method.start(w), clients=1)
    after = method.aggregate(server, combined(method, [Upload(0, 5, {"w": moved})]))
    assert float(server.state["recent"].abs().max()) == 0
    assert int(server.state["seen"]) == 0
    assert int(after.state["seen"]) == 1
    torch.testing.assert_close(after.state["recent"][0], moved)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    "options",
    [{"gamma": 4.0}, {"gamma": 4.0, "models": 1}, {"gamma": 4.0, "models": 2, "temperature": 2.0}],
    ids=lambda options: ",".join(map(str, options.values())),
)
def test_runs_like_the_reference(options, momentum):
    assert_follows(Setting(momentum=momentum, weight_decay=0.02, rounds=8), "fedgkd", **options)


def test_the_teacher_is_in_eval_mode_with_the_global_statistics():
    assert_follows(normalised(rounds=5), "fedgkd", gamma=4.0, models=2)


def test_the_teacher_has_no_dropout_and_the_student_has(monkeypatch):
    module, seen = made(lambda: Net(nn.Tanh(), nn.Dropout(0.5))), []

    def spy(teacher, student, temperature):
        seen.append((teacher.clone(), student.detach().clone()))
        assert student.requires_grad
        assert not teacher.requires_grad
        return distillation_loss(teacher, student, temperature)

    monkeypatch.setattr("fedtrip.methods.fedgkd.distillation_loss", spy)
    setting = Setting(module=module, pairs=samples([9]), per_round=1, rounds=2, batch_size=9, lr=0.2, compute="torch")
    setting.run("fedgkd", models=1)
    taught = setting.but(rounds=1).run("fedgkd").module  # the aggregate of round 1, in eval mode
    ((teacher, student),) = seen
    order = torch.from_numpy(permutation(stream(setting.seed, "batches", 2, 0), 9))
    with torch.no_grad():
        torch.testing.assert_close(teacher, taught(setting.pairs[0][0])[order], rtol=1e-5, atol=1e-6)
    assert float((teacher - student).abs().max()) > 0.01


@pytest.mark.parametrize("models", [1, 5])
@pytest.mark.parametrize("everything", [False, True])
def test_without_weight_it_is_fedavg_to_the_bit(models, everything):
    setting = Setting(momentum=0.9)
    if everything:
        module = made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2)))
        setting = setting.but(module=module, weight_decay=0.01, local_epochs=2, keep_optimizer_state=True)
    assert setting.run("fedgkd", gamma=0.0, models=models).model_sha256 == setting.run("fedavg").model_sha256


@pytest.mark.parametrize("models", [1, 5])
def test_the_teacher_costs_w_on_the_way_down_from_the_second_round(models):
    setting = normalised(rounds=4)
    wire, records, _ = watched(setting, "fedgkd", models=models)
    w, model = bytes_of(setting)
    for record in records:
        taught = models > 1 and record.round > 1
        assert record.bytes_up == 2 * model
        assert record.bytes_down == 2 * (model + (w if taught else 0))
        names = {"w", "buffers", "counters"}
        assert wire.names(wire.down, record.round) == (names | {"teacher"} if taught else names)
        assert wire.names(wire.up, record.round) == names
        assert record.client_memory == 0


def test_the_defaults_are_the_papers():
    assert (FedGkd().gamma, FedGkd().temperature, FedGkd().models) == (0.2, 1.0, 5)
