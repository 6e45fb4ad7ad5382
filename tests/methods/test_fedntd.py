"""FedNTD: loss CE + β·τ²·KL(softmax(z̃_glob/τ) ‖ softmax(z̃/τ)), z̃ the logits of the not-true classes."""

import math

import pytest
import torch
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import vectors
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.tables import COST, SETTINGS, TableLocal, bits_of, play_tables
from tests.reference.watching import bytes_of, watched
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods import fedntd
from fedtrip.methods.fedntd import FedNtd, NotTrueDistillation, not_true, not_true_loss
from fedtrip.methods.interface import Batch, BatchGradient, ClosedLoss, Memory, make_method
from fedtrip.randomness import permutation, stream
from fedtrip.training.costs import pass_cost

ACROSS = pytest.mark.parametrize("closed", [True, False], ids=["closed", "autograd"])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@ACROSS
def test_two_rounds_by_hand(closed):
    # One sample of class 0, logits w = (0, 0, 0), b = (0, 2, 0), η = ½, two steps, β = 2, τ = 1. Classes 1 and 2 are
    # the not-true ones. Round 1: the student is the teacher, so the first step is the quadratic's: (0, 1, 0). Then the
    # teacher has p₁ = ½, the student σ(1): d = 2(σ(1) − ½); slopes −1 + d and −d: w = (0, 1 + ½(1 − d), ½d).
    # Round 2: the teacher has p₁ = σ(w₁ − w₂). First step: w₁ + ½(2 − w₁) and ½w₂. Then d is 2(σ(difference) − p₁).
    d = 2 * (sigmoid(1) - 0.5)
    first = [0.0, 1 + 0.5 * (1 - d), 0.5 * d]
    one, two = 1 + first[1] / 2, first[2] / 2
    d = 2 * (sigmoid(one - two) - sigmoid(first[1] - first[2]))
    second = [0.0, one + 0.5 * (2 - one - d), two - 0.5 * (two - d)]
    found = play_tables(
        FedNtd(beta=2.0), b=[[[0, 2, 0]]], labels=[[0]], chosen=[(0,), (0,)], start=[[0, 0, 0]], lr=0.5, steps=2,
        closed=closed,
    )  # fmt: skip
    assert found == [[pytest.approx(first, abs=1e-6)], [pytest.approx(second, abs=1e-6)]]


def softmax(values, tau):
    powers = [math.exp(v / tau) for v in values]
    return [p / sum(powers) for p in powers]


START = [[0.5, -0.5, 1.0, 0.0], [0.0, 1.0, -1.0, 0.5]]


@ACROSS
@pytest.mark.parametrize("tau", [1.0, 2.5])
def test_rounds_of_several_clients_in_plain_numbers(tau, closed):
    # τ²·KL has slope τ·(p_student − p_teacher) in each not-true logit, divided by the samples of the batch.
    b = [[[4, -1, 0.5, 1], [0, 1, 2, -1]], [[1, 3, -2, 0], [2, 0, 0, 1]]]
    labels, n, chosen = [[2, 0], [1, 3]], [1, 3], [(0, 1), (1,), (0, 1)]
    w, wanted = START, []
    for clients in chosen:
        ends = {}
        for k in clients:
            v = [list(row) for row in w]
            for _ in range(2):
                slopes = [[v[i][c] - b[k][i][c] for c in range(4)] for i in range(2)]
                for slope, row, taught, label in zip(slopes, v, w, labels[k], strict=True):
                    others = [c for c in range(4) if c != label]
                    q, p = (softmax([z[c] for c in others], tau) for z in (row, taught))
                    for c, x, y in zip(others, q, p, strict=True):
                        slope[c] += 1.5 * tau * (x - y) / 2
                v = [[v[i][c] - 0.25 * slopes[i][c] for c in range(4)] for i in range(2)]
            ends[k] = v
        whole = sum(n[k] for k in clients)
        w = [[sum(n[k] * ends[k][i][c] for k in clients) / whole for c in range(4)] for i in range(2)]
        wanted.append(w)
    found = play_tables(
        FedNtd(beta=1.5, tau=tau), b=b, labels=labels, chosen=chosen, start=START, lr=0.25, steps=2, closed=closed,
        samples=n,
    )  # fmt: skip
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-5, atol=1e-5)


def tables(classes=3, rows=4):
    """A teacher's and a student's logits, and labels of every class."""
    teacher, student = (3 * torch.stack(vectors(rows, size=classes, seed=s)) for s in (1, 2))
    return teacher, student, torch.arange(rows) % classes


