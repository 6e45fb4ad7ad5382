"""What MOON compares: the input of the classifier, before dropout, or a layer by name."""

import pytest
import torch
from torch import nn

from fedtrip.errors import UserError
from fedtrip.inputs import InputSpec
from fedtrip.models import build_model
from fedtrip.models.representation import Tap, check_representation, representation_layer


@pytest.mark.parametrize(
    ("name", "sample_shape", "features", "relu"),
    [("mlp", (1, 28, 28), 100, 2), ("cnn", (1, 28, 28), 84, 10), ("alexnet", (3, 32, 32), 1024, 16)],
)
def test_representation_of_the_papers_models_is_the_last_hidden_layer_after_relu(name, sample_shape, features, relu):
    model = build_model(name, sample_shape, 10, seed=0).train()
    x = torch.randn(5, *sample_shape)
    torch.manual_seed(0)
    with Tap(model) as tap:
        logits = model(x)
        taken = tap.take()
    torch.manual_seed(0)
    assert torch.equal(taken, nn.Sequential(*model)[: relu + 1](x))  # the same dropout masks up to there, none after
    assert taken.shape == (5, features)
    assert (taken >= 0).all()
    assert (taken == 0).any()
    if name != "alexnet":
        assert torch.allclose(nn.Sequential(*model)[-1](taken), logits)


def test_gradients_flow_through_the_representation():
    model = build_model("mlp", (6,), 3, seed=0)
    tap = Tap(model)
    model(torch.randn(4, 6))
    tap.take().square().sum().backward()
    hidden, classifier = nn.Sequential(*model)[1], nn.Sequential(*model)[3]
    assert hidden.weight.grad.abs().sum() > 0
    assert classifier.weight.grad is None


def test_a_representation_is_taken_once_and_is_that_of_the_last_forward_pass():
    model = build_model("mlp", (6,), 3, seed=0)
    tap = Tap(model)
    first, second = torch.randn(4, 6), torch.randn(2, 6)
    model(first)
    model(second)
    assert torch.equal(tap.take(), nn.Sequential(*model)[:3](second))
    tap = Tap(model)
    with pytest.raises(UserError, match=r"representation '3' is not there: the layer did not run"):
        tap.take()


def test_a_removed_tap_leaves_no_hook():
    model = build_model("alexnet", (3, 32, 32), 10, seed=0)
    taps = [Tap(model), Tap(model, "0")]
    for tap in taps:
        tap.remove()
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_tap_changes_no_output_and_no_gradient():
    model, twin = (build_model("cnn", (1, 28, 28), 10, seed=0) for _ in range(2))
    tap = Tap(model)
    x = torch.randn(3, 1, 28, 28)
    for each in (model, twin):
        each(x).logsumexp(1).sum().backward()
    tap.take()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_several_dropouts_before_the_classifier_are_all_left_out_even_in_place():
    model = nn.Sequential(
        nn.Linear(6, 50),
        nn.BatchNorm1d(50),
        nn.ReLU(),
        nn.Dropout(0.5, inplace=True),
        nn.AlphaDropout(0.5),
        nn.Linear(50, 3),
    )
    site = representation_layer(model)
    assert (site.name, site.layer, site.side) == ("3", model[3], "input")
    x = torch.randn(8, 6)
    with Tap(model) as tap:
        model(x)
        taken = tap.take()
    assert torch.equal(taken, model[:3](x))  # batch norm in training mode: its own batch's statistics


def test_one_dropout_module_used_twice_gives_the_representation_of_its_last_use():
    dropout = nn.Dropout(0.5)
    model = nn.Sequential(dropout, nn.Linear(6, 5), nn.ReLU(), dropout, nn.Linear(5, 3))
    with Tap(model) as tap:
        model(torch.randn(4, 6))
        assert tap.take().shape == (4, 5)


def test_one_linear_used_twice_gives_the_input_of_its_last_use():
    linear = nn.Linear(5, 5)
    model = nn.Sequential(linear, nn.ReLU(), nn.Dropout(0.0), linear)
    x = torch.randn(4, 5)
    with Tap(model) as tap:
        model(x)
        assert torch.equal(tap.take(), linear(x).relu())


