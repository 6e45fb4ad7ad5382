"""The initial weights of the built-in models: torch's distribution, from raw bits of our own."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from fedtrip.models import MODELS, Outputs, build_model, usual_samples
from fedtrip.models.initial import draw_initial_weights
from fedtrip.randomness import normals, stream, uniforms


def test_weights_by_hand():
    """Weight and bias of each layer in turn, (2u − 1)/√inputs: 4 inputs of the first layer, 100 of the second."""
    model = build_model("mlp", (2, 2), 3, seed=7)
    u = iter(uniforms(stream(7, "model"), 400 + 100 + 300 + 3).tolist())
    for parameter, inputs in zip(model.parameters(), (4, 4, 100, 100), strict=True):
        expected = [np.float32((2 * next(u) - 1) / math.sqrt(inputs)) for _ in range(parameter.numel())]
        assert parameter.flatten().tolist() == pytest.approx(expected, rel=0, abs=6e-8)


def test_the_inputs_of_a_convolution_are_its_channels_times_its_kernel():
    model = nn.Sequential(nn.Conv2d(3, 400, kernel_size=(2, 5)))
    draw_initial_weights(model, 0)
    bound = 1 / math.sqrt(3 * 2 * 5)
    for parameter in model.parameters():
        assert 0.95 * bound < float(parameter.detach().abs().max()) <= bound


def test_an_embedding_is_normal_and_an_lstm_uniform_by_its_hidden_size():
    """In the order of the layers: 6 normals; then (2u − 1)/√4 for the 4·4·(2 + 4) weights and 2·16 biases; then the
    norm, which is 1 and 0 also if somebody changed it."""
    layers = nn.ModuleList([nn.Embedding(3, 2), nn.LSTM(2, 4), nn.LayerNorm(2), nn.BatchNorm2d(2), nn.GroupNorm(1, 2)])
    for norm in layers[2:]:
        nn.init.constant_(norm.weight, 5.0)
        nn.init.constant_(norm.bias, 5.0)
    layers[3].running_mean.fill_(7.0)
    draw_initial_weights(layers, 3)
    rng = stream(3, "model")
    assert layers[0].weight.flatten().tolist() == normals(rng, 6).astype(np.float32).tolist()
    expected = ((2 * uniforms(rng, 16 * 6 + 32) - 1) / 2).astype(np.float32)
    assert torch.cat([p.detach().flatten() for p in layers[1].parameters()]).tolist() == expected.tolist()
    for norm in layers[2:]:
        assert (norm.weight.tolist(), norm.bias.tolist()) == ([1, 1], [0, 0])
    assert layers[3].running_mean.tolist() == [0, 0]


@pytest.mark.parametrize("name", MODELS)
def test_they_are_distributed_as_torchs_own(name):
    inputs, classes = usual_samples(name)
    ours = build_model(name, inputs, classes, seed=0)
    tokens = {"vocabulary": inputs.vocabulary, "outputs": Outputs.of_classes(classes)}
    theirs = type(ours)(inputs.shape, **(tokens if inputs.vocabulary else {"classes": classes}))
    for (key, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert one.shape == other.shape
        assert one.dtype == torch.float32
        assert one.requires_grad
        if float(other.detach().min()) == float(other.detach().max()):  # 1 and 0 of the normalisations
            assert torch.equal(one, other), key
        elif one.numel() > 50:
            some = [p.detach().flatten()[:20_000].numpy() for p in (one, other)]
            assert stats.ks_2samp(*some).pvalue > 1e-4, key


def test_the_seed_decides_and_torchs_generator_is_left_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    once, again, other = (torch.cat([p.detach().flatten() for p in build_model("mlp", (6,), 3, s).parameters()])
                          for s in (1, 1, 2))  # fmt: skip
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


def test_the_weights_are_these():
    """Whoever changes one of these numbers changes the bits of every run."""
    model = build_model("cnn", (1, 28, 28), 10, seed=0)
    found = [float(parameter.detach().flatten()[0]) for parameter in model.parameters()]
    assert found == [
        0.025651758536696434,
        0.15762551128864288,
        0.08160563558340073,
        -0.01974564976990223,
        -0.029177071526646614,
        -0.03420325741171837,
        -0.0033235715236514807,
        0.08255708962678909,
        -0.08796770870685577,
        -0.03397618606686592,
    ]


def test_a_layer_without_a_rule_is_refused():
    with pytest.raises(TypeError, match="no initial weights are known for BatchNorm1d"):
        draw_initial_weights(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), 0)
