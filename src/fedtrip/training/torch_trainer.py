"""Training by torch: the module's own forward pass, and autograd's backward pass."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedtrip.methods.interface import Affine, Batch, Correction
from fedtrip.models.representation import Tap
from fedtrip.optimizers._clip import Clip
from fedtrip.tasks.interface import Sums, Task
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.trainer import FROZEN_BATCH, Training


class TorchTrainer:
    """Computes with the module of a flat model; `tapped` says that its representation is looked at in training."""

    def __init__(self, flat: FlatModel, task: Task, *, tapped: bool, representation: str | None) -> None:
        self._flat, self._task, self._tapped, self._representation = flat, task, tapped, representation

    def load(self, model: Mapping[str, Tensor]) -> None:
        self._flat.load(model)

    def train(self, training: Training) -> None:
        """K steps of the optimizer in the direction h = g + a·w + c, and its own weight decay λ.

        c is laid into the gradient vector, autograd adds g to it, and the optimizer takes a: with SGD's fused kernel an
        affine correction costs next to nothing.
        """
        flat, affine = self._flat, training.correction if isinstance(training.correction, Affine) else None
        linear = affine.a if affine is not None and training.clip is None else 0.0
        tap = Tap(flat.module, self._representation) if training.extra_loss and self._tapped else None
        flat.module.train()
        torch.default_generator.manual_seed(training.dropout_key)  # dropout's
        try:
            for rows in (rows for epoch in training.order for rows in torch.split(epoch, training.batch_size)):
                if training.clip is None:
                    self._direction(training, rows, training.correction, tap)
                else:
                    self._clipped_direction(training.clip, training, rows, tap)
                training.optimizer.step(
                    flat.w, flat.g, training.state, lr=training.lr, linear=linear, decay=training.decay
                )
        finally:
            if tap is not None:
                tap.remove()

    def _direction(self, training: Training, rows: Tensor, correction: Correction | None, tap: Tap | None) -> None:
        """Write g + correction into the gradient vector; of an affine correction only its constant c."""
        flat, g = self._flat, self._flat.g
        if isinstance(correction, Affine) and correction.c is not None:
            g.copy_(correction.c)
        else:
            g.zero_()
        if correction is not None and not isinstance(correction, Affine):
            correction.add_to(g, flat.w)
        y = training.y.index_select(0, rows)
        outputs = flat.module(flat.prepared(training.x.index_select(0, rows)))
        loss = self._task.loss(outputs, y)
        if training.extra_loss is not None:
            loss = loss + training.extra_loss(Batch(rows, y, outputs, tap.take() if tap else None))
        loss.backward()  # type: ignore[no-untyped-call]

    def _clipped_direction(self, clip: Clip, training: Training, rows: Tensor, tap: Tap | None) -> None:
        """The same with all of the correction, and cut to length: the gradient alone, or what is left in the end."""
        g = self._flat.g
        self._direction(training, rows, None, tap)
        if clip.of == "gradient":
            clip.cut(g)
        if training.correction is not None:
            training.correction.add_to(g, self._flat.w)
        if clip.of == "step":
            clip.cut(g)

    def add_gradient(self, x: Tensor, y: Tensor) -> None:
        self._flat.module.eval()
        loss = self._task.summed_loss(self._flat.module(self._flat.prepared(x)), y)
        loss.backward()  # type: ignore[no-untyped-call]

    def outputs(self, x: Tensor) -> Tensor:
        self._flat.module.eval()
        with torch.no_grad():
            return self._flat.logits(x)

    def representations(self, x: Tensor) -> Tensor:
        with Tap(self._flat.module, self._representation) as tap:
            self.outputs(x)
            return tap.take()

    def sums(self, x: Tensor, y: Tensor) -> Sums:
        with torch.inference_mode():
            outputs = torch.cat([self.outputs(part) for part in torch.split(x, FROZEN_BATCH)])
            return self._task.sums(outputs, y)
