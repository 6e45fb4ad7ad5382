"""How many copies of its model a federation holds at its peak, all processes together."""

import sys

import pytest
from bench.copies import Case, copies

PARAMETERS = 12_000_000
"""Large enough that what the C library keeps of freed memory (up to 32 MB a block) is little beside it."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, which Linux has")
@pytest.mark.parametrize(
    ("case", "most"),
    [
        # the user's module, the global model, the float64 sum (two), and the client's w, gradient and momentum
        (Case("fedavg", 1), 7.6),
    ],
    ids=str,
)
def test_a_federation_holds_few_copies_of_its_model(case, most):
    found = copies(case, PARAMETERS)
    assert 5 < found < most
