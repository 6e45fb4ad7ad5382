"""`fedtrip costs`, and the data set that a command takes which is told none."""

import json

import pytest

from fedtrip.experiment.description import Experiment


@pytest.mark.usefixtures("here")
def test_without_a_data_set_every_command_takes_the_same(fedtrip):
    default = Experiment().dataset
    listing = json.loads(fedtrip("costs", "--json").out)
    assert listing == json.loads(fedtrip("costs", "--dataset", default, "--json").out)
    assert default in fedtrip("costs", "--methods", "fedavg").out
    assert f"{default}, iid" in fedtrip("partition", "--partition", "iid").out


def test_costs_of_a_model_that_the_data_set_does_not_suit(fedtrip):
    ended = fedtrip("costs", "--model", "alexnet")
    assert (ended.code, "alexnet' cannot take samples of shape (1, 8, 8); accepted: " in ended.err) == (2, True)
    printed = json.loads(fedtrip("costs", "--model", "alexnet", "--dataset", "cifar-10", "--json").out)
    assert [row["method"] for row in printed][:2] == ["fedtrip", "fedavg"]