@pytest.mark.parametrize("tau", [0.5, 1.0, 4.0])
def test_the_loss_is_the_written_divergence(tau):
    teacher, student, labels = tables()
    terms = []
    for z_glob, z, label in zip(teacher.tolist(), student.tolist(), labels.tolist(), strict=True):
        p, q = (softmax([x for c, x in enumerate(row) if c != label], tau) for row in (z_glob, z))
        terms.append(sum(x * math.log(x / y) for x, y in zip(p, q, strict=True)))  # KL(teacher ‖ student)
    wanted = tau**2 * sum(terms) / len(terms)
    assert float(not_true_loss(teacher, student, labels, tau)) == pytest.approx(wanted, rel=1e-5)


def slope(teacher, student, labels, *, beta=1.0, tau=1.0, rows=None):
    """The closed gradient of a batch: `student` are its logits, `teacher` those of all local samples."""
    rows = torch.arange(len(student)) if rows is None else torch.tensor(rows)
    found = NotTrueDistillation(teacher, beta, tau).gradient(Batch(rows, labels, student, None))
    assert found.representation is None
    assert found.logits.dtype is torch.float32
    return found.logits


@pytest.mark.parametrize("tau", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("classes", [3, 10, 47])
def test_the_closed_gradient_is_autograds(classes, tau):
    teacher, student, labels = tables(classes, rows=6)
    rows = [4, 1, 0]
    wanted = student[rows].double().requires_grad_()
    (1.7 * not_true_loss(teacher[rows].double(), wanted, labels[rows], tau)).backward()
    found = slope(teacher, student[rows], labels[rows], beta=1.7, tau=tau, rows=rows)
    torch.testing.assert_close(found.double(), wanted.grad, rtol=1e-6, atol=1e-9)
    assert float(wanted.grad.norm()) > 0.1
    assert isinstance(NotTrueDistillation(teacher, 1.0, 1.0), ClosedLoss)


def test_the_true_logit_has_no_part():
    teacher, student, labels = tables()
    shift = torch.zeros_like(student).scatter_(1, labels[:, None], 50.0)
    for one, other in ((teacher + shift, student), (teacher, student - shift)):
        assert torch.equal(slope(one, other, labels), slope(teacher, student, labels))
        assert torch.equal(not_true_loss(one, other, labels, 1.0), not_true_loss(teacher, student, labels, 1.0))
    assert slope(teacher, student, labels).gather(1, labels[:, None]).tolist() == [[0.0]] * 4


def test_the_teacher_itself_has_no_loss_and_no_gradient():
    teacher, _, labels = tables()
    leaf = teacher.clone().requires_grad_()
    loss = not_true_loss(teacher, leaf, labels, 2.0)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0, abs=1e-6)
    assert float(leaf.grad.abs().max()) < 1e-6
    assert float(slope(teacher, teacher, labels, beta=9.0).abs().max()) == 0


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_the_first_step_is_fedavgs(compute):
    setting = Setting(rounds=1, batch_size=100, compute=compute)
    assert apart(setting.run("fedntd", beta=9.0).state, setting.run("fedavg").module) < 1e-6
    longer = setting.but(local_epochs=2)
    assert apart(longer.run("fedntd", beta=9.0).state, longer.run("fedavg").module) > 1e-4


@pytest.mark.parametrize("classes", [1, 2])
def test_without_a_second_class_to_compare_it_is_always_zero(classes):
    teacher, student, labels = tables(classes)
    leaf = student.clone().requires_grad_()
    loss = not_true_loss(teacher, leaf, labels, 1.0)
    loss.backward()
    assert (float(loss.detach()), float(leaf.grad.abs().max())) == (0.0, 0.0)
    batch = Batch(torch.arange(4), labels, student, None)
    assert NotTrueDistillation(teacher, 3.0, 1.0).gradient(batch) == BatchGradient()


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_two_classes_are_fedavg_to_the_bit(compute):
    module = made(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)))
    setting = Setting(module=module, pairs=samples(classes=2), compute=compute, momentum=0.9)
    assert bits_of("fedntd", setting, beta=5.0) == bits_of("fedavg", setting)


def test_which_classes_are_not_true():
    assert not_true(torch.tensor([0, 2, 3]), 4).tolist() == [[1, 2, 3], [0, 1, 3], [0, 1, 2]]


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize("options", [{"beta": 4.0}, {"beta": 3.0, "tau": 2.0}], ids=str)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_runs_like_the_reference(options, compute, momentum):
    setting = Setting(momentum=momentum, weight_decay=0.02, local_epochs=2, lr=0.05, compute=compute)
    assert_follows(setting, "fedntd", **options)


def test_the_teacher_is_in_eval_mode_with_the_global_statistics():
    assert_follows(normalised(rounds=4), "fedntd", beta=4.0)