def test_a_dropout_before_an_earlier_use_of_the_last_linear_does_not_count():
    linear = nn.Linear(5, 5)
    model = nn.Sequential(nn.Dropout(0.0), linear, nn.ReLU(), linear)
    x = torch.randn(4, 5)
    with Tap(model) as tap:
        model(x)
        assert torch.equal(tap.take(), linear(x).relu())


def test_linear_layers_that_share_a_weight_are_told_apart():
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    model[2].weight = model[0].weight
    x = torch.randn(4, 5)
    with Tap(model) as tap:
        model(x)
        assert torch.equal(tap.take(), model[0](x).relu())


class Users(nn.Module):
    """A dropout outside any Sequential, convolutional features."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(2))
        self.dropout = nn.Dropout(0.5)
        self.unused = nn.Conv2d(1, 1, 1)
        self.rnn = nn.LSTM(2, 2)
        self.classifier = nn.Linear(2 * 2 * 2, 3)

    def forward(self, x):
        return self.classifier(input=self.dropout(self.body(x)).flatten(1))


def test_in_a_users_module_the_input_of_the_last_linear_counts_also_as_a_keyword():
    model = Users().eval()
    x = torch.randn(5, 1, 4, 4)
    with Tap(model) as tap:
        model(x)
        assert torch.equal(tap.take(), model.body(x).flatten(1))


def test_a_named_layer_gives_its_output_flattened_and_unspoilt_by_the_next_layer():
    model = Users()
    x = torch.randn(5, 1, 4, 4)
    with Tap(model, "body.0") as tap:
        model(x)
        taken = tap.take()
    assert torch.equal(taken, model.body[0](x).flatten(1))
    assert (taken < 0).any()  # the ReLU after it works in place


def test_without_a_linear_the_layer_has_to_be_named():
    model = nn.Sequential(nn.Conv2d(1, 3, 4), nn.Flatten())
    with pytest.raises(UserError, match=r"no torch.nn.Linear .*name the layer with representation=...; layers: 0, 1"):
        Tap(model)
    with Tap(model, "1") as tap:
        model(torch.randn(2, 1, 4, 4))
        assert tap.take().shape == (2, 3)


@pytest.mark.parametrize("name", ["bdy.0", ""])
def test_an_unknown_layer_is_refused(name):
    with pytest.raises(UserError, match=f"representation '{name}' is unknown;.* accepted: .*body.0"):
        Tap(Users(), name)


def test_a_suggestion_is_made():
    with pytest.raises(UserError, match="did you mean 'classifier'"):
        representation_layer(Users(), "clasifier")


def test_a_layer_that_does_not_run_or_gives_no_tensor_is_refused():
    model = Users()
    with Tap(model, "unused") as tap:
        model(torch.randn(5, 1, 4, 4))
        with pytest.raises(UserError, match="representation 'unused' is not there: the layer did not run"):
            tap.take()
    with Tap(model, "rnn") as tap:
        model.rnn(torch.randn(5, 2))
        with pytest.raises(UserError, match="its output is a tuple"):
            tap.take()
    with Tap(model, "classifier") as tap:
        model.classifier(torch.randn(8))
        with pytest.raises(UserError, match=r"its output is a tensor of shape \(3,\)"):
            tap.take()


def test_a_representation_that_no_training_changes_is_refused():
    """The input itself, as in logistic regression, or what frozen layers make of it: MOON would be FedAvg."""
    logistic = build_model("logistic", (6,), 3, seed=0)
    with pytest.raises(UserError, match="the input of '1', depends on no trained parameter"):
        check_representation(logistic, InputSpec.numbers(6))
    frozen = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    check_representation(frozen, InputSpec.numbers(6))
    frozen[0].requires_grad_(False)
    check_representation(frozen, InputSpec.numbers(6))  # BatchNorm's scale is trained
    frozen[1].requires_grad_(False)
    with pytest.raises(UserError, match="depends on no trained parameter"):
        check_representation(frozen, InputSpec.numbers(6))
    assert frozen.training
    assert frozen[1].num_batches_tracked == 0
    assert not any(layer._forward_pre_hooks for layer in frozen.modules())
