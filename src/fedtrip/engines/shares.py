"""Who gets which pieces of work next, so that all workers end at about the same time and none waits for the next one.

Sizes are samples: what a piece takes is about in proportion to them. Which worker does what cannot change a bit.
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(under_way: Sequence[Sequence[int]], waiting: Sequence[int]) -> list[list[int]]:
    """What each worker is handed now: places in `waiting`, which has the sizes of the pieces, the largest first.

    `under_way` has the sizes of what each worker is doing. One that has more than a piece left gets nothing. The others
    get one after the other, always the one with the least to do: first a piece for each that is idle; then, as long as
    there are enough for all of them, a second one, and more up to half of an even share of all that waits. The last
    pieces are not handed out ahead: they go to whoever is idle first.
    """
    share = sum(waiting) / (2 * len(under_way)) if under_way else 0.0
    takers = [worker for worker, sizes in enumerate(under_way) if len(sizes) <= 1]
    load = {worker: sum(under_way[worker]) for worker in takers}
    pieces = {worker: len(under_way[worker]) for worker in takers}
    handed: list[list[int]] = [[] for _ in under_way]
    idle = sum(not count for count in pieces.values())
    ahead = len(waiting) - idle >= len(takers)
    for place, size in enumerate(waiting):
        if not takers or (place >= idle and not ahead):
            break
        worker = min(takers, key=lambda taker: (pieces[taker] > 0, load[taker]))
        if pieces[worker] >= 2 and load[worker] + size > share:
            break
        handed[worker].append(place)
        load[worker] += size
        pieces[worker] += 1
    return handed
