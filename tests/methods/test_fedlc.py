"""FedLC: loss CE(z − τ·n_{k,c}^{−1/4}, y), n_{k,c} the client's samples of class c; a class that it lacks drops out."""

import math

import pytest
import torch
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import vectors
from tests.reference.setting import CLASSES, Setting, normalised, samples
from tests.reference.tables import COST, SETTINGS, TableLocal, bits_of, play_tables
from tests.reference.watching import bytes_of, watched
from torch.nn import functional

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods import fedlc
from fedtrip.methods.fedlc import CalibratedCrossEntropy, FedLc, margins
from fedtrip.methods.interface import Batch, BatchGradient, ClosedLoss, Memory, make_method
from fedtrip.training.prepared_model import PreparedModel

ACROSS = pytest.mark.parametrize("closed", [True, False], ids=["closed", "autograd"])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@ACROSS
def test_two_rounds_by_hand(closed):
    # A sample of class 0; the client has 16 of class 0, 1 of class 1, none of class 2: n^{−1/4} = ½, 1, ∞. With τ = 3,
    # z = 0 the logits are −1.5 and −3, p₀ = σ(1.5); slopes p₀ − 1, 1 − p₀, and nothing for class 2. η = ½:
    # w = ½(1 − p₀)(1, −1, 0). Round 2: the logits are 1 − p₀ further apart; the step is ½(1 − σ(1.5 + (1 − p₀))).
    first = 0.5 * (1 - sigmoid(1.5))
    second = first + 0.5 * (1 - sigmoid(1.5 + 2 * first))
    found = play_tables(
        FedLc(tau=3.0), b=[[[9, 9, 9]]], labels=[[0]], counts=[[16, 1, 0]], chosen=[(0,), (0,)], start=[[0, 0, 0]],
        lr=0.5, steps=1, closed=closed,
    )  # fmt: skip
    assert found == [[pytest.approx([x, -x, 0.0], abs=1e-6)] for x in (first, second)]
    assert [table[0][2] for table in found] == [0.0, 0.0]


@ACROSS
def test_two_rounds_of_two_clients_in_plain_numbers(closed):
    # Client 0 has 16 and 81 samples of two classes, client 1 one of each: n^{−1/4} = ½, ⅓ and 1, 1. τ = 6: margins 3, 2
    # and 6, 6.
    margin, labels, w, wanted = [[3, 2], [6, 6]], [[0], [1]], [0.2, -0.1], []
    for _ in range(2):
        ends = []
        for k in (0, 1):
            v = list(w)
            for _ in range(2):
                p = sigmoid((v[0] - margin[k][0]) - (v[1] - margin[k][1]))
                g = p - (labels[k][0] == 0)
                v = [v[0] - 0.5 * g, v[1] + 0.5 * g]
            ends.append(v)
        w = [(ends[0][c] + 3 * ends[1][c]) / 4 for c in (0, 1)]
        wanted.append([w])
    found = play_tables(
        FedLc(tau=6.0), b=[[[0, 0]]] * 2, labels=labels, counts=[[16, 81], [1, 1]], chosen=[(0, 1)] * 2,
        start=[[0.2, -0.1]], lr=0.5, steps=2, closed=closed, samples=[1, 3],
    )  # fmt: skip
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-5, atol=1e-6)


def test_the_margins():
    assert margins(torch.tensor([1, 16, 81, 0]), 2.0).tolist() == pytest.approx([2.0, 1.0, 2 / 3, math.inf])
    n = torch.arange(1, 2000)
    assert margins(n, 1.0).tolist() == pytest.approx([k**-0.25 for k in range(1, 2000)], rel=1e-7)


def batch_of(rows=6, classes=4, seed=3):
    logits = 3 * torch.stack(vectors(rows, size=classes, seed=seed))
    return Batch(torch.arange(rows), torch.arange(rows) % (classes - 1), logits, None)  # none of the last class


