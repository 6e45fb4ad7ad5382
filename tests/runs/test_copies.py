"""How many copies of its model a federation holds at its peak, all processes together."""

import sys

import pytest
from bench.copies import Case, copies

PARAMETERS = 12_000_000
"""Large enough that its vectors are not among what the C library keeps of freed memory (blocks of up to 32 MB)."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, which Linux has")
@pytest.mark.parametrize(
    ("case", "most"),
    [
        # the user's module, the global model, the float64 sum (two), and the client's w and momentum: 6.1 measured
        (Case("fedavg", 1), 7.5),
        # 7 in the parent: module, its numbers for the workers, global model before and after, sum (two), broadcast;
        # up to 3 in each worker: w, momentum, outbox, not all at the same time: 11.2 to 13.0 measured
        (Case("fedavg", 2), 14.5),
    ],
    ids=str,
)
def test_a_federation_holds_few_copies_of_its_model(case, most):
    found = copies(case, PARAMETERS)
    assert 5 < found < most
