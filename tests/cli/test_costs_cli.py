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
    suits = ("costs", "--model", "alexnet", "--dataset", "cifar-10", "--methods", "fedtrip,fedavg", "--json")
    assert [row["method"] for row in json.loads(fedtrip(*suits).out)] == ["fedtrip", "fedavg"]


def test_costs_of_a_model_of_token_ids_are_those_of_its_usual_sequences(fedtrip):
    shown = fedtrip("costs", "--model", "lstm", "--methods", "fedavg")
    assert "lstm, 80 places of 90 tokens, n = 600" in shown.out
    (fedavg,) = json.loads(fedtrip("costs", "--model", "lstm", "--methods", "fedavg", "--json").out)
    assert fedavg["bytes_up"] == 4 * 822_570
    ended = fedtrip("costs", "--model", "lstm", "--dataset", "digits")
    assert (ended.code, "model 'lstm' takes one array of token ids (integers), but" in ended.err) == (2, True)


def test_of_all_methods_those_that_the_model_does_not_suit_are_left_out_and_told(fedtrip):
    shown = fedtrip("costs", "--model", "logistic")
    printed = json.loads(fedtrip("costs", "--model", "logistic", "--json").out)
    rows = {row["method"] for row in printed}
    assert printed[0]["method"] == "fedtrip"  # the default first
    assert "fedavg" in rows
    assert {"moon", "feddecorr", "fedalign"}.isdisjoint(rows)
    told = " ".join(shown.out.split())
    assert "fedalign is left out: method 'fedalign': the model has no hidden fully connected layer" in told
    ended = fedtrip("costs", "--model", "logistic", "--methods", "fedavg,fedalign")
    assert (ended.code, "method 'fedalign': the model has no hidden fully connected layer" in ended.err) == (2, True)
