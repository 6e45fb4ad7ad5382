"""Training and scoring by the native engine: the same bits whatever the processor's vectors are.

Between two calls of the engine there is nothing but elementwise arithmetic on vectors, and what the task, the method
and the optimizer do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard

import torch
from torch import Tensor

from fedtrip.inputs import Inputs
from fedtrip.methods.interface import Affine, Batch, BatchGradient, BatchLoss, ClosedLoss, GradientAt, Hidden
from fedtrip.models.chain import Chain
from fedtrip.native.chain import Mode, check_rows
from fedtrip.native.chain import Sgd as NativeSgd
from fedtrip.optimizers.sgd import Sgd
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.interface import Sums, Task, has_closed_gradient
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.trainer import Training, of_the_model

GRADIENT_BATCH = 50
"""Samples at once in a full gradient: what the engine keeps of more would not fit the caches."""


class NativeScorer:
    """Scores models of a flat model's kind, whatever order their weights lie in there."""

    def __init__(self, flat: FlatModel, chain: Chain, task: Task) -> None:
        self._flat, self._orders, self._task = flat, chain.orders, task
        self._chain = chain.native()
        self._w = flat.w
        # only where the task has not its own
        self._hits = task if _is_cross_entropy(task) and type(task).sums is Classification.sums else None

    def load(self, model: Mapping[str, Tensor]) -> None:
        self._w = self._flat.in_orders(model["w"], self._orders)

    def outputs(self, x: Inputs) -> Tensor:
        return self._chain.forward(self._w, _numbers(x))[0]

    def sums(self, x: Inputs, y: Tensor) -> Sums:
        if self._hits is None:
            return self._task.sums(self.outputs(x), y)
        loss, hits = self._chain.evaluate(self._w, _numbers(x), y)
        further = self._hits.further_sums(self.outputs(x), y) if self._hits.has_further_sums else {}
        return {"accuracy": hits, "loss": loss, **further}


