"""The models of token ids: parameters by hand, one output a sequence or one a place, and what a place may see."""

import pytest
import torch
from torch.nn import functional

from fedtrip.errors import UserError
from fedtrip.inputs import InputSpec
from fedtrip.models import Outputs, build_model, check_model
from fedtrip.models.representation import Tap

NAMES = ["lstm", "transformer"]
TEXT = InputSpec.tokens(7, vocabulary=11)
EVERY_PLACE = Outputs(11, (7, 11))


def ids(count=3):
    return torch.randint(0, 11, (count, 7), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lstm", 80 * 8 + 1024 * (8 + 256 + 2) + 1024 * (256 + 256 + 2) + 257 * 80),
        ("transformer", (80 + 80) * 64 + 2 * (4 * 64 + 65 * 192 + 65 * 64 + 65 * 256 + 257 * 64) + 128 + 65 * 80),
    ],
)
def test_parameters_by_hand(name, parameters):
    model = build_model(name, InputSpec.tokens(80, vocabulary=80), 80, seed=0)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_what_the_task_wants(name):
    check_model(build_model(name, TEXT, EVERY_PLACE, 0), TEXT, EVERY_PLACE)
    check_model(build_model(name, TEXT, 3, 0), TEXT, 3)
    check_model(build_model(name, TEXT, Outputs(2, None), 0), TEXT, 2)


@pytest.mark.parametrize("name", NAMES)
def test_a_sequence_has_the_outputs_of_its_last_place(name):
    """The same seed draws the same weights, whichever places have outputs."""
    everywhere, last = build_model(name, TEXT, EVERY_PLACE, 0), build_model(name, TEXT, 11, 0)
    assert torch.allclose(everywhere(ids())[:, -1], last(ids()), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_place_sees_itself_and_those_before_it(name):
    model = build_model(name, TEXT, EVERY_PLACE, seed=0)
    before = model(ids())
    changed = ids()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    moved = (model(changed) - before).abs().amax((0, 2)) > 1e-6
    assert moved.tolist() == [False] * 4 + [True] * 3


def test_the_attention_of_a_head_is_torchs():
    attention = build_model("transformer", TEXT, 3, seed=0).layers[0].attention[1]
    x = torch.randn(2, 7, 64, generator=torch.Generator().manual_seed(0))
    q, k, v = (part.view(2, 7, 4, 16).transpose(1, 2) for part in attention.of_inputs(x).split(64, dim=2))
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = attention.of_heads(seen.transpose(1, 2).reshape(2, 7, 64))
    assert torch.allclose(attention(x), expected, atol=1e-6)


@pytest.mark.parametrize(("name", "width"), [("lstm", 256), ("transformer", 64)])
def test_the_representation_is_what_the_head_sees_of_all_places_that_have_outputs(name, width):
    for outputs, features in ((11, width), (EVERY_PLACE, 7 * width)):
        model = build_model(name, TEXT, outputs, seed=0)
        with Tap(model) as tap:
            model(ids())
            assert tap.take().shape == (3, features)


@pytest.mark.parametrize("name", NAMES)
def test_other_inputs_and_outputs_are_refused_by_name(name):
    for inputs, message in (
        ((1, 28, 28), f"model '{name}' takes one array of token ids (integers), but the samples are of shape (1, 28"),
        (InputSpec.tokens(2, 7, vocabulary=11), f"model '{name}' cannot take samples of shape (2, 7); accepted: (pla"),
    ):
        with pytest.raises(UserError) as refused:
            build_model(name, inputs, 3, seed=0)
        assert message in str(refused.value)
    with pytest.raises(UserError) as refused:
        build_model(name, TEXT, Outputs(11, (5, 11)), seed=0)
    assert f"model '{name}' cannot return shape (5, 11) for a sequence of shape (7,)" in str(refused.value)
    assert "accepted: (11,) for the sequence, or (7, 11) for its places" in str(refused.value)


def test_a_model_of_images_has_no_outputs_for_places():
    with pytest.raises(UserError, match=r"model 'mlp' has 11 outputs for a sample, but the task wants shape \(7, 11\)"):
        build_model("mlp", (7,), EVERY_PLACE, seed=0)
    with pytest.raises(UserError, match="model 'mlp' takes one array of numbers or pixels"):
        build_model("mlp", TEXT, 3, seed=0)
