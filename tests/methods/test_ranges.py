"""The ranges that methods declare: of their own options, accepted at both ends, and around the defaults."""

import pytest

from fedtrip import Choices, Experiment, Range
from fedtrip.comparison.tuning_space import space_of
from fedtrip.families import METHOD
from fedtrip.registry import option_fields

WITHOUT = {
    "fedavg", "fedbn", "fedper", "lg-fedavg", "local",  # no options that are numbers
    "apfl", "ditto", "fedbabu",  # the global model, which tuning judges, does not depend on them
}  # fmt: skip
"""Methods of which only the learning rate is tuned."""


@pytest.mark.parametrize("name", METHOD.names())
def test_ranges_are_of_options_of_the_method_and_every_end_is_accepted(name):
    cls = METHOD.find(name)
    space = space_of(name, Experiment(), {}, {})  # tries all ends
    assert list(space) == ["lr", *(f"{name}.{option}" for option in cls.ranges)]
    assert all(isinstance(values, (Range, Choices)) for values in cls.ranges.values())
    if name in WITHOUT:
        assert not cls.ranges


@pytest.mark.parametrize("name", METHOD.names())
def test_the_default_lies_within_its_range(name):
    """What the papers use is not at the edge of what is tried."""
    cls = METHOD.find(name)
    defaults = {one.name: one.default for one in option_fields(cls)}
    for option, values in cls.ranges.items():
        if isinstance(values, Range):
            assert values.low < defaults[option] < values.high, option
            assert not values.is_near_an_end(defaults[option]), option
        else:
            assert defaults[option] in values.values, option
