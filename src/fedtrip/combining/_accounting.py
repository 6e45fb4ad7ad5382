"""ε of a sum of clipped vectors with Gaussian noise, over rounds whose clients are drawn one by one.

Two federations are neighbours if one has one client more. Counted by Rényi differential privacy (Mironov, 2017;
Mironov, Talwar and Zhang, 2019) with dp-accounting, an extra: `pip install 'fedtrip[privacy]'`.
"""

from __future__ import annotations

import functools
from decimal import ROUND_CEILING, Context
from importlib.util import find_spec

from fedtrip.errors import UserError

ORDERS = (*range(2, 129), 256, 512, 1024)
"""α of the Rényi divergences of which the best is taken."""
MOST_NOISE = 1e6
DIGITS = 4
"""Significant digits of a noise that was solved for, rounded up: the last ones would depend on the machine."""


def check_installed() -> None:
    """Refuse to count without the library for it."""
    if find_spec("dp_accounting") is None:
        raise UserError(
            "combine 'private' counts its ε with dp-accounting, which is not installed; accepted: after "
            "pip install 'fedtrip[privacy]'"
        )


def epsilon_after(rounds: int, rate: float, noise: float, delta: float) -> float:
    """ε of so many rounds, each with Poisson sampling of this rate and noise of this multiple of the clipping norm."""
    from dp_accounting.rdp import compute_epsilon

    if not rounds:
        return 0.0
    epsilon, _ = compute_epsilon(list(ORDERS), [rounds * each for each in _divergences(rate, noise)], delta)
    return float(epsilon)


def noise_for(epsilon: float, delta: float, rate: float, rounds: int) -> float:
    """The smallest z, to four digits, with which so many rounds cost at most ε."""
    check_installed()

    def fits(noise: float) -> bool:
        return epsilon_after(rounds, rate, noise, delta) <= epsilon

    low, high = 0.0, 1.0
    while not fits(high):
        low, high = high, 2 * high
        if high > MOST_NOISE:
            raise UserError(f"epsilon is {epsilon:g}; accepted: more, since no noise below {MOST_NOISE:g} is enough")
    while high - low > 10 ** -(DIGITS + 1) * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal_from_float(high))


@functools.lru_cache(maxsize=512)
def _divergences(rate: float, noise: float) -> tuple[float, ...]:
    """The Rényi divergence of one round for each order; those of several rounds add up."""
    check_installed()
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(list(ORDERS))
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)))
    # It has no public name. Asking the accountant anew in every round costs a tenth of a second each time.
    return tuple(float(each) for each in accountant._rdp)
