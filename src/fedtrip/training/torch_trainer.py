"""Training by torch: the module's own forward pass, and autograd's backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedtrip.inputs import Inputs, pieces
from fedtrip.methods.interface import Affine, Batch, Correction
from fedtrip.models.representation import Tap
from fedtrip.optimizers._clip import Clip
from fedtrip.tasks.interface import Sums, Task
from fedtrip.training.device import deterministic, seed_dropout
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.trainer import FROZEN_BATCH, Training


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
        seed_dropout(training.dropout_key, flat.device)
        training = replace(training, order=training.order.to(flat.device), correction=self._there(training.correction))
        try:
            with deterministic(flat.device):
                for step, rows in training.batches():
                    if training.clip is None:
                        self._direction(training, rows, step, training.correction, tap)
                    else:
                        self._clipped_direction(training.clip, training, rows, step, tap)
                    training.optimizer.step(
                        flat.w, flat.g, training.state, lr=training.lr, linear=linear, decay=training.decay
                    )
        finally:
            if tap is not None:
                tap.remove()

    def _there(self, correction: Correction | None) -> Correction | None:
        """The correction where the vectors are; one that is not affine has a say on the CPU."""
        device = self._flat.device
        if correction is None or device.type == "cpu":
            return correction
        if isinstance(correction, Affine):
            return replace(correction, c=None if correction.c is None else correction.c.to(device))
        return OnTheCpu(correction)

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
        y = training.y.index_select(0, rows)
        outputs = flat.logits(training.batch(rows, step))
        loss = self._task.loss(outputs, y)
        if training.extra_loss is not None:
            loss = loss + training.extra_loss(Batch(rows, y, outputs, tap.take() if tap else None))
        loss.backward()  # type: ignore[no-untyped-call]

    def _clipped_direction(self, clip: Clip, training: Training, rows: Tensor, step: int, tap: Tap | None) -> None:
        """The same with all of the correction, and cut to length: the gradient alone, or what is left in the end."""
        g = self._flat.g
        self._direction(training, rows, step, None, tap)
        if clip.of == "gradient":
            clip.cut(g)
        if training.correction is not None:
            training.correction.add_to(g, self._flat.w)
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
