"""FedDisco: p_k ∝ max(0, n_k/Σn − a·d_k + b), d_k the distance of k's labels from the uniform distribution."""

import math

import pytest
import torch
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import QuadraticLocal, combined, vectors
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.watching import bytes_of, watched
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.feddisco import FedDisco
from fedtrip.methods.interface import CostSymbols, Memory, Server, Upload, make_method


class Labelled(QuadraticLocal):
    class_counts = None


def play(method, counts, b, chosen, samples):
    """w after rounds of the chosen clients, who have so many samples of each class; rate ½, two steps."""
    w, places = torch.zeros(1), []
    for number, clients in enumerate(chosen, 1):
        uploads = []
        for k in clients:
            local = Labelled(b[k], round_number=number, lr=0.5, steps=2, initial=w)
            local.class_counts = torch.tensor(counts[k])
            uploads.append(Upload(k, samples[k], method.client({"w": w}, Memory(), local).upload))
        w = method.aggregate(Server({"w": w}, round=number, clients=len(b)), combined(method, uploads)).w
        places += w.tolist()
    return places


HAND = {
    "counts": [[4, 0], [2, 2], [0, 2]],
    "samples": [4, 4, 2],
    "b": [[16.0], [8.0], [-16.0]],
    "chosen": [(0, 1, 2), (0, 2)],
}


def test_two_rounds_by_hand():
    # Two classes: KL is log 2 for one class alone, 0 for both alike: d = ½, 0, ½. a = ½, b = 0.1: 0.4 − 0.25 + 0.1 =
    # 0.25; 0.4 + 0.1 = 0.5; 0.2 − 0.25 + 0.1 = 0.05: p = 5/16, 10/16, 1/16. A client ends at w/4 + ¾b: 12, 6, −12:
    # w = (60 + 60 − 12)/16 = 6.75. Round 2, clients 0 and 2: d = ½, ½; 2/3 − 0.15 and 1/3 − 0.15, or 31 to 11 of 42;
    # 13.6875 and −10.3125: w = (31·13.6875 − 11·10.3125)/42.
    wanted = [6.75, (31 * 13.6875 - 11 * 10.3125) / 42]
    assert play(FedDisco(), **HAND) == pytest.approx(wanted, rel=1e-6)


def test_no_weight_is_negative():
    # a = 1, b = 0: 0.4 − ½ and 0.2 − ½ are cut to 0, and the client with even labels is alone: 6. In round 2 two
    # clients have 2/3 − ½ and 1/3 − ½ → 0: client 0 alone, at 1.5 + 12.
    assert play(FedDisco(a=1.0, b=0.0), **HAND) == pytest.approx([6.0, 13.5], rel=1e-6)


def test_if_no_weight_is_left_the_samples_count():
    # a = 3: 0.4 − 1.5, 0.4, 0.2 − 1.5 leave client 1 alone: 6; then none is left: (4·13.5 − 2·10.5)/6.
    assert play(FedDisco(a=3.0, b=0.0), **HAND) == pytest.approx([6.0, 5.5], rel=1e-6)


def test_the_distances():
    counts = torch.tensor([3, 1, 0, 0])
    q, u = [0.75, 0.25, 0.0, 0.0], 0.25
    wanted = {
        "kl": 0.75 * math.log(3) + 0.25 * math.log(1),
        "cosine": 1 - 0.25 / (math.sqrt(0.625) * 0.5),
        "l1": sum(abs(x - u) for x in q),
        "l2": math.sqrt(sum((x - u) ** 2 for x in q)),
    }
    for measure, value in wanted.items():
        assert FedDisco(measure=measure).distance(counts) == pytest.approx(value, rel=1e-12)
        assert FedDisco(measure=measure).distance(torch.tensor([5, 5, 5])) == pytest.approx(0.0, abs=1e-15)
    one = FedDisco().distance(torch.tensor([0, 7, 0]))
    assert one == pytest.approx(math.log(3), rel=1e-12)


def uploads_of(n, d):
    return [
        Upload(k, n_k, {"w": torch.zeros(1), "d": torch.tensor([x])})
        for k, (n_k, x) in enumerate(zip(n, d, strict=True))
    ]


def test_only_kl_is_scaled():
    uploads = uploads_of([1, 1], [0.1, 0.3])
    assert FedDisco().weights(uploads) == pytest.approx([2 * (0.5 - 0.125 + 0.1), 2 * (0.5 - 0.375 + 0.1)])
    for measure in ("cosine", "l1", "l2"):
        weights = FedDisco(measure=measure).weights(uploads)
        assert weights == pytest.approx([2 * (0.5 - 0.05 + 0.1), 2 * (0.5 - 0.15 + 0.1)])