@pytest.mark.parametrize("counts", [[5, 9, 2, 7], [5, 9, 2, 0]], ids=["all classes", "one missing"])
@pytest.mark.parametrize("tau", [0.3, 1.0, 8.0])
def test_the_loss_and_its_closed_gradient_are_those_of_the_written_objective(counts, tau):
    batch, n = batch_of(), torch.tensor(counts)
    own = CalibratedCrossEntropy(margins(n, tau))
    leaf = batch.logits.double().requires_grad_()
    powers = (leaf - tau * n.double() ** -0.25).exp()  # exp(−∞) = 0
    written = -(powers.gather(1, batch.labels[:, None])[:, 0] / powers.sum(1)).log().mean()
    written.backward()
    assert float(own(batch)) == pytest.approx(float(written.detach()), rel=1e-5)
    found = own.gradient(batch)
    assert found.representation is None
    assert found.logits.dtype is torch.float32
    torch.testing.assert_close(found.logits.double(), leaf.grad, rtol=1e-5, atol=1e-8)
    assert isinstance(own, ClosedLoss)
    student = batch.logits.clone().requires_grad_()
    own(Batch(batch.rows, batch.labels, student, None)).backward()
    torch.testing.assert_close(student.grad.double(), leaf.grad, rtol=1e-5, atol=1e-7)
    if counts[3] == 0:
        assert found.logits[:, 3].tolist() == student.grad[:, 3].tolist() == [0.0] * 6  # exactly


def test_logits_are_not_changed_in_place():
    batch = batch_of()
    before, own = batch.logits.clone(), CalibratedCrossEntropy(margins(torch.tensor([5, 9, 2, 0]), 1.0))
    own(batch)
    own.gradient(batch)
    assert torch.equal(batch.logits, before)


def lacking(**changes):
    """Clients that lack classes: 0 has no class 1, 2 has class 2 alone."""
    pairs = samples()
    pairs[0] = (pairs[0][0], torch.where(pairs[0][1] == 1, 0, pairs[0][1]))
    pairs[2] = (pairs[2][0], torch.full_like(pairs[2][1], 2))
    return Setting(pairs=pairs, per_round=3, **changes)


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_nothing_moves_the_head_of_a_class_that_a_client_lacks(compute):
    setting = lacking(rounds=3, momentum=0.9, compute=compute)
    wire, _, _ = watched(setting, "fedlc")
    flat = PreparedModel.of(setting.federation("fedlc")).flat
    seen = set()
    for (t, _, k), upload in wire.up.items():
        held = set(setting.pairs[k][1].tolist())
        for name in ("head.weight", "head.bias"):
            before, after = (flat.part(name, v["w"]) for v in (wire.down[t, 0, k], upload))
            moved = {c for c in range(CLASSES) if not torch.equal(before[c], after[c])}
            seen.add(len(held))
            assert moved == (held if len(held) > 1 else set())  # one class alone has probability 1 from the start
    assert seen == {1, 2, 3}


def test_one_sample_of_one_class_is_no_division_by_zero():
    result = Setting(pairs=samples([1] * 5), rounds=2).run("fedlc")
    assert all(bool(torch.isfinite(value).all()) for value in result.state.values())


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize("tau", [1.0, 4.0])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_runs_like_the_reference(tau, compute, momentum):
    assert_follows(lacking(momentum=momentum, weight_decay=0.02, lr=0.05, compute=compute), "fedlc", tau=tau)


def test_runs_like_the_reference_with_batch_norm():
    assert_follows(normalised(rounds=4), "fedlc", tau=5.0)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("lacks", [False, True])
def test_without_margins_it_is_fedavg_to_the_bit(setting, lacks):
    if lacks:
        setting = setting.but(pairs=lacking().pairs)
    usual = bits_of("fedavg", setting)
    assert bits_of("fedlc", setting, tau=0.0) == usual
    assert bits_of("fedlc", setting) != usual


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_equal_counts_are_fedavg_to_rounding(compute):
    pairs = [(x, torch.arange(9) % 3) for x, _ in samples([9] * 5)]
    setting = Setting(pairs=pairs, momentum=0.9, compute=compute)
    assert apart(setting.run("fedlc", tau=7.0).state, setting.run("fedavg").module) < 2e-6


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_models_are_evaluated_by_their_plain_logits(compute):
    setting = lacking(compute=compute)
    result = setting.run("fedlc", tau=9.0)
    x, y = setting.pairs[0]  # the test set is client 0's samples
    with torch.no_grad():
        logits = result.module.eval()(x)
    assert result.records[-1].scores["loss"] == pytest.approx(float(functional.cross_entropy(logits, y)), rel=1e-5)
    assert result.records[-1].accuracy == pytest.approx(float((logits.argmax(1) == y).double().mean()))


