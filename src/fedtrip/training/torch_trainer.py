"""Training by torch: the module's own forward pass, and autograd's backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedtrip.inputs import Inputs, pieces
from fedtrip.methods.interface import Affine, Batch, Correction, Hidden
from fedtrip.models.representation import Tap
from fedtrip.optimizers._clip import Clip
from fedtrip.tasks.interface import Sums, Task
from fedtrip.training.device import deterministic, dropout_state, seed_dropout, set_dropout_state
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.trainer import FROZEN_BATCH, Training, of_the_model


@dataclass(frozen=True)
class OnTheCpu:
    """A correction of a user's own, whose vectors are on the CPU, for vectors that are not."""

    correction: Correction

    def add_to(self, h: Tensor, w_k: Tensor) -> None:
        change = torch.zeros(h.shape)
        self.correction.add_to(change, w_k.to("cpu"))
        h.add_(change.to(h.device))

    def operations(self) -> int:
        return self.correction.operations()


class _LookAside:
    """`GradientAt` of one step: the module's parameters are moved, looked at and put back, bit for bit."""

    def __init__(self, trainer: TorchTrainer, training: Training, x: Inputs, rows: Tensor, tap: Tap | None) -> None:
        self._trainer, self._training, self._x, self._rows, self._tap = trainer, training, x, rows, tap
        self._flat = trainer._flat
        self._w_k: Tensor | None = None  # what is put back, from the first look aside on
        self._dropout = dropout_state(self._flat.device)
        self._before = self._flat.statistics()
        self._after: list[Tensor] | None = None

    def __call__(self, offset: Tensor | None = None, /) -> Tensor:
        flat, clip = self._flat, self._training.clip
        set_dropout_state(self._dropout, flat.device)
        flat.set_statistics(self._before)
        if offset is not None:
            aside = of_the_model(offset, flat.w, "looks aside by")
            self._w_k = flat.w.clone() if self._w_k is None else self._w_k
            flat.w.add_(aside)
        flat.g.zero_()
        self._trainer._add_batch_gradient(self._training, self._x, self._rows, self._tap)
        if self._w_k is not None:
            flat.w.copy_(self._w_k)
        if self._after is None or offset is None:
            self._after = flat.statistics()
        self._training.hold(flat.g)
        if clip is not None and clip.of == "gradient":
            clip.cut(flat.g)
        return flat.g.to("cpu", copy=True)

    def end(self) -> None:
        """Leave the statistics as the call that counts left them."""
        flat = self._flat
        flat.set_statistics(self._before if self._after is None else self._after)


