"""TensorBoard event files: a consumer of the rounds' records, like the progress bar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from fedtrip.errors import UserError
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import EVENTS, read_records

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def check_tensorboard() -> None:
    """Refuse, before anything is run, if the library that writes event files is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise UserError(
            "event files need the package tensorboard, which is not installed; pip install 'fedtrip[tensorboard]'"
        ) from None


class EventFiles:
    """Writes each round's record; use as `on_round`, and close at the end.

    The task's scores by round; traffic (MB) and computing (GMACs) summed up to the round; seconds of the round and how
    many uploads were refused. Nothing is written before the first record.
    """

    def __init__(self, folder: Path | str) -> None:
        check_tensorboard()
        self._folder = Path(folder)
        self._run: Path | None = None
        self._writer: SummaryWriter | None = None
        self._megabytes = self._gmacs = 0.0

    @classmethod
    def of_run(cls, run: Path) -> Self:
        """Those in a run folder; where the run goes on, the sums do too."""
        events = cls(run / EVENTS)
        events._run = run
        return events

    def __call__(self, record: RoundRecord) -> None:
        """Add a round."""
        if self._writer is None:
            self._open(record.round)
        assert self._writer is not None
        self._count(record)
        values = {
            **{f"test/{name}": score for name, score in record.scores.items()},
            "cost/megabytes": self._megabytes,
            "cost/gmacs": self._gmacs,
            "round/seconds": record.seconds,
            "round/refused": len(record.refused),
        }
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, record.round)
        self._writer.flush()

    def _open(self, first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        if self._run is not None:
            for earlier in read_records(self._run, at_most=first - 1):
                self._count(earlier)
        self._writer = SummaryWriter(str(self._folder), purge_step=first)

    def _count(self, record: RoundRecord) -> None:
        self._megabytes += (record.bytes_down + record.bytes_up) / 1e6
        self._gmacs += record.macs / 1e9

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
