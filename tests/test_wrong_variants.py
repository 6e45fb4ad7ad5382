"""Wrong variants of rules that the tests of their families catch: an obvious mistake does not go unseen."""

import math

import numpy as np
import pytest
import torch
from tests.attacks import test_attacks
from tests.codecs import test_codecs
from tests.combining import test_combining
from tests.methods import test_fedgkd, test_moon
from tests.optimizers import test_optimizers
from tests.partitions import test_bins, test_division, test_feature
from tests.schedules import test_schedules
from tests.selection import test_selection
from tests.server_optimizers import test_server_optimizers
from tests.tasks import test_scores, test_tasks

from fedtrip.attacks.corrupt import Corrupt
from fedtrip.attacks.dropout import Dropout
from fedtrip.attacks.interface import Faults
from fedtrip.codecs.int8 import Int8
from fedtrip.codecs.interface import Codec
from fedtrip.codecs.topk import TopK
from fedtrip.combining.mean import Mean
from fedtrip.combining.median import Median
from fedtrip.combining.trimmed import Trimmed
from fedtrip.methods import moon
from fedtrip.methods.fedgkd import Distillation
from fedtrip.methods.interface import BatchGradient
from fedtrip.optimizers._clip import Clip
from fedtrip.optimizers._moments import Moments
from fedtrip.optimizers.adam import Adam
from fedtrip.optimizers.adamw import AdamW
from fedtrip.optimizers.sgd import Sgd
from fedtrip.partitions import _division, dirichlet_classes, quantity
from fedtrip.partitions.bins import Bins
from fedtrip.partitions.feature import Noise, Rotation
from fedtrip.partitions.shards import Shards
from fedtrip.randomness import stream
from fedtrip.schedules.cosine import Cosine
from fedtrip.schedules.exponential import Exponential
from fedtrip.schedules.step import Step
from fedtrip.selection.available import Available
from fedtrip.selection.uniform import Uniform
from fedtrip.selection.weighted import Weighted
from fedtrip.server_optimizers._adaptive import Adaptive
from fedtrip.server_optimizers.adagrad import Adagrad
from fedtrip.server_optimizers.adam import Adam as ServerAdam
from fedtrip.server_optimizers.momentum import Momentum
from fedtrip.server_optimizers.yogi import Yogi
from fedtrip.tasks import _cross_entropy, _logistic
from fedtrip.tasks.binary import Binary
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.interface import Kept
from fedtrip.tasks.multilabel import Multilabel
from fedtrip.tasks.regression import Regression
from fedtrip.tasks.tokens import Tokens


def int8(draw=lambda rng, d: rng.random(d), levels=127):
    """Int8's `pack` with another draw before the floor, or another number of levels."""

    def pack(_self, x, rng):
        scale = np.float32(float(x.abs().amax()) / levels)
        q = np.clip(np.floor(x.double().numpy() / float(scale or 1) + draw(rng, x.numel())), -levels, levels)
        head = np.frombuffer(scale.tobytes(), np.uint8)
        return torch.from_numpy(np.concatenate([head, q.astype(np.int8).view(np.uint8)]))

    return pack


def topk(order):
    """TopK's `pack` that sends the first k of another order."""
    right = TopK.pack

    def pack(self, x, rng):
        chosen = np.zeros(len(x), dtype=np.float32)
        places = order(x.numpy())[: self.count(len(x))]
        chosen[places] = 1
        # a huge sign for what this variant would send; then its own numbers in their places
        marked = right(self, torch.from_numpy(chosen), rng)
        k = self.count(len(x))
        marked[4 : 4 + 4 * k] = torch.from_numpy(x.numpy()[np.sort(places)].view(np.uint8).copy())
        return marked

    return pack


def forgetful(self, upload, reference, kept, stream_of):
    """Error feedback that keeps nothing."""
    payload, _ = RIGHT_ENCODE(self, upload, reference, {}, stream_of)
    return payload, {name: torch.zeros_like(upload[name]) for name in kept or upload}


RIGHT_ENCODE = Codec.encode


def without_reference(self, upload, _reference, kept, stream_of):
    return RIGHT_ENCODE(self, upload, {}, kept, stream_of)


def trimmed(cut_of, from_above=True):
    def cut(self, matrix):
        cut = cut_of(self.beta, len(matrix))
        return matrix.sort(dim=0).values[cut : len(matrix) - (cut if from_above else 0)].mean(0)

    return cut


def every(rule):
    """A rule of combining that does this to every name's matrix."""
    return lambda _self, differences, _weights, state, _rng: ({n: rule(m) for n, m in differences.items()}, state)