def test_its_costs():
    setting = normalised(rounds=2)
    wire, records, history = watched(setting, "fedlc")
    _, usual, _ = watched(setting, "fedavg")
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * bytes_of(setting)[1]
        assert record.client_memory == 0
        assert record.macs == plain.macs  # no pass, no gradient and no product of matrices more
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters"}
    assert history[-1][0].state == {}
    attaching = FedLc().attaching(COST)
    assert (attaching.flops, attaching.formula, attaching.communication) == (5 * 4 * 3, "K·M·C", "0")
    assert (FedLc().tau, FedLc.momentum, FedLc.weighting) == (1.0, 0.9, "samples")


def test_a_run_counts_the_classes():
    setting = Setting(rounds=1)
    per_client = [result.gflops_per_round for result in (setting.run("fedlc"), setting.run("fedavg"))]
    steps = sum(math.ceil(len(y) / 4) for _, y in setting.pairs) / 5
    assert 1e9 * (per_client[0] - per_client[1]) == pytest.approx(steps * 4 * CLASSES, rel=1e-6)


def test_the_loss_replaces_the_tasks():
    local = TableLocal([[0, 2]], [0], closed=True, round_number=1, lr=0.1, steps=1, initial=torch.zeros(2))
    FedLc().client({"w": torch.zeros(2)}, Memory(), local)
    ((loss, extra),) = local.losses
    assert extra is None
    assert isinstance(loss, CalibratedCrossEntropy)


SMOOTHED = {"name": "classification", "label_smoothing": 0.1}


@pytest.mark.parametrize("task", ["regression", "binary", "multilabel", "tokens", SMOOTHED], ids=str)
def test_another_loss_is_refused_by_name(task):
    name = task if isinstance(task, str) else "classification"
    with pytest.raises(UserError, match=f"method 'fedlc'.*task '{name}"):
        fedtrip.run(fedtrip.Experiment(method="fedlc", task=task, dataset="npz:there-is-no-such-file.npz"))


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "much"])
def test_bad_options_are_refused(value):
    with pytest.raises(UserError, match=f"'fedlc': option 'tau' is {value!r}"):
        make_method("fedlc", {"tau": value}, model="cnn", dataset="mnist")


def added(counts, tau):
    return -RIGHT(counts, tau).clamp(max=1e30)


def never_missing(counts, tau):
    return RIGHT(counts.clamp(min=1), tau)  # a class without samples has a margin of τ


def root_in_place_of_fourth_root(counts, tau):
    return (tau * counts.double() ** -0.5).float()


RIGHT = margins


@pytest.mark.parametrize("wrong", [added, never_missing, root_in_place_of_fourth_root])
def test_wrong_margins_are_caught(monkeypatch, wrong):
    monkeypatch.setattr(fedlc, "margins", wrong)
    for closed in (True, False):
        with pytest.raises(AssertionError):
            test_two_rounds_by_hand(closed)
    for compute in ("native", "torch"):
        with pytest.raises(AssertionError):
            test_runs_like_the_reference(4.0, compute, 0.0)


def test_zero_times_infinity_is_caught(monkeypatch):
    # τ·n^{−1/4} with τ = 0 and n = 0, without the way around: not a number, in every client that lacks a class.
    def client(self, received, memory, local):  # noqa: ARG001
        margin = (self.tau * local.class_counts.double() ** -0.25).float()
        return fedlc.Reply(upload=local.train(received, loss=CalibratedCrossEntropy(margin)))

    monkeypatch.setattr(FedLc, "client", client)
    with pytest.raises(AssertionError):
        test_without_margins_it_is_fedavg_to_the_bit(Setting(), lacks=True)


def test_a_gradient_with_the_batchs_counts_is_caught(monkeypatch):
    def gradient(_self, batch):
        own = margins(torch.bincount(batch.labels, minlength=batch.logits.shape[1]), 4.0)
        return BatchGradient(RIGHT_GRADIENT(CalibratedCrossEntropy(own), batch).logits)

    monkeypatch.setattr(CalibratedCrossEntropy, "gradient", gradient)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(4.0, "native", 0.0)


RIGHT_GRADIENT = CalibratedCrossEntropy.gradient