class NativeTrainer(NativeScorer):
    """Trains a flat model whose weights lie as the chain wants them; `hidden` names the layer whose input is tapped, if
    that is what the method looks at, and not a representation."""

    def __init__(self, flat: FlatModel, chain: Chain, task: Task, hidden: str | None = None) -> None:
        super().__init__(flat, chain, task)
        self._tapped, self._hidden = chain.tap is not None, hidden
        is_cross_entropy = _is_cross_entropy(task)
        self._has_cross_entropy = is_cross_entropy and type(task).loss is Classification.loss
        self._sums_cross_entropy = is_cross_entropy and type(task).summed_loss is Classification.summed_loss
        self._has_closed_gradient = has_closed_gradient(task)

    def load(self, model: Mapping[str, Tensor]) -> None:
        self._flat.load(model)

    def train(self, training: Training) -> None:
        """K steps; with SGD on the cross entropy, an affine correction and inputs as they are, all of them are one call
        of the engine."""
        x = _numbers(training.x)
        training = replace(training, x=x)
        sgd = self._plain_sgd(training)
        in_python = not training.is_plain or training.augment is not None
        if sgd is None or in_python or not self._has_cross_entropy:
            self._step_by_step(training, sgd)
            return
        self._chain.train(
            self._flat.w, training.state.get("momentum"), x, training.y, training.order, training.batch_size,
            sgd, training.dropout_key,
        )  # fmt: skip

    def _step_by_step(self, training: Training, sgd: NativeSgd | None) -> None:
        """Each step on its own, because Python has a say in the inputs, the gradient or in what becomes of it."""
        check_rows(training.order, len(training.y))
        if self._has_cross_entropy:
            self._chain.check_labels(training.y, len(training.y))
        w, g = self._flat.w, self._flat.g
        start = w.clone() if training.frozen is not None else w
        for step, rows in training.batches():
            if training.direction is None:
                self._batch_gradient(training, rows, step, w)
            else:
                h = training.direction.at(w.clone(), self._look_aside(training, rows, step), step)
                g.copy_(of_the_model(h, w, "gives a direction of"))
            training.hold(g)
            self._step(training, sgd)
            training.put_back(w, start)
        training.forget_frozen()

    def _look_aside(self, training: Training, rows: Tensor, step: int) -> GradientAt:
        """This step's gradient at w_k or beside it; the engine reads whatever vector it is given."""
        w, g, clip = self._flat.w, self._flat.g, training.clip

        def gradient(offset: Tensor | None = None, /) -> Tensor:
            there = w if offset is None else w + of_the_model(offset, w, "looks aside by")
            self._batch_gradient(training, rows, step, there)
            training.hold(g)
            if clip is not None and clip.of == "gradient":
                clip.cut(g)
            return g.clone()

        return gradient

    def _plain_sgd(self, training: Training) -> NativeSgd | None:
        """The steps as h = g + c + a·w with fixed a and c, if they are such; weight decay is a part of a."""
        optimizer, correction = training.optimizer, training.correction
        affine = Affine(0.0) if correction is None else correction
        if type(optimizer) is not Sgd or training.clip is not None or not isinstance(affine, Affine):
            return None
        c = None if affine.c is None else affine.c.to(torch.float32).contiguous()
        return NativeSgd(training.lr, optimizer.momentum, affine.a + training.decay, c)

    def _step(self, training: Training, sgd: NativeSgd | None) -> None:
        """One step from the gradient in g."""
        w, g, clip, optimizer = self._flat.w, self._flat.g, training.clip, training.optimizer
        if sgd is None:
            if clip is not None and clip.of == "gradient" and training.direction is None:
                clip.cut(g)
            if training.correction is not None:
                training.correction.add_to(g, w)
                training.hold(g)
            if clip is not None and clip.of == "step":
                clip.cut(g)
            if type(optimizer) is not Sgd:
                optimizer.step(w, g, training.state, lr=training.lr, linear=0.0, decay=training.decay)
                return
            sgd = NativeSgd(training.lr, optimizer.momentum, training.decay, None)
        self._chain.sgd_step(w, training.state.get("momentum"), g, sgd)

    def _batch_gradient(self, training: Training, rows: Tensor, step: int, w: Tensor) -> None:
        """Write the gradient of a batch's loss, the task's or the method's, at w into g."""
        looks = training.extra_loss is not None or training.loss is not None
        # rows of x are read where they lie, without a copy
        x, places = (training.x, rows) if training.augment is None else (training.batch(rows, step), None)
        outputs, tapped = self._chain.forward(
            w, _numbers(x), places, mode=Mode.TRAINING, key=training.dropout_key, step=step,
            tap=self._tapped and looks,
        )  # fmt: skip
        d_outputs = self._loss_gradient(training, outputs, rows) if training.loss is None else torch.zeros_like(outputs)
        d_representation: Tensor | None = None
        gradients: list[BatchGradient] = []
        if looks:
            batch = Batch(rows, training.y.index_select(0, rows), outputs, *self._seen(tapped, w))
            gradients = [own_gradient(own, batch) for own in (training.loss, training.extra_loss) if own is not None]
        for found in gradients:
            if found.logits is not None:
                d_outputs += found.logits
            if found.representation is not None:
                d_representation = _added(d_representation, found.representation)
        self._chain.backward(d_outputs, d_representation, self._flat.g)
        for found in gradients:
            self._add_to_hidden("weight", found.weight)
            self._add_to_hidden("bias", found.bias)

    def _seen(self, tapped: Tensor | None, w: Tensor) -> tuple[Tensor | None, Hidden | None]:
        """The representation of the last forward pass, or the hidden layer."""
        if tapped is None or self._hidden is None:
            return tapped, None
        weight = self._flat.part(f"{self._hidden}.weight", w)
        assert weight is not None
        return None, Hidden(tapped, weight, self._flat.part(f"{self._hidden}.bias", w))

    def _add_to_hidden(self, name: str, more: Tensor | None) -> None:
        """Add what a loss has found by itself to the gradient of the hidden layer's weight or bias."""
        if more is not None:
            part = self._flat.part(f"{self._hidden}.{name}", self._flat.g)
            assert part is not None
            part += more

    def _loss_gradient(self, training: Training, outputs: Tensor, rows: Tensor) -> Tensor:
        """The gradient of the task's loss of a batch at the outputs."""
        if self._has_cross_entropy:
            return self._chain.softmax_gradient(outputs, training.y, rows, 1 / len(rows))
        y = training.y.index_select(0, rows)
        if self._has_closed_gradient:
            return self._task.summed_gradient(outputs, y).mul_(1 / (self._task.count(y) or 1))
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            return _gradient_at(leaf, self._task.loss(leaf, y))

    def add_gradient(self, x: Inputs, y: Tensor) -> None:
        parts = zip(torch.split(_numbers(x), GRADIENT_BATCH), torch.split(y, GRADIENT_BATCH), strict=True)
        for some, goals in parts:
            self._add_gradient_of_part(some, goals)

    def _add_gradient_of_part(self, x: Tensor, y: Tensor) -> None:
        outputs, _ = self._chain.forward(self._flat.w, x, mode=Mode.KEPT)
        if self._sums_cross_entropy:
            self._chain.check_labels(y, len(x))
            d_outputs = self._chain.softmax_gradient(outputs, y, None, 1.0)
        elif self._has_closed_gradient:
            d_outputs = self._task.summed_gradient(outputs, y)
        else:
            leaf = outputs.requires_grad_()
            d_outputs = _gradient_at(leaf, self._task.summed_loss(leaf, y))
        self._chain.backward(d_outputs, None, self._flat.g, accumulate=True)

    def representations(self, x: Inputs) -> Tensor:
        representation = self._chain.forward(self._flat.w, _numbers(x), tap=True)[1]
        assert representation is not None
        return representation


def _is_cross_entropy(task: Task) -> TypeGuard[Classification]:
    """Whether the task's loss, unless a subclass has its own, is the plain cross entropy."""
    return isinstance(task, Classification) and task.is_plain


def _numbers(x: Inputs) -> Tensor:
    """The only input of a chain, as the engine reads it."""
    assert isinstance(x, Tensor)
    return x.contiguous()


def _added(sum_so_far: Tensor | None, more: Tensor) -> Tensor:
    return more.contiguous() if sum_so_far is None else sum_so_far + more


def own_gradient(own: BatchLoss, batch: Batch) -> BatchGradient:
    """The gradient of a method's own loss by outputs and representation: its closed form, or autograd's."""
    closed: ClosedLoss | None = own if hasattr(own, "gradient") else None  # isinstance is slower by far
    if closed is not None:
        return closed.gradient(batch)
    with torch.enable_grad():
        logits, representation, hidden = batch.logits.detach().requires_grad_(), _leaf(batch.representation), None
        if batch.hidden is not None:
            # what goes into the layer has no gradient here: the engine takes back only what is the layer's own
            weight, bias = _leaf(batch.hidden.weight), _leaf(batch.hidden.bias)
            assert weight is not None
            hidden = Hidden(batch.hidden.inputs, weight, bias)
        loss = own(Batch(batch.rows, batch.labels, logits, representation, hidden))
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
    layer = (None, None) if hidden is None else (hidden.weight, hidden.bias)
    looked_at = (logits, representation, *layer)
    return BatchGradient(*(None if leaf is None else leaf.grad for leaf in looked_at))


def _leaf(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().requires_grad_()


def _gradient_at(leaf: Tensor, loss: Tensor) -> Tensor:
    loss.backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad.contiguous()