def moments(root=torch.sqrt, corrects_mean=True, corrects_square=True):
    def move(self, w, h, state, lr):
        m, v = state["mean"], state["square"]
        state["steps"] += 1
        t = int(state["steps"])
        m.mul_(self.beta1).add_(h, alpha=1 - self.beta1)
        v.mul_(self.beta2).addcmul_(h, h, value=1 - self.beta2)
        m_hat = m / (1 - self.beta1**t) if corrects_mean else m
        v_hat = v / (1 - self.beta2**t) if corrects_square else v
        w.sub_(lr * m_hat / (root(v_hat) + self.eps))

    return move


def adamw_with_coupled_decay(self, w, h, state, *, lr, linear, decay):
    h.add_(w, alpha=linear + decay)
    self.move(w, h, state, lr)


def adam_without_correction(self, w, h, state, *, lr, linear, decay):  # noqa: ARG001
    h.add_(w, alpha=decay)
    self.move(w, h, state, lr)


def adaptive(root=torch.sqrt, corrected=False, squares=lambda delta: delta * delta):
    def call(self, w, proposed, state):
        delta = proposed - w
        m = self.beta1 * state["m"] + (1 - self.beta1) * delta
        v = self.second_moment(state["v"], squares(delta))
        step = m / (1 - self.beta1) if corrected else m
        return w + self.lr * step / (root(v) + self.tau), {"m": m, "v": v}

    return call


def selecting(weights_of):
    def call(_self, rng, _t, clients, per_round, samples_of):
        weights = np.array([float(weights_of(samples_of(k))) for k in range(clients)])
        return tuple(sorted(rng.choice(clients, per_round, replace=False, p=weights / weights.sum()).tolist()))

    return call


def all_of_them(_self, _rng, _t, clients, per_round, _samples_of):
    return tuple(range(clients))[:per_round]


def dropping(share):
    def faults(self, seed, t, chosen):
        rng = np.random.default_rng([seed, t])
        return Faults(dropped=tuple(k for k in chosen if rng.random() < share(self.p)))

    return faults


RIGHT_FAULTS = Corrupt.faults


def corrupting_dropped_ones_too(self, seed, t, chosen):
    return Faults(RIGHT_FAULTS(self, seed, t, chosen).dropped, RIGHT_FAULTS(Corrupt(self.p), seed, t, chosen).spoiled)


RIGHT_SLOPE = moon.contrastive_slope


def distilling(slope):
    """FedGKD's closed gradient that does this with both probabilities, γ, T and n."""

    def gradient(self, batch):
        student, teacher = (torch.softmax(z / self.temperature, 1) for z in (batch.logits, self.taught[batch.rows]))
        return BatchGradient(logits=slope(student, teacher, self.gamma, self.temperature, len(student)))

    return gradient


def sharding(order, clients_of):
    """Shards' `owners` with another order of the samples, or another division of the shards."""

    def owners(self, labels, data):
        shards = self.shards * data.clients
        owners = np.empty(len(labels), dtype=np.intp)
        ends = np.arange(shards + 1) * len(labels) // shards
        owners[order(labels)] = clients_of(self.shards, data.clients).repeat(np.diff(ends))
        return owners

    return owners


SHARDS_IN_PLACES = np.array([1, 0, 1, 0])
"""the clients of test_shards_by_hand's shards"""


def binned(edges):
    def bin_of(self, targets):
        values = targets.numpy().ravel()
        return np.searchsorted(edges(np.sort(values), self.bins), values, side="right")

    return bin_of


def noisy(level, key=lambda sample: sample):
    right = Noise.__call__

    def seen(self, client, samples, x):
        other = Noise(level(self.sigma, client, self.clients) * self.clients / max(client, 1), self.clients, self.seed)
        return right(other, client, key(samples), x)

    return seen


INT8, TOPK = (
    test_codecs.test_int8_is_within_one_step_and_right_in_the_mean,
    test_codecs.test_topk_by_hand_with_ties_to_the_lower_index,
)
BY_HAND = test_combining.test_by_hand
ADAM = lambda: test_optimizers.test_against_torchs_own(0.3, 0.05)  # noqa: E731
SERVER = test_server_optimizers


def by_hand(rule, second_moment, beta1):
    return lambda: SERVER.test_adaptive_rules_by_hand(rule, second_moment, beta1)


SERVER_ADAM = by_hand("adam", lambda v, s: 0.99 * v + 0.01 * s, 0.9)
YOGI = by_hand("yogi", lambda v, s: v - 0.01 * s * math.copysign(v != s, v - s), 0.9)
ADAGRAD = by_hand("adagrad", lambda v, s: v + s, 0.0)