class TorchTrainer:
    """Computes with the module of a flat model; `tapped` says that its representation is looked at in training, or
    with `hidden` its last hidden layer."""

    def __init__(
        self, flat: FlatModel, task: Task, *, tapped: bool, representation: str | None, hidden: bool = False
    ) -> None:
        self._flat, self._task, self._tapped, self._representation = flat, task, tapped, representation
        self._hidden = hidden

    def load(self, model: Mapping[str, Tensor]) -> None:
        self._flat.load(model)

    def train(self, training: Training) -> None:
        """K steps of the optimizer in the direction h = g + a·w + c, and its own weight decay λ.

        c is laid into the gradient vector, autograd adds g to it, and the optimizer takes a: with SGD's fused kernel an
        affine correction costs next to nothing.
        """
        flat, affine = self._flat, training.correction if isinstance(training.correction, Affine) else None
        linear = affine.a if affine is not None and training.clip is None else 0.0
        looks = training.extra_loss is not None or training.loss is not None
        tap = Tap(flat.module, self._representation) if looks and self._tapped else None
        flat.module.train()
        seed_dropout(training.dropout_key, flat.device)
        training = self._there(training)
        start = flat.w.clone() if training.frozen is not None else flat.w
        try:
            with deterministic(flat.device):
                for step, rows in training.batches():
                    self._write_direction(training, rows, step, tap)
                    training.hold(flat.g)
                    training.optimizer.step(
                        flat.w, flat.g, training.state, lr=training.lr, linear=linear, decay=training.decay
                    )
                    training.put_back(flat.w, start)
        finally:
            if tap is not None:
                tap.remove()
        training.forget_frozen()

    def _there(self, training: Training) -> Training:
        """The training where the vectors are; a correction that is not affine has a say on the CPU."""
        device, correction, frozen = self._flat.device, training.correction, training.frozen
        if device.type == "cpu":
            return training
        if isinstance(correction, Affine):
            correction = replace(correction, c=None if correction.c is None else correction.c.to(device))
        elif correction is not None:
            correction = OnTheCpu(correction)
        frozen = None if frozen is None else frozen.to(device)
        return replace(training, order=training.order.to(device), correction=correction, frozen=frozen)

    def _write_direction(self, training: Training, rows: Tensor, step: int, tap: Tap | None) -> None:
        """Write what the optimizer gets into the gradient vector."""
        if training.direction is not None:
            self._directed(training, rows, step, tap)
        elif training.clip is not None:
            self._clipped_direction(training.clip, training, rows, step, tap)
        else:
            self._direction(training, rows, step, training.correction, tap)

    def _direction(
        self, training: Training, rows: Tensor, step: int, correction: Correction | None, tap: Tap | None
    ) -> None:
        """Write g + correction into the gradient vector; of an affine correction only its constant c."""
        flat, g = self._flat, self._flat.g
        if isinstance(correction, Affine) and correction.c is not None:
            g.copy_(correction.c)
        else:
            g.zero_()
        if correction is not None and not isinstance(correction, Affine):
            correction.add_to(g, flat.w)
        self._add_batch_gradient(training, training.batch(rows, step), rows, tap)

    def _add_batch_gradient(self, training: Training, x: Inputs, rows: Tensor, tap: Tap | None) -> None:
        """Add the gradient of a batch's loss, the task's or the method's, to the gradient vector."""
        y, outputs = training.y.index_select(0, rows), self._flat.logits(x)
        batch = Batch(rows, y, outputs, *self._seen(tap))
        loss = self._task.loss(outputs, y) if training.loss is None else training.loss(batch)
        if training.extra_loss is not None:
            loss = loss + training.extra_loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]

    def _seen(self, tap: Tap | None) -> tuple[Tensor | None, Hidden | None]:
        """The representation of the last forward pass, or the hidden layer."""
        if tap is None or not self._hidden:
            return tap.take() if tap else None, None
        layer = tap.site.layer
        assert isinstance(layer, nn.Linear)
        return None, Hidden(tap.take(), layer.weight, layer.bias)

    def _directed(self, training: Training, rows: Tensor, step: int, tap: Tap | None) -> None:
        """The method's own direction, which looks at this batch's gradient where it likes."""
        assert training.direction is not None
        flat = self._flat
        look = _LookAside(self, training, training.batch(rows, step), rows, tap)
        h = training.direction.at(flat.w.to("cpu", copy=True), look, step)
        look.end()
        flat.g.copy_(of_the_model(h, flat.w, "gives a direction of"))
        training.hold(flat.g)
        if training.clip is not None and training.clip.of == "step":
            training.clip.cut(flat.g)

    def _clipped_direction(self, clip: Clip, training: Training, rows: Tensor, step: int, tap: Tap | None) -> None:
        """The same with all of the correction, and cut to length: the gradient alone, or what is left in the end."""
        g = self._flat.g
        self._direction(training, rows, step, None, tap)
        training.hold(g)
        if clip.of == "gradient":
            clip.cut(g)
        if training.correction is not None:
            training.correction.add_to(g, self._flat.w)
        training.hold(g)
        if clip.of == "step":
            clip.cut(g)

    def add_gradient(self, x: Inputs, y: Tensor) -> None:
        self._flat.module.eval()
        with deterministic(self._flat.device):
            loss = self._task.summed_loss(self._flat.logits(x), y)
            loss.backward()  # type: ignore[no-untyped-call]

    def outputs(self, x: Inputs) -> Tensor:
        self._flat.module.eval()
        with torch.no_grad():
            return self._flat.logits(x)

    def representations(self, x: Inputs) -> Tensor:
        with Tap(self._flat.module, self._representation) as tap:
            self.outputs(x)
            return tap.take()

    def sums(self, x: Inputs, y: Tensor) -> Sums:
        with torch.inference_mode():
            outputs = torch.cat([self.outputs(part) for part in pieces(x, FROZEN_BATCH)])
            return self._task.sums(outputs.to("cpu"), y.to("cpu"))