def test_the_teacher_has_no_dropout_and_the_student_has(monkeypatch):
    module, seen = made(lambda: Net(nn.Tanh(), nn.Dropout(0.5))), []

    def spy(teacher, student, labels, tau):
        seen.append((teacher.clone(), student.detach().clone()))
        assert not teacher.requires_grad
        return not_true_loss(teacher, student, labels, tau)

    monkeypatch.setattr(fedntd, "not_true_loss", spy)
    setting = Setting(module=module, pairs=samples([9]), per_round=1, rounds=1, batch_size=9, compute="torch")
    setting.run("fedntd")
    ((teacher, student),) = seen
    order = torch.from_numpy(permutation(stream(setting.seed, "batches", 1, 0), 9))
    with torch.no_grad():
        torch.testing.assert_close(teacher, module.eval()(setting.pairs[0][0])[order], rtol=1e-5, atol=1e-6)
    assert float((teacher - student).abs().max()) > 0.01


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_without_weight_it_is_fedavg_to_the_bit(setting):
    usual = bits_of("fedavg", setting)
    assert bits_of("fedntd", setting, beta=0.0) == usual
    assert bits_of("fedntd", setting) != usual


def test_without_weight_nobody_is_asked():
    local = TableLocal([[0, 2, 0]], [0], closed=True, round_number=1, lr=0.1, steps=1, initial=torch.zeros(3))
    FedNtd(beta=0.0).client({"w": torch.zeros(3)}, Memory(), local)
    assert (local.asked, local.losses) == ([], [(None, None)])


def test_its_costs():
    setting = normalised(rounds=2)
    wire, records, history = watched(setting, "fedntd")
    _, usual, _ = watched(setting, "fedavg")
    forward = pass_cost(setting.module, (6,)).forward
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * bytes_of(setting)[1]
        assert record.client_memory == 0
        # the teacher's pass over all samples, once; the gradients are as many as FedAvg's
        assert record.macs - plain.macs == sum(len(setting.pairs[k][1]) for k in record.clients) * forward
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters"}
    assert history[-1][0].state == {}
    attaching = FedNtd().attaching(COST)
    assert (attaching.flops, attaching.formula, attaching.communication) == (5 * 4 * 7.0, "K·M·FP", "0")
    assert (FedNtd().beta, FedNtd().tau, FedNtd.momentum, FedNtd.weighting) == (1.0, 1.0, 0.9, "samples")


def test_a_task_without_classes_is_refused_by_name():
    for task in ("regression", "binary", "multilabel", "tokens"):
        with pytest.raises(UserError, match=f"method 'fedntd'.*task '{task}'"):
            fedtrip.run(fedtrip.Experiment(method="fedntd", task=task, dataset="npz:there-is-no-such-file.npz"))


@pytest.mark.parametrize(
    ("option", "value"), [("beta", -0.1), ("beta", math.nan), ("beta", "much"), ("tau", 0), ("tau", math.inf)]
)
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedntd': option '{option}' is {value!r}"):
        make_method("fedntd", {option: value}, model="cnn", dataset="mnist")


def without_tau(self, batch):
    return BatchGradient(RIGHT(NotTrueDistillation(self.taught, self.beta / self.tau, self.tau), batch).logits)


def reversed_roles(self, batch):
    return BatchGradient(-RIGHT(self, batch).logits)


def not_frozen(self, batch):
    """The student teaches itself: the term vanishes."""
    rows = torch.arange(len(batch.rows))
    own = NotTrueDistillation(batch.logits, self.beta, self.tau)
    return RIGHT(own, Batch(rows, batch.labels, batch.logits, None))


RIGHT = NotTrueDistillation.gradient


@pytest.mark.parametrize("wrong", [without_tau, reversed_roles, not_frozen])
def test_a_wrong_closed_gradient_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(NotTrueDistillation, "gradient", wrong)
    with pytest.raises(AssertionError):
        test_the_closed_gradient_is_autograds(3, 4.0)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({"beta": 3.0, "tau": 2.0}, "native", 0.0)


def test_all_classes_in_place_of_the_others_are_caught(monkeypatch):
    # FedGKD's distillation from one model, not FedNTD's.
    monkeypatch.setattr(fedntd, "not_true", lambda labels, classes: torch.arange(classes).expand(len(labels), classes))
    for closed in (True, False):
        with pytest.raises(AssertionError):
            test_two_rounds_by_hand(closed)
    for compute in ("native", "torch"):
        with pytest.raises(AssertionError):
            test_runs_like_the_reference({"beta": 4.0}, compute, 0.0)
    with pytest.raises(AssertionError):
        test_the_true_logit_has_no_part()