def test_even_labels_everywhere_are_no_division_by_zero():
    assert FedDisco().weights(uploads_of([3, 5], [0.0, 0.0])) == pytest.approx([3.8, 5.8])


def test_a_client_cannot_make_itself_heavier_with_a_negative_distance():
    assert FedDisco().weights(uploads_of([3, 5], [-9.0, 1.0])) == FedDisco().weights(uploads_of([3, 5], [0.0, 1.0]))
    assert min(FedDisco().weights(uploads_of([3, 5], [-1.0, 1.0]))) >= 0


@pytest.mark.parametrize("measure", ["kl", "l2"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "momentum": 0.9,
            "weight_decay": 0.01,
            "local_epochs": 2,
            "keep_optimizer_state": True,
            "module": made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2))),
        },
    ],
    ids=["plain", "everything"],
)
def test_without_its_weights_it_is_fedavg_to_the_bit(changes, measure):
    setting = Setting(**changes)
    usual = setting.run("fedavg").model_sha256
    assert setting.run("feddisco", a=0.0, b=0.0, measure=measure).model_sha256 == usual
    assert setting.run("feddisco", measure=measure).model_sha256 != usual


def test_equal_distributions_and_sizes_are_fedavg_to_rounding():
    pairs = [
        (x, torch.arange(6) % 3 if k else torch.tensor([0, 0, 1, 1, 2, 2])) for k, (x, _) in enumerate(samples([6] * 5))
    ]
    setting = Setting(pairs=pairs)
    assert apart(setting.run("feddisco", a=0.9, b=0.0).state, setting.run("fedavg").module) < 1e-6


@pytest.mark.parametrize("measure", ["kl", "cosine", "l1", "l2"])
def test_runs_like_the_reference(measure):
    assert_follows(
        Setting(per_round=4, weight_decay=0.02), "feddisco", measure=measure, a=0.9 if measure == "kl" else 0.3, b=0.05
    )


def test_batch_norm_is_averaged_with_the_same_weights():
    assert_follows(normalised(rounds=4, per_round=3), "feddisco", a=1.5, b=0.3)


def test_another_rule_of_combining_gets_the_weights():
    setting = Setting(per_round=4)
    robust = setting.experiment("feddisco").but(combine="median")
    assert len(fedtrip.run(robust, model=setting.module, data=setting.data, workers=1).records) == setting.rounds


def test_the_clients_are_fedavgs():
    w, initial = vectors(2)
    Labelled.class_counts = torch.tensor([1, 2])
    local = Labelled(w.tolist(), round_number=1, lr=0.1, steps=1, initial=initial)
    FedDisco().client({"w": w}, Memory(), local)
    assert local.corrections == [None]
    assert (FedDisco().a, FedDisco().b, FedDisco().measure, FedDisco.momentum) == (0.5, 0.1, "kl", 0.9)


def test_one_number_goes_up():
    setting = normalised(rounds=2)
    wire, records, history = watched(setting, "feddisco")
    _, model = bytes_of(setting)
    for record in records:
        assert record.bytes_down == 2 * model
        assert record.bytes_up == 2 * (model + 4)
        assert record.client_memory == 0
        assert wire.names(wire.up, record.round) == {"w", "buffers", "counters", "d"}
    assert history[0][0].state == {}
    for (_, _, k), upload in wire.up.items():
        counts = torch.bincount(setting.pairs[k][1], minlength=3)
        assert float(upload["d"]) == pytest.approx(FedDisco().distance(counts), rel=1e-6)
    attaching = FedDisco().attaching(CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0))
    assert (attaching.flops, attaching.formula, attaching.communication) == (0.0, "0", "0")


def test_a_task_without_classes_is_refused_by_name():
    with pytest.raises(UserError, match=r"method 'feddisco'.*task 'regression'"):
        fedtrip.run(fedtrip.Experiment(method="feddisco", task="regression"), workers=1)


@pytest.mark.parametrize(("option", "value"), [("a", -1), ("a", math.nan), ("b", math.inf), ("measure", "tv")])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'feddisco': option '{option}' is {value!r}"):
        make_method("feddisco", {option: value}, model="cnn", dataset="mnist")


RIGHT = FedDisco.weights


def of_samples(_self, uploads):
    return [float(upload.samples) for upload in uploads]


def not_scaled(self, uploads):
    return RIGHT(FedDisco(a=self.a, b=self.b, measure="l1"), uploads)  # d is not scaled to a sum of 1


@pytest.mark.parametrize("wrong", [of_samples, not_scaled])
def test_wrong_weights_are_caught(monkeypatch, wrong):
    monkeypatch.setattr(FedDisco, "weights", wrong)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("kl")
