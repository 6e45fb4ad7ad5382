"""FedDecorr: loss CE + β·ℓ, ℓ = (1/M)·mean over i ≠ j of (XᵀX)_ij², X the batch's representations, standardised."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows
from tests.reference.quadratic import vectors
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.tables import COST, SETTINGS, bits_of, play_tables
from tests.reference.watching import bytes_of, watched
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods import feddecorr
from fedtrip.methods.feddecorr import Decorrelation, FedDecorr, decorrelation_loss, decorrelation_slope
from fedtrip.methods.interface import Batch, BatchGradient, ClosedLoss, CountedLoss, make_method
from fedtrip.training.costs import pass_cost

ACROSS = pytest.mark.parametrize("closed", [True, False], ids=["closed", "autograd"])


@ACROSS
def test_two_rounds_by_hand(closed):
    # M = 3 samples, r = 2 features, the columns u = (1, 0, −1) and v = (1, −1, 0), of mean 0 and variance 1; b is where
    # they start, η = 1.5, β = 1, one step a round. ℓ = C²/3 with C = u·v = 1. ∂ℓ/∂y = ⅔C·(v, u), less what is along the
    # column itself: ⅔(v − u/2) = (⅓, −⅔, ⅓) for u, ⅔(u − v/2) = (⅓, ⅓, −⅔) for v. u = (½, 1, −1.5), v = (½, −1.5, 1).
    # Round 2: variance 3.5/2, C = −2.75/1.75; slopes ⅔·C/1.75·(v − u·C/2) and the same with u and v exchanged. The
    # quadratic has moved away from b too: u − (1, 0, −1) and v − (1, −1, 0).
    u, v = (0.5, 1.0, -1.5), (0.5, -1.5, 1.0)
    c = -2.75 / 1.75
    slope_u = [2 / 3 * c / 1.75 * (y - x * c / 2) + x - start for x, y, start in zip(u, v, (1, 0, -1), strict=True)]
    slope_v = [2 / 3 * c / 1.75 * (x - y * c / 2) + y - start for x, y, start in zip(u, v, (1, -1, 0), strict=True)]
    second = [[x - 1.5 * s, y - 1.5 * t] for x, s, y, t in zip(u, slope_u, v, slope_v, strict=True)]
    start = [[1, 1], [0, -1], [-1, 0]]
    found = play_tables(
        FedDecorr(beta=1.0), b=[start], labels=[[0, 0, 0]], chosen=[(0,), (0,)], start=start, lr=1.5, steps=1,
        closed=closed,
    )  # fmt: skip
    for table, wanted in zip(found, ([*zip(u, v, strict=True)], second), strict=True):
        torch.testing.assert_close(torch.tensor(table), torch.tensor(wanted), rtol=1e-5, atol=1e-5)


def in_plain_numbers(x):
    """ℓ of a list of rows, written down again."""
    samples_, features = len(x), len(x[0])
    columns = []
    for column in zip(*x, strict=True):
        mean = math.fsum(column) / samples_
        variance = math.fsum((value - mean) ** 2 for value in column) / (samples_ - 1)
        columns.append([(value - mean) / math.sqrt(variance + 1e-8) for value in column])
    products = [sum(x * y for x, y in zip(a, b, strict=True)) for a in columns for b in columns if a is not b]
    return sum(product**2 for product in products) / (features * (features - 1)) / samples_


def test_the_loss_is_the_formula():
    for samples_, features in ((2, 2), (7, 3), (5, 11)):
        x = torch.stack(vectors(samples_, size=features, seed=4)).double()
        assert float(decorrelation_loss(x)) == pytest.approx(in_plain_numbers(x.tolist()), rel=1e-9)


@pytest.mark.parametrize("samples_", [2, 3, 10, 64])
def test_equal_and_opposite_columns(samples_):
    x = torch.randn(samples_, 1, generator=torch.Generator().manual_seed(1)).double()
    for other in (x, -x, 40 * x + 7):
        value = float(decorrelation_loss(torch.cat([x, other], 1)))
        assert value == pytest.approx((samples_ - 1) ** 2 / samples_, rel=1e-6)


def test_orthogonal_columns_have_none():
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert float(decorrelation_loss(x)) == 0
    assert float(decorrelation_slope(x).abs().max()) == 0


def test_scaling_and_shifting_a_column_changes_nothing():
    x = torch.stack(vectors(6, size=4)).double()
    other = x * torch.tensor([3.0, 1.0, -0.5, 20.0]) + torch.tensor([0.0, 5.0, 1.0, -2.0])
    assert float(decorrelation_loss(other)) == pytest.approx(float(decorrelation_loss(x)), rel=1e-6)


def slope(x, beta=1.0):
    """The closed gradient of a batch with these representations."""
    batch = Batch(torch.arange(len(x)), torch.zeros(len(x)), torch.zeros(len(x), 2), x)
    found = Decorrelation(beta).gradient(batch)
    assert found.logits is None
    assert found.representation.dtype is torch.float32
    return found.representation


def autograds_slope(x, beta=1.0):
    leaf = x.double().requires_grad_()
    (beta * decorrelation_loss(leaf)).backward()
    return leaf.grad


@pytest.mark.parametrize(("samples_", "features"), [(3, 2), (4, 5), (17, 40), (50, 100)])
def test_the_closed_gradient_is_autograds(samples_, features):
    x = torch.relu(torch.stack(vectors(samples_, size=features, seed=2)) + 0.3)
    wanted = autograds_slope(x, 1.7)
    torch.testing.assert_close(slope(x, 1.7).double(), wanted, rtol=1e-4, atol=1e-6 * float(wanted.abs().max()))
    assert float(wanted.norm()) > 1e-3
    assert isinstance(Decorrelation(1.0), ClosedLoss)
    assert isinstance(Decorrelation(1.0), CountedLoss)


def test_the_gradient_is_that_of_the_written_objective():
    x = torch.stack(vectors(5, size=3, seed=6)).double()
    for i, j in ((0, 0), (3, 1), (4, 2)):
        more, less = x.clone(), x.clone()
        more[i, j] += 1e-5
        less[i, j] -= 1e-5
        difference = (in_plain_numbers(more.tolist()) - in_plain_numbers(less.tolist())) / 2e-5
        assert float(slope(x.float())[i, j]) == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_a_dead_column_gives_nothing_and_has_a_finite_gradient():
    # One column is 0, one the same number everywhere; the others go on as if they were alone.
    x = torch.relu(torch.stack(vectors(8, size=5, seed=3)))
    x[:, 1], x[:, 3] = 0.0, 0.7
    alone = [0, 2, 4]
    pairs, pairs_alone = 5 * 4, 3 * 2
    value, value_alone = (float(decorrelation_loss(part.double())) for part in (x, x[:, alone]))
    assert value * pairs == pytest.approx(value_alone * pairs_alone, rel=1e-6)
    for found in (slope(x), autograds_slope(x)):
        assert bool(torch.isfinite(found).all())
        assert float(found[:, [1, 3]].abs().max()) < 1e-2 * float(found.abs().max())
    torch.testing.assert_close(slope(x).double(), autograds_slope(x), rtol=1e-4, atol=1e-6)
    assert float(slope(torch.zeros(4, 3)).abs().max()) == 0


@pytest.mark.parametrize("shape", [(1, 5), (6, 1), (1, 1)])
def test_one_sample_or_one_feature_has_nothing_to_compare(shape):
    x = torch.ones(shape, requires_grad=True)
    assert float(decorrelation_loss(x)) == 0
    batch = Batch(torch.arange(shape[0]), torch.zeros(shape[0]), torch.zeros(shape[0], 2), x.detach())
    assert Decorrelation(3.0).gradient(batch) == BatchGradient()


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_batches_of_one_are_fedavg_to_the_bit(compute):
    setting = Setting(batch_size=1, rounds=3, compute=compute)
    assert bits_of("feddecorr", setting, beta=9.0) == bits_of("fedavg", setting)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_runs_like_the_reference(compute, momentum):
    # larger batches than elsewhere: the variance of three samples may be small, and multiplies rounding
    setting = Setting(pairs=samples((16, 24, 9, 32, 15)), batch_size=8, momentum=momentum, lr=0.05, compute=compute)
    assert_follows(setting.but(weight_decay=0.02), "feddecorr", beta=0.4)


def test_runs_like_the_reference_with_batch_norm():
    assert_follows(normalised(rounds=4), "feddecorr", beta=0.4)


@pytest.mark.parametrize("middle", [nn.ReLU, nn.Tanh])
def test_a_dead_network_still_trains(middle):
    def dead():
        net = Net(middle())
        nn.init.zeros_(net.body[0].weight)  # every feature is the same number in every sample
        nn.init.constant_(net.body[0].bias, -0.5)
        return net

    for compute in ("native", "torch"):
        result = Setting(module=made(dead), rounds=2, compute=compute).run("feddecorr", beta=5.0)
        assert [dict(record.refused) for record in result.records] == [{}] * 2  # not finite would be refused


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_without_weight_it_is_fedavg_to_the_bit(setting):
    usual = bits_of("fedavg", setting)
    assert bits_of("feddecorr", setting, beta=0.0) == usual
    assert bits_of("feddecorr", setting) != usual


def test_the_representation_may_be_a_named_layer():
    setting = Setting(rounds=3)

    def run(name):
        described = setting.experiment("feddecorr", beta=1.0).but(representation=name)
        return fedtrip.run(described, model=setting.module, data=setting.data, workers=1)

    default = setting.run("feddecorr", beta=1.0)
    assert run("body").model_sha256 == default.model_sha256
    assert apart(run("body.0").state, default.module) > CLOSE


@pytest.mark.parametrize("compute", ["native", "torch"])
def test_its_costs(compute):
    setting = Setting(rounds=2, local_epochs=2, compute=compute)
    wire, records, history = watched(setting, "feddecorr")
    _, usual, _ = watched(setting, "fedavg")
    r = 5
    assert pass_cost(setting.module, (6,)).r == r
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * bytes_of(setting)[1]
        assert record.client_memory == 0
        # XᵀX of every batch, and two such products on the way back; no pass and no gradient more
        assert record.macs - plain.macs == 2 * sum(len(setting.pairs[k][1]) for k in record.clients) * 3 * r**2
        assert wire.names(wire.up, record.round) == {"w"}
    assert history[-1][0].state == {}
    attaching = FedDecorr().attaching(COST)
    assert (attaching.flops, attaching.formula, attaching.communication) == (3 * 5 * 4 * 36, "3K·M·r²", "0")
    assert (FedDecorr().beta, FedDecorr.momentum, FedDecorr.weighting) == (0.1, 0.9, "samples")


def test_the_products_that_are_declared_are_those_that_torch_sees():
    from fedtrip.training.costs import _FlopCounter

    x = torch.stack(vectors(8, size=6)).requires_grad_()
    with _FlopCounter() as seen:
        decorrelation_loss(x).backward()
    assert seen.flops // 2 == 8 * Decorrelation(1.0).operations(COST)


def test_a_model_without_a_representation_is_refused_by_name():
    only_convolutions = nn.Sequential(nn.Conv2d(1, 3, 8), nn.Flatten())
    pairs = [(torch.randn(6, 1, 8, 8), torch.arange(6) % 3) for _ in range(3)]
    data, described = fedtrip.from_clients(pairs, pairs[0]), fedtrip.Experiment(method="feddecorr", per_round=2)
    with pytest.raises(UserError, match=r"method 'feddecorr': the model has no torch.nn.Linear .*representation="):
        fedtrip.run(described, model=only_convolutions, data=data, workers=1)
    with pytest.raises(UserError, match=r"method 'feddecorr': the representation.* depends on no trained parameter"):
        fedtrip.run(fedtrip.Experiment(method="feddecorr", model="logistic"), workers=1)


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "much"])
def test_bad_options_are_refused(value):
    with pytest.raises(UserError, match=f"'feddecorr': option 'beta' is {value!r}"):
        make_method("feddecorr", {"beta": value}, model="cnn", dataset="mnist")


def not_over_the_batch(x):
    return len(x) * RIGHT(x)  # the factor 1/M is missing


def with_all_samples(x):
    return (len(x) / max(len(x) - 1, 1)) ** 2 * RIGHT(x)  # variance with M, not M − 1


def of_the_means(x):
    return decorrelation_loss_of(x, centred=False)


def decorrelation_loss_of(x, *, centred):
    apart_ = x - x.mean(0) if centred else x
    standard = apart_ / torch.sqrt(apart_.square().sum(0) / (len(x) - 1) + 1e-8)
    c = standard.T @ standard
    return (c - torch.diag(c.diagonal())).square().sum() / (c.numel() - len(c)) / len(x)


RIGHT = decorrelation_loss


@pytest.mark.parametrize("wrong", [not_over_the_batch, with_all_samples, of_the_means])
def test_a_wrong_loss_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(feddecorr, "decorrelation_loss", wrong)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("torch", 0.0)
    if wrong is not of_the_means:  # the columns by hand have mean 0
        with pytest.raises(AssertionError):
            test_two_rounds_by_hand(closed=False)


def along_the_column(x):
    """A gradient that takes the variance for a constant."""
    columns = x.double().T
    apart_ = columns - columns.mean(1, keepdim=True)
    s = (apart_.square().sum(1, keepdim=True) / (len(x) - 1) + 1e-8).sqrt()
    c = (apart_ / s) @ (apart_ / s).T
    c.fill_diagonal_(0)
    return (4 / (len(x) * c.numel() * (1 - 1 / len(c))) * c @ (apart_ / s) / s).T


def with_the_diagonal(x):
    """A gradient of all squares, those of the diagonal too, where a column's length is fixed but for 1e-8."""
    leaf = x.double().requires_grad_()
    columns = leaf - leaf.mean(0)
    c = columns.T @ columns
    (c.square().sum() / (c.numel() - len(c)) / len(x)).backward()
    return leaf.grad


@pytest.mark.parametrize("wrong", [along_the_column, with_the_diagonal])
def test_a_wrong_closed_gradient_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(feddecorr, "decorrelation_slope", wrong)
    for test in (lambda: test_two_rounds_by_hand(closed=True), lambda: test_the_closed_gradient_is_autograds(4, 5),
                 lambda: test_runs_like_the_reference("native", 0.0)):  # fmt: skip
        with pytest.raises(AssertionError):
            test()


def test_a_variance_without_a_floor_is_caught(monkeypatch):
    monkeypatch.setattr(feddecorr, "DEAD_EPS", 0.0)
    with pytest.raises(AssertionError):
        test_a_dead_column_gives_nothing_and_has_a_finite_gradient()
    with pytest.raises(AssertionError):
        test_a_dead_network_still_trains(nn.Tanh)  # a ReLU would let nothing of it through
