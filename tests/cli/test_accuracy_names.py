"""Two accuracies, each under one name, and one unit for people: per cent. Programs get fractions."""

from __future__ import annotations

import json
import re

import pytest

import fedtrip as package
from fedtrip.runs import read_summary

SMALL = ("--rounds", 12, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "--batch-size", 10)
FRACTION = re.compile(r"(accuracy|seed \d+:?)\s+0\.\d")


def test_a_run_names_both_and_evaluate_the_second(fedtrip, here):
    ended = fedtrip("run", *SMALL, "--out", "mine")
    accuracies = [json.loads(line)["accuracy"] for line in (here / "mine/metrics.jsonl").read_text().splitlines()]
    mean, last = sum(accuracies[-10:]) / 10, accuracies[-1]
    assert f"{mean:.2%}" != f"{last:.2%}"
    assert f"final accuracy  {mean:.2%}  (mean of the last 10 evaluated rounds)" in ended.out
    assert f"final model     {last:.2%}  (accuracy of the final model, after the last round)" in ended.out
    summary = read_summary(here / "mine")
    assert (summary["final_accuracy"], summary["final_model_accuracy"]) == (
        package.load_result("mine").final_accuracy,
        last,
    )
    assert f"mine: accuracy of the final model {last:.2%}, loss " in fedtrip("evaluate", "mine").out
    printed = json.loads(fedtrip("evaluate", "mine", "--json").out)
    assert printed["accuracy"] == last, "a fraction for programs"


@pytest.mark.usefixtures("here")
def test_the_lines_of_progress_are_in_per_cent(fedtrip):
    told = fedtrip("run", *SMALL, "--out", "mine").err
    assert re.search(r"12/12  accuracy \d+\.\d\d% +loss", told)
    assert not FRACTION.search(told)
    told = fedtrip("compare", *SMALL, "--methods", "fedavg", "--trials", 1, "--workers", 1, "--out", "both").err
    assert re.search(r"fedavg, seed 0: \d+\.\d\d%", told)
    assert not FRACTION.search(told)


def test_a_report_of_one_run_calls_it_final_accuracy(fedtrip, here):
    fedtrip("run", *SMALL, "--target", 0.99, "--out", "mine", "-q")
    fedtrip("report", "mine")
    summary = read_summary(here / "mine")
    assert f"its final accuracy is {summary['final_accuracy']:.2%}" in (here / "mine/report.html").read_text()
