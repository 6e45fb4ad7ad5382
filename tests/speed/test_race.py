"""When accuracies of two simulators agree, by hand; what the page says of times that do not count."""

import torch
from bench.race.environments import problem
from bench.race.page import write_page
from bench.race.task import Task, accuracy, make_model
from bench.race.verdict import agree

from fedtrip.models.cnn import CNN
from fedtrip.models.mlp import MLP


def test_accuracies_agree_within_noise():
    # means 0.90 and 0.92, both s = 0.01, n = 3: error √(2·0.0001/3) = 0.00816, 4 degrees of freedom, t = 2.776: ±0.0227
    assert agree([0.89, 0.90, 0.91], [0.91, 0.92, 0.93])
    assert not agree([0.89, 0.90, 0.91], [0.914, 0.924, 0.934])
    assert not agree([0.90, 0.90, 0.90], [0.91, 0.91, 0.91])


def test_a_difference_of_half_a_point_does_not_matter_however_sure_it_is():
    assert agree([0.900, 0.900, 0.900], [0.9049, 0.9049, 0.9049])
    assert not agree([0.900, 0.900, 0.900], [0.906, 0.906, 0.906])


def runs(accuracy, seconds):
    return [{"accuracy": accuracy + e, "round": seconds, "wall": 10 * seconds} for e in (-0.001, 0.0, 0.001)]


def test_the_page_has_no_times_of_a_simulator_that_trains_to_something_else():
    results = {
        "cpu": "a CPU", "cores": 2, "kernels": "avx2", "rounds": 20, "versions": {"fedtrip": "1"},
        "problems": {"fedtrip": None, "flwr": None, "pfl": "ERROR: no such wheel"},
        "runs": {
            "fedtrip": {"mlp": runs(0.9, 0.1), "cnn": runs(0.95, 0.2)},
            "flwr": {"mlp": runs(0.901, 0.7), "cnn": runs(0.85, 2.0)},
            "pfl": {"mlp": [], "cnn": []},
        },
    }  # fmt: skip
    page = write_page(results)
    assert "| MLP | flwr | 3 | 90.10% ± 0.10% | yes | 700 ms | 7.0× ours | 7.0 s | 7.0× ours |" in page
    assert "| CNN | flwr | 3 | 85.00% ± 0.10% | no: times do not count | – |  | – |  |" in page
    assert "- pfl: `ERROR: no such wheel`" in page


def test_the_first_line_that_names_the_error_is_told():
    assert problem("some warning\nERROR: no matching wheel\nERROR: more\n", "ERROR") == "ERROR: no matching wheel"
    assert problem("killed\n", "Error") == "killed"
    assert problem("", "Error") == "no message"


def test_the_models_are_ours():
    for name, ours in (("mlp", MLP((1, 28, 28), 10)), ("cnn", CNN((1, 28, 28), 10))):
        assert str(make_model(name)).partition("(")[2] == str(ours).partition("(")[2]


def test_accuracy_counts_hits_over_all_test_images():
    labels = torch.tensor([0, 1, 0, 1])
    task = Task(torch.empty(0), torch.empty(0), torch.empty(0), torch.eye(2)[[0, 1, 1, 1]], labels)
    assert accuracy(torch.nn.Identity(), task) == 0.75
