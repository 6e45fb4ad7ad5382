"""McMahan's shards: a client has samples of few classes, and all clients have the same number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedtrip.errors import UserError
from fedtrip.partitions._division import Division
from fedtrip.partitions.interface import ToPartition
from fedtrip.randomness import permutation, stream


@dataclass(frozen=True)
class Shards(Division):
    """all samples sorted by label, cut into N·C shards of equal size (± 1), of which each client gets C at random

    McMahan et al. (2017), who give each of 100 clients 2 shards of 300 samples of MNIST.
    """

    title = "samples sorted by label and cut into equal shards, SHARDS of them for each client (McMahan et al.)"
    parameter = "shards"
    needs_classes = True

    shards: Annotated[int, Field(ge=1)]
    """C, shards of each client"""

    def owners(self, labels: NDArray[np.intp], data: ToPartition) -> NDArray[np.intp]:
        shards = self.shards * data.clients
        if shards > len(labels):
            raise UserError(
                f"partition '{self.text}' with {data.clients} clients cuts {len(labels)} samples into {shards} shards; "
                f"accepted: at most {len(labels) // data.clients} shards for each client"
            )
        client_of_shard = permutation(stream(data.seed, "partition shards"), shards) // self.shards
        ends = np.arange(shards + 1) * len(labels) // shards
        owners = np.empty(len(labels), dtype=np.intp)
        owners[np.argsort(labels, kind="stable")] = client_of_shard.repeat(np.diff(ends))
        return owners
