"""What a run tells its caller after each round, and how the caller may look at the model or stop the run."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

from torch import Tensor, nn

from fedtrip.one_thread import callback
from fedtrip.rounds.record import RoundRecord
from fedtrip.training.flat_model import FlatModel
from fedtrip.vectors import Vectors


class ModelView:
    """The global model after a round; nothing is copied before it is asked for, and what is given is the caller's."""

    def __init__(self, flat: FlatModel, model: Vectors, module: nn.Module) -> None:
        self._flat, self._model, self._module = flat, model, module

    def state_dict(self) -> dict[str, Tensor]:
        """The model as a state dict of its module."""
        return self._flat.state_dict(self._model)

    def module(self) -> nn.Module:
        """The module with the model in it, in evaluation mode; it wants normalised inputs."""
        module = copy.deepcopy(self._module)
        module.load_state_dict(self.state_dict())
        return module.eval()


OnRound = Callable[[RoundRecord], object] | Callable[[RoundRecord, ModelView], object]
"""Called with each round's record and, if it takes two arguments, a view of the model. It may raise `StopRun`."""


def tell(on_round: OnRound, record: RoundRecord, model: ModelView) -> None:
    """Call it in the caller's own settings of torch."""
    with callback():
        if takes_the_model(on_round):
            on_round(record, model)  # type: ignore[call-arg]
        else:
            on_round(record)  # type: ignore[call-arg]


def takes_the_model(on_round: OnRound) -> bool:
    """Whether it has a second argument, by position and without a default."""
    try:
        parameters = list(inspect.signature(on_round).parameters.values())
    except (TypeError, ValueError):  # it has no signature, as some built-in functions
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([p for p in parameters if p.kind in positional and p.default is p.empty]) >= 2
