"""MOON: loss CE + μ·ℓ, ℓ = −log[e^{cos(z, z_glob)/τ} / (e^{cos(z, z_glob)/τ} + e^{cos(z, z_hist)/τ})]."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows
from tests.reference.quadratic import QuadraticLocal, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised, samples
from torch import nn

import fedtrip
from fedtrip.methods.interface import Batch, ClosedLoss, Memory
from fedtrip.methods.moon import Contrast, Moon, contrastive_loss


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def cosine_slope(z, a):
    """∂cos(z, a)/∂z, in plain numbers."""
    c, size = cosine(z, a), math.hypot(*z)
    return [y / (size * math.hypot(*a)) - c * x / size**2 for x, y in zip(z, a, strict=True)]


def local_rounds(b, samples_, chosen, *, mu, tau, lr, steps, start):
    """MOON on quadratics whose representation is w itself: the formulas, in plain Python floats."""
    w, hist = list(start), {}
    after = []
    for clients in chosen:
        uploads = {}
        for k in clients:
            z, z_glob, z_hist = list(w), w, hist.get(k, w)
            for _ in range(steps):
                like, unlike = math.exp(cosine(z, z_glob) / tau), math.exp(cosine(z, z_hist) / tau)
                wrong = unlike / (like + unlike)  # ∂ℓ/∂cos_glob = −wrong/τ, ∂ℓ/∂cos_hist = +wrong/τ
                near, far = cosine_slope(z, z_glob), cosine_slope(z, z_hist)
                slope = [mu * wrong / tau * (f - n) for f, n in zip(far, near, strict=True)]
                z = [x - lr * ((x - target) + s) for x, target, s in zip(z, b[k], slope, strict=True)]
            uploads[k] = hist[k] = z
        whole = sum(samples_[k] for k in clients)
        w = [sum(samples_[k] * uploads[k][i] for k in clients) / whole for i in range(len(w))]
        after.append(w)
    return after


def test_three_rounds_by_plain_numbers():
    b, n, chosen = [[1.0, -0.5], [-0.5, 1.0], [0.3, 0.2]], [1, 3, 2], [(0, 1), (0, 2), (0, 1)]
    wanted = local_rounds(b, n, chosen, mu=1.5, tau=0.4, lr=0.25, steps=2, start=(0.2, 0.4))
    history = play(Moon(mu=1.5, tau=0.4), b=b, samples=n, chosen=chosen, lr=0.25, start=(0.2, 0.4))
    assert torch.tensor(w_of(history)).flatten().tolist() == pytest.approx(
        torch.tensor(wanted).flatten().tolist(), abs=1e-5
    )
    without = local_rounds(b, n, chosen, mu=0.0, tau=0.4, lr=0.25, steps=2, start=(0.2, 0.4))
    assert max(abs(x - y) for x, y in zip(wanted[-1], without[-1], strict=True)) > 0.05


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_the_loss_is_the_formula(tau):
    z, z_glob, z_hist = (torch.stack(vectors(4, size=5, seed=s)) for s in (1, 2, 3))
    terms = []
    for a, g, h in zip(z.tolist(), z_glob.tolist(), z_hist.tolist(), strict=True):
        like, unlike = math.exp(cosine(a, g) / tau), math.exp(cosine(a, h) / tau)
        terms.append(-math.log(like / (like + unlike)))
    assert float(contrastive_loss(z, z_glob, z_hist, tau)) == pytest.approx(sum(terms) / 4, rel=1e-5)


def test_the_gradient_pulls_to_the_global_and_away_from_the_historical_representation():
    z, z_glob, z_hist = (torch.stack(vectors(4, size=5, seed=s)).requires_grad_() for s in (1, 2, 3))
    contrastive_loss(z, z_glob.detach(), z_hist.detach(), 0.5).backward()
    assert z.grad.norm() > 0.01
    assert z_glob.grad is None
    assert z_hist.grad is None
    with torch.no_grad():
        stepped = z - 0.1 * z.grad
        cos = nn.functional.cosine_similarity
        gained = (cos(stepped, z_glob) - cos(stepped, z_hist)) - (cos(z, z_glob) - cos(z, z_hist))
    assert bool((gained > 0).all())


def test_global_and_history_are_represented_by_their_own_parameters():
    w, hist, b = vectors(3, size=3)
    local = QuadraticLocal(b.tolist(), round_number=4, lr=0.1, steps=1, initial=w)
    reply = Moon().client({"w": w}, Memory({"w": hist}, last_round=2), local)
    assert local.corrections == [None]
    assert [asked.tolist() for asked in local.asked] == [w.tolist(), hist.tolist()]  # each its own parameters
    assert torch.equal(reply.keep["w"], reply.upload["w"])
    assert not reply.upload["w"].requires_grad


@pytest.mark.parametrize("dead", ["z", "z_glob", "z_hist", "all"])
def test_a_dead_representation_has_a_finite_gradient(dead):
    parts = {name: torch.stack(vectors(2, size=5, seed=s)) for s, name in enumerate(("z", "z_glob", "z_hist"))}
    for name in parts:
        if dead in (name, "all"):
            parts[name] = torch.zeros(2, 5)
    z = parts["z"].requires_grad_()
    loss = contrastive_loss(z, parts["z_glob"], parts["z_hist"], 0.5)
    loss.backward()
    loss = loss.detach()
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(z.grad).all())
    assert float(z.grad.abs().max()) <= 1e4  # with torch's own eps it is 1e8
    assert float(slope(z.detach(), parts["z_glob"], parts["z_hist"]).abs().max()) <= 1e4
    if dead in ("z", "all"):
        assert float(loss) == pytest.approx(math.log(2), rel=1e-6)


def slope(z, z_glob, z_hist, *, mu=1.0, tau=0.5, rows=None):
    """The closed form of the gradient of a batch: `z` is its representation, the others are of all local samples."""
    rows = torch.arange(len(z)) if rows is None else torch.tensor(rows)
    found = Contrast(z_glob, z_hist, mu, tau).gradient(Batch(rows, torch.zeros(len(z)), torch.zeros(len(z), 2), z))
    assert found.logits is None
    assert found.representation.dtype is torch.float32
    return found.representation


def autograds_slope(z, z_glob, z_hist, mu, tau):
    z = z.double().requires_grad_()
    (mu * contrastive_loss(z, z_glob.double(), z_hist.double(), tau)).backward()
    return z.grad


def test_the_closed_gradient_by_hand():
    # z = (3, 4), z_glob = (1, 0), z_hist = (0, 1): cosines 0.6 and 0.8, of slopes (0.64, −0.48)/5 and (−0.48, 0.36)/5.
    # With τ = ½ and μ = 3: 3·σ((0.8 − 0.6)/½)/½·(−1.12, 0.84)/5. A batch of two rows like it has half of that in each.
    z, z_glob, z_hist = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    wanted = [6 / (1 + math.exp(-0.4)) * x for x in (-0.224, 0.168)]
    assert slope(z, z_glob, z_hist, mu=3.0, tau=0.5)[0].tolist() == pytest.approx(wanted, rel=1e-6)
    twice = slope(z.repeat(2, 1), z_glob, z_hist, mu=3.0, tau=0.5, rows=[0, 0])
    assert twice.tolist() == [pytest.approx([x / 2 for x in wanted], rel=1e-6)] * 2


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("features", [2, 5, 16, 40])
def test_the_closed_gradient_is_autograds(features, tau):
    z, z_glob, z_hist = (torch.stack(vectors(6, size=features, seed=s)) for s in (1, 2, 3))
    z[1], z_glob[2], z_hist[3] = 0, 0, 0  # dead
    z[4] *= 1e-6  # nearly dead: below the floor of the norm
    z_glob[5] *= 1e-6
    found, wanted = slope(z, z_glob, z_hist, mu=1.5, tau=tau), autograds_slope(z, z_glob, z_hist, 1.5, tau)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-9)


def test_the_closed_gradient_takes_the_rows_of_the_batch():
    z, z_glob, z_hist = (torch.stack(vectors(4, size=5, seed=s)) for s in (1, 2, 3))
    rows = [3, 0]
    found = slope(z[rows], z_glob, z_hist, rows=rows)
    torch.testing.assert_close(found.double(), autograds_slope(z[rows], z_glob[rows], z_hist[rows], 1.0, 0.5))


def test_a_newcomer_has_no_closed_gradient_at_all():
    z, z_glob = (torch.stack(vectors(4, size=5, seed=s)) for s in (1, 2))
    assert slope(z, z_glob, z_glob, mu=50.0).abs().max() == 0
    assert isinstance(Contrast(z, z_glob, 1.0, 0.5), ClosedLoss)


def test_a_dead_network_still_trains():
    def dead():
        net = Net(nn.ReLU())
        nn.init.constant_(net.body[0].bias, -100.0)
        return net

    result = Setting(module=made(dead), rounds=3, momentum=0.9).run("moon")
    assert result.ended is None
    assert all(bool(torch.isfinite(value).all()) for value in result.state.values())


def test_a_newcomers_round_is_fedavgs():
    setting = Setting(rounds=1, per_round=5, momentum=0.9, local_epochs=2)
    moon, fedavg = setting.run("moon", mu=5.0), setting.run("fedavg")
    assert apart(moon.state, fedavg.module) < 1e-6
    second = setting.but(rounds=2)
    assert apart(second.run("moon", mu=5.0).state, second.run("fedavg").module) > 1e-3


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("options", [{}, {"mu": 2.0, "tau": 0.8}], ids=str)
def test_runs_like_the_reference(momentum, options):
    assert_follows(Setting(momentum=momentum), "moon", **options)


def test_frozen_networks_are_in_eval_mode_with_their_own_buffers():
    # The global and the historical network normalise with their own running statistics, not with the batch's.
    assert_follows(normalised(), "moon", mu=2.0)


def test_the_representation_may_be_a_named_layer():
    # `body` is what the default finds too: the input of the last linear layer.
    setting = Setting(rounds=3)
    default = setting.run("moon")
    named = fedtrip.run(
        setting.experiment("moon").but(representation="body"), model=setting.module, data=setting.data, workers=1
    )
    assert named.model_sha256 == default.model_sha256
    other = fedtrip.run(
        setting.experiment("moon").but(representation="body.0"), model=setting.module, data=setting.data, workers=1
    )
    assert apart(other.state, default.module) > CLOSE


def test_the_representation_is_taken_before_dropout():
    # With dropout before the last layer, a newcomer's z is z_glob itself: ℓ is log 2 and pulls nowhere.
    class Dropped(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))

    setting = Setting(module=made(Dropped), pairs=samples(seed=4), rounds=1, per_round=5, batch_size=100)
    moon, fedavg = setting.run("moon", mu=50.0), setting.run("fedavg")
    assert apart(moon.state, fedavg.module) < 1e-5