VARIANTS = {
    "int8 with u in [-0.5, 0.5)": (Int8, "pack", int8(lambda rng, d: rng.random(d) - 0.5), INT8),
    "int8 to the nearest": (Int8, "pack", int8(lambda _rng, _d: 0.5), INT8),
    "int8 always down": (Int8, "pack", int8(lambda _rng, _d: 0.0), INT8),
    "int8 with 63 levels": (Int8, "pack", int8(levels=63), INT8),
    "topk of the smallest": (TopK, "pack", topk(lambda x: np.argsort(np.abs(x), kind="stable")), TOPK),
    "topk by value": (TopK, "pack", topk(lambda x: np.argsort(-x, kind="stable")), TOPK),
    "topk with ties to the higher": (TopK, "pack", topk(lambda x: np.argsort(np.abs(x), kind="stable")[::-1]), TOPK),
    "topk of fewer": (TopK, "count", lambda self, d: int(self.share * d), test_codecs.test_lengths_of_the_papers_mlp),
    "no error feedback": (
        Codec,
        "encode",
        forgetful,
        lambda: test_codecs.test_error_feedback_loses_nothing_in_the_sum("topk:0.05"),
    ),
    "codec of the model itself": (
        Codec,
        "encode",
        without_reference,
        lambda: test_codecs.test_the_difference_to_what_was_received_is_coded_and_buffers_are_not("topk:0.1"),
    ),
    "trimmed of nothing": (Trimmed, "_trimmed", trimmed(lambda _beta, _n: 0), BY_HAND),
    "trimmed rounded up": (Trimmed, "_trimmed", trimmed(lambda beta, n: math.ceil(beta * n)), BY_HAND),
    "trimmed by one more": (
        Trimmed,
        "_trimmed",
        trimmed(lambda beta, n: min(int(beta * n) + 1, (n - 1) // 2)),
        BY_HAND,
    ),
    "trimmed below only": (Trimmed, "_trimmed", trimmed(lambda beta, n: int(beta * n), from_above=False), BY_HAND),
    "torch's own median": (
        Median,
        "__call__",
        every(lambda m: m.median(dim=0).values),
        test_combining.test_the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle,
    ),
    "median that is a mean": (
        Median,
        "__call__",
        every(lambda m: m.mean(0)),
        lambda: test_combining.test_outliers_stay_outside_the_honest_hull("median", (1e30, 1e30)),
    ),
    "mean without weights": (Mean, "__call__", every(lambda m: m.mean(0)), BY_HAND),
    "Adam without sqrt": (Moments, "move", moments(root=lambda v: v), ADAM),
    "Adam without correction of m": (Moments, "move", moments(corrects_mean=False), ADAM),
    "Adam without correction of v": (Moments, "move", moments(corrects_square=False), ADAM),
    "Adam without the method's correction": (Adam, "step", adam_without_correction, ADAM),
    "AdamW with coupled decay": (
        AdamW,
        "step",
        adamw_with_coupled_decay,
        lambda: test_optimizers.test_adamw_decouples_the_decay_but_not_a_correction(0.05),
    ),
    "MOON's gradient the other way": (
        moon,
        "contrastive_slope",
        lambda z, apart, tau: RIGHT_SLOPE(z, -apart, tau),
        test_moon.test_the_closed_gradient_by_hand,
    ),
    "MOON's gradient without 1/τ": (
        moon,
        "contrastive_slope",
        lambda z, apart, tau: tau * RIGHT_SLOPE(z, apart, tau),
        test_moon.test_the_closed_gradient_by_hand,
    ),
    "MOON's gradient of a sum": (
        moon,
        "contrastive_slope",
        lambda z, apart, tau: len(z) * RIGHT_SLOPE(z, apart, tau),
        test_moon.test_the_closed_gradient_by_hand,
    ),
    "MOON's gradient with torch's floor of a norm": (
        moon,
        "DEAD_EPS",
        1e-8,
        lambda: test_moon.test_a_dead_representation_has_a_finite_gradient("z"),
    ),
    "FedGKD's gradient the other way": (
        Distillation,
        "gradient",
        distilling(lambda s, t, gamma, temperature, n: gamma / 2 * temperature * (t - s) / n),
        test_fedgkd.test_the_closed_gradient_by_hand,
    ),
    "FedGKD's gradient without T": (
        Distillation,
        "gradient",
        distilling(lambda s, t, gamma, temperature, n: gamma / 2 * (s - t) / n),  # noqa: ARG005
        test_fedgkd.test_the_closed_gradient_by_hand,
    ),
    "FedGKD's gradient of a sum": (
        Distillation,
        "gradient",
        distilling(lambda s, t, gamma, temperature, n: gamma / 2 * temperature * (s - t)),  # noqa: ARG005
        test_fedgkd.test_the_closed_gradient_by_hand,
    ),
    "travel without momentum": (
        Sgd,
        "travel",
        lambda _self, lr, steps, **_kept: lr * steps,
        test_optimizers.test_travel_is_what_steps_on_a_constant_gradient_go,
    ),
    "clipping what is short": (
        Clip,
        "cut",
        lambda self, v: v.mul_(self.bound / v.norm()),
        test_optimizers.test_clipping_cuts_to_the_bound_and_leaves_what_is_shorter,
    ),
    "server Adam without sqrt": (Adaptive, "__call__", adaptive(root=lambda v: v), SERVER_ADAM),
    "server Adam with bias correction": (Adaptive, "__call__", adaptive(corrected=True), SERVER_ADAM),
    "server Adam of |Δ|": (Adaptive, "__call__", adaptive(squares=torch.abs), SERVER_ADAM),
    "server Adam that adds": (ServerAdam, "second_moment", lambda _self, v, s: v + s, SERVER_ADAM),
    "server v from zero": (Adaptive, "start", lambda _self, w: {"m": w * 0, "v": w * 0}, SERVER_ADAM),
    "Yogi with the sign turned": (
        Yogi,
        "second_moment",
        lambda self, v, s: v + (1 - self.beta2) * s * (v - s).sign(),
        YOGI,
    ),
    "Yogi that is Adam": (Yogi, "second_moment", ServerAdam.second_moment, YOGI),
    "Adagrad that forgets": (Adagrad, "second_moment", lambda _self, v, s: 0.9 * v + s, ADAGRAD),
    "server momentum that averages": (
        Momentum,
        "__call__",
        lambda self, w, p, s: (w - (u := self.beta * s["u"] + (1 - self.beta) * (w - p)), {"u": u}),
        SERVER.test_momentum_three_rounds,
    ),
    "weighted that is uniform": (
        Weighted,
        "__call__",
        Uniform.__call__,
        test_selection.test_weighted_follows_the_numbers_of_samples,
    ),
    "weighted by squares": (
        Weighted,
        "__call__",
        selecting(lambda n: n**2),
        test_selection.test_weighted_follows_the_numbers_of_samples,
    ),
    "available always": (
        Available,
        "__call__",
        Uniform.__call__,
        test_selection.test_available_takes_all_that_are_there_if_they_are_few,
    ),
    "the first clients": (
        Available,
        "__call__",
        all_of_them,
        test_selection.test_available_with_certainty_is_a_uniform_choice_of_all,
    ),
    "dropout of the others": (
        Dropout,
        "faults",
        dropping(lambda p: 1 - p),
        test_attacks.test_clients_drop_out_as_often_as_asked_and_a_larger_share_only_adds,
    ),
    "corrupt also the dropped": (
        Corrupt,
        "faults",
        corrupting_dropped_ones_too,
        test_attacks.test_corrupted_clients_are_among_those_that_answer_and_drop_outs_are_the_same,
    ),
    "exponential from round 0": (
        Exponential,
        "__call__",
        lambda self, t, _rounds: self.gamma**t,
        test_schedules.test_by_hand,
    ),
    "step one round early": (
        Step,
        "__call__",
        lambda self, t, _rounds: self.gamma ** (t // self.every),
        test_schedules.test_by_hand,
    ),
    "cosine of a whole turn": (
        Cosine,
        "__call__",
        lambda self, t, n: self.end + (1 - self.end) * (1 + math.cos(2 * math.pi * (t - 1) / n)) / 2,
        test_schedules.test_by_hand,
    ),
    "squared error without half": (
        Regression,
        "summed_loss",
        lambda _self, o, y: (o.reshape(-1) - y).square().sum(),
        test_tasks.test_regressions_step_is_the_gradient_of_half_the_squared_error,
    ),
    "outputs that spread over targets": (
        Regression,
        "summed_loss",
        lambda _self, o, y: (o - y).square().sum() / 2,
        test_tasks.test_regressions_step_is_the_gradient_of_half_the_squared_error,
    ),
    "shards of unsorted samples": (
        Shards,
        "owners",
        sharding(lambda labels: np.arange(len(labels)), lambda _c, _n: SHARDS_IN_PLACES),
        test_division.test_shards_by_hand,
    ),
    "neighbouring shards for a client": (
        Shards,
        "owners",
        sharding(lambda labels: np.argsort(labels, kind="stable"), lambda c, n: np.arange(n).repeat(c)),
        test_division.test_shards_by_hand,
    ),
    "quantity of equal sizes": (
        quantity,
        "proportions",
        lambda _rng, _beta, clients: np.full(clients, 1 / clients),
        test_division.test_quantity_by_hand,
    ),
    "a client that is left with none": (
        _division,
        "_with_one_each",
        lambda owners, _clients: owners,
        test_division.test_quantity_by_hand,
    ),
    "every class divided alike": (
        dirichlet_classes,
        "stream",
        lambda seed, purpose, _label: stream(seed, purpose, 0),
        test_division.test_dirichlet_classes_by_hand,
    ),
    "bins of equal width": (
        Bins,
        "bin_of",
        binned(lambda s, bins: np.linspace(s[0], s[-1], bins + 1)[1:-1]),
        test_bins.test_bins_by_hand,
    ),
    "bins that begin one too early": (
        Bins,
        "bin_of",
        binned(lambda s, bins: s[np.arange(1, bins) * len(s) // bins]),
        test_bins.test_bins_by_hand,
    ),
    "turned with the clock": (
        Rotation,
        "__call__",
        lambda self, client, _samples, x: torch.rot90(x, -(4 * client // self.clients), dims=(-2, -1)).contiguous(),
        test_feature.test_rotation_by_hand,
    ),
    "noise whose variance is the level": (
        Noise,
        "__call__",
        noisy(lambda sigma, client, clients: math.sqrt(sigma * client / clients)),
        test_feature.test_noise_by_hand,
    ),
    "noise by the place in the batch": (
        Noise,
        "__call__",
        noisy(lambda sigma, client, clients: sigma * client / clients, lambda samples: torch.arange(len(samples))),
        lambda: test_feature.test_a_sample_looks_the_same_alone_and_among_others_and_in_any_order("feature:noise"),
    ),
    "mean in place of the sum": (
        Classification,
        "summed_loss",
        Classification.loss,
        test_tasks.test_classification_by_hand,
    ),
    "class weights divided by the samples": (
        Classification,
        "count",
        lambda _self, y: len(y),
        test_tasks.test_class_weights_smoothing_and_focal_loss_by_hand,
    ),
    "smoothing that leaves the true class out": (
        _cross_entropy,
        "coefficients",
        lambda y, classes, weights, smoothing: (
            torch.where(torch.nn.functional.one_hot(y, classes) > 0, 1 - smoothing, smoothing / (classes - 1)).double()
            * (1 if weights is None else weights)
        ),
        test_tasks.test_class_weights_smoothing_and_focal_loss_by_hand,
    ),
    "focal factor of the probability itself": (
        _cross_entropy,
        "_focal_factor",
        lambda p, gamma: p**gamma,
        test_tasks.test_class_weights_smoothing_and_focal_loss_by_hand,
    ),
    "the weight of ones on zeros": (
        _logistic,
        "total_loss",
        lambda z, y, weight, right=_logistic.total_loss: right(-z, 1 - y, weight),
        test_tasks.test_binary_by_hand,
    ),
    "a logit of zero is a one": (
        Binary,
        "predicted_classes",
        lambda _self, outputs: (outputs.flatten() >= 0).long(),
        test_tasks.test_binary_by_hand,
    ),
    "ties lost": (
        test_scores,
        "auc",
        lambda scores, positive: (scores[positive][:, None] > scores[~positive]).mean(),
        test_scores.test_the_area_by_hand_with_ties,
    ),
    "blocks in another order": (
        Kept,
        "__add__",
        lambda self, later: Kept(later.blocks + self.blocks),
        test_scores.test_kept_values_stay_in_the_order_of_the_blocks_and_arrays_are_added,
    ),
    "labels summed, samples counted": (
        Multilabel,
        "count",
        lambda _self, y: len(y),
        test_tasks.test_multilabel_by_hand,
    ),
    "places that do not count are counted": (
        Tokens,
        "count",
        lambda _self, y: y.numel(),
        test_tasks.test_tokens_by_hand,
    ),
    "one mean for all numbers": (
        Regression,
        "sums",
        lambda self, o, y, right=Regression.sums: {
            **(sums := right(self, o, y)),
            "y": sums["y"].sum(keepdims=True) / 2,
        },
        test_tasks.test_regression_of_several_numbers_by_hand,
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_caught(name, monkeypatch):
    owner, attribute, wrong, test = VARIANTS[name]
    test()  # the rule as it is passes
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        test()
