"""Who gets which pieces of work, computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtrip.engines.shares import shares

IDLE: list[int] = []


def test_enough_for_two_each_is_handed_out_at_once():
    assert shares([IDLE, IDLE], [7, 7, 7, 7]) == [[0, 2], [1, 3]]


def test_the_last_piece_waits_for_who_is_idle_first():
    assert shares([IDLE, IDLE], [7, 7, 7]) == [[0], [1]]
    assert shares([[7], [7]], [7]) == [[], []]
    assert shares([[7], IDLE], [7]) == [[], [0]]


def test_the_largest_goes_first_and_the_next_to_who_has_least_to_do():
    # 10 | 5 + 4; after that 9 + 3 is more than half of an even share of 22, which is 5.5: the 3 waits
    assert shares([IDLE, IDLE], [10, 5, 4, 3]) == [[0], [1, 2]]


def test_many_pieces_go_in_one_message_up_to_half_of_an_even_share():
    # 40 of 1 for two workers: half of an even share is 10 each
    handed = shares([IDLE, IDLE], [1] * 40)
    assert [len(places) for places in handed] == [10, 10]
    # of the 20 left, a worker that is at its last piece gets half of an even share again: 5, with the one that it has
    assert shares([[1], [1] * 6], [1] * 20) == [[0, 1, 2, 3], []]


def test_one_that_has_more_than_a_piece_left_gets_nothing():
    assert shares([[1, 1], [9, 9]], [5, 5, 5]) == [[], []]


def test_nobody_and_nothing():
    assert shares([], [3, 2]) == []
    assert shares([IDLE, [2]], []) == [[], []]


@given(
    st.lists(st.lists(st.integers(1, 50), max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(1, 50), max_size=40).map(lambda sizes: sorted(sizes, reverse=True)),
)
def test_the_front_of_the_queue_is_handed_out_and_nobody_is_left_idle(under_way, waiting):
    handed = shares(under_way, waiting)
    places = [place for part in handed for place in part]
    assert sorted(places) == list(range(len(places)))
    idle = [part for part, busy in zip(handed, under_way, strict=True) if not busy]
    assert sum(bool(part) for part in idle) == min(len(idle), len(waiting))


@pytest.mark.parametrize("sizes", [[5, 5, 5, 5, 5], [30, 10, 10, 10], [9, 8, 7, 6, 5, 4, 3, 2, 1], [1] * 100])
def test_two_workers_end_within_the_last_piece_of_each_other(sizes):
    """Simulated: a worker takes as long as the sizes say."""
    waiting, queues, clocks = list(range(len(sizes))), [[], []], [0, 0]
    while waiting or any(queues):
        parts = shares([[sizes[n] for n in queue] for queue in queues], [sizes[n] for n in waiting])
        chosen = [[waiting[place] for place in part] for part in parts]
        for queue, numbers in zip(queues, chosen, strict=True):
            queue += numbers
        waiting = [n for n in waiting if not any(n in numbers for numbers in chosen)]
        first = min((w for w in (0, 1) if queues[w]), key=lambda w: clocks[w] + sizes[queues[w][0]])
        clocks[first] += sizes[queues[first].pop(0)]
    assert sum(clocks) == sum(sizes)
    assert abs(clocks[0] - clocks[1]) <= max(sizes[-1], max(sizes) - (sum(sizes) - max(sizes)))
