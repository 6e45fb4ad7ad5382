"""The record in results/: its tables and its page are what its runs give."""

import json
import math
import re
from pathlib import Path
from statistics import mean

import pytest
from tools.reproduction_page import page, record
from tools.xi_page import xi_page
from tools.xi_tables import auto_table, papers_table

from fedtrip.comparison.tables import interval
from fedtrip.comparison.variants import PAPER_METHODS
from fedtrip.methods.fedtrip_auto import FedTripAuto
from fedtrip.methods.interface import make_method
from fedtrip.paper.archive import Archive
from fedtrip.paper.claims import NEGLIGIBLE
from fedtrip.paper.entries import push, reach, table7
from fedtrip.paper.entries.choice import cases_of, chosen, gain_on, speedup_on
from fedtrip.paper.entries.rounds_cases import case_title
from fedtrip.paper.entries.xi import VARIANTS
from fedtrip.paper.entries.xi_lines import BASELINE, HARDER, KEPT, OTHER_MUS, RULES, mu_case, mu_label, study_cases
from fedtrip.paper.entry import Findings
from fedtrip.paper.measures import speedup
from fedtrip.paper.registry import ENTRIES
from fedtrip.paper.reproduction import RUNS
from fedtrip.paper.settings import METHOD_TITLES
from fedtrip.statistics import holm

TOP = Path(__file__).parents[2]
RESULTS = TOP / "results"
FROM_RUNS = [name for name in ENTRIES if name not in ("fig2", "fig4")]  # these two need the data


@pytest.fixture(scope="module")
def archive():
    return Archive(RESULTS / RUNS)


@pytest.mark.parametrize("name", FROM_RUNS)
def test_a_table_is_what_the_runs_give(name, archive, tmp_path):
    ENTRIES[name].write(Findings(ENTRIES[name].lines, archive), tmp_path)
    for file in ("table.md", "table.csv", "table.json"):
        assert (tmp_path / file).read_text() == (RESULTS / name / file).read_text(), f"{name}: run `make results`"


@pytest.mark.parametrize("name", FROM_RUNS)
def test_a_note_explains_the_marks_that_are_in_its_table_and_no_others(name):
    lines = (RESULTS / name / "table.md").read_text().splitlines()
    cells = [cell for line in lines if line.startswith("|") for cell in line.strip("| ").split(" | ")]
    ours = [cell for cell in cells if re.match(r"[<>?]\d+\.\d", cell)]  # the paper prints some of its own: >4
    notes = " ".join(line for line in lines if not line.startswith("|"))
    assert {mark for mark in "<>?" if f"'{mark}'" in notes} == {cell[0] for cell in ours}
    assert ("neither run reached" in notes) == any(re.search(r"\] \(\d+ of \d+\)", cell) for cell in cells)


def test_the_claims_say_which_survive_holms_correction():
    page = json.loads((RESULTS / "claims" / "table.json").read_text())
    tested = [cell for cell in page["cells"] if cell["p"] is not None]
    assert [cell["p_holm"] for cell in tested] == pytest.approx(holm([cell["p"] for cell in tested]))
    assert {cell["claim"] for cell in tested} >= {
        cell["claim"] for cell in page["cells"] if re.search(r"× \[|MOON is|mean over cases", f"{cell}")
    }
    (said,) = (note for note in page["notes"] if "Holm" in note)
    assert f"{len(tested)} claims" in said
    surviving = {cell["claim"] for cell in tested if cell["p_holm"] < 0.05}
    assert {claim for claim in (cell["claim"] for cell in tested) if f"*{claim}*" in said} == surviving
    assert 0 < len(surviving) < len(tested)


def test_all_rules_of_the_verdicts_stand_on_the_page():
    page = (TOP / "docs" / "reproduction.md").read_text()
    for words in ("MOON is the worst", "lies below 0", f"below {NEGLIGIBLE:.0%}", "the μ with the highest mean"):
        assert words in page.split("## Table 2")[0].split("Verdict, by rule")[1], words


def test_a_value_that_stands_in_for_a_run_that_ended_is_marked(archive):
    findings = Findings(ENTRIES["table7"].lines, archive)
    marked = 0
    for cell in json.loads((RESULTS / "table7" / "table.json").read_text())["cells"]:
        runs = findings.runs(table7.case_name(cell["local_epochs"]), METHOD_TITLES[cell["method"]]).values()
        ended = [run for run in runs if run.ended is not None and run.records[-1].round <= cell["round"]]
        assert cell["ended_early"] == len(ended)
        marked += bool(ended)
    lines = (RESULTS / "table7" / "table.md").read_text().splitlines()
    assert sum("†" in line for line in lines if line.startswith("|")) == marked > 0
    assert any(line.startswith("†: ") for line in lines)
    assert ("†" in (TOP / "docs" / "xi.md").read_text()) == ("†: " in (TOP / "docs" / "xi.md").read_text())
    for name in ("xi", "push", "reach"):
        for line in ENTRIES[name].lines:
            ended = [run for run in Findings([line], archive).runs(line.case, line.label).values() if run.ended]
            assert not ended or "†" in (RESULTS / name / "table.md").read_text()


def test_pooled_intervals_say_what_they_assume():
    for path in (RESULTS / "xi" / "table.md", RESULTS / "push" / "table.md", TOP / "docs" / "xi.md"):
        assert "as if they were independent" in path.read_text()


def test_the_page_on_xi_says_where_fedtrip_auto_is_not_faster_than_fedtrip(archive):
    findings, pushed = (Findings(ENTRIES[name].lines, archive) for name in ("xi", "push"))
    section = (TOP / "docs" / "xi.md").read_text().split("## `fedtrip` or `fedtrip-auto`?")[1].split("\n## ")[0]
    (titles, *_), rows = auto_table(findings, pushed).header, auto_table(findings, pushed).rows
    assert titles == "case"
    assert len(rows) == len(study_cases()) + len(HARDER)
    for title, ratio, *_ in rows:
        assert f"| {title} | {ratio} |" in section
        low, high = (float(end) for end in re.search(r"\[(.*), (.*)\]", ratio).groups())
        unsure = section.split("holds 1 in: ")[1].strip().removesuffix(".").split("; ")
        assert (title in unsure) == (low <= 1 <= high), "the words after the table"


def test_the_page_on_xi_does_not_say_always_where_an_interval_holds_one(archive):
    findings = Findings(ENTRIES["xi"].lines, archive)
    page = (TOP / "docs" / "xi.md").read_text()
    assert "always faster" not in page
    for case, what in study_cases().items():
        ratio = speedup(findings, case, "1/gap" + KEPT, "annealed" + KEPT)
        assert ratio.mean > 1
        assert f"{case_title(*what)} {interval(ratio)}" in page


def test_other_pages_do_not_contradict_the_record(archive):
    reading, choosing, methods = (
        (TOP / "docs" / f"{name}.md").read_text() for name in ("reading", "choosing", "methods")
    )
    assert "recorded with this code yet" not in reading
    row = next(line for line in choosing.splitlines() if "`orthogonal:10`" in line)
    assert "or `fedtrip`:" in row
    ran = [run.experiment for run in archive if run.experiment.partition.startswith("orthogonal")]
    assert {run.method.name for run in ran if "fedtrip" in run.method.name} == {"fedtrip"}, (
        "fedtrip-auto was not run there"
    )
    for name in ("fedprox", "moon", "mimelite", "fedgkd"):
        section = methods.split(f"### {name}\n")[1].split("\n### ")[0]
        assert "Departs from the paper" in section, name


def test_the_page_is_made_of_the_tables(archive):
    assert (TOP / "docs" / "reproduction.md").read_text() == page(RESULTS, len(archive)), "run `make results`"
    assert (RESULTS / "README.md").read_text() == record(archive), "run `make results`"


def test_the_page_on_xi_says_what_the_runs_say(archive):
    assert (TOP / "docs" / "xi.md").read_text() == xi_page(archive), "run `make results`"
    findings, pushed = (Findings(ENTRIES[name].lines, archive) for name in ("xi", "push"))
    best = chosen(findings, VARIANTS)
    rule = make_method(RULES[best.label], {}, model="cnn", dataset="mnist")
    assert [rule.xi(t, gap) for t in (1, 9) for gap in (1, 4)] == [
        FedTripAuto().xi(t, gap) for t in (1, 9) for gap in (1, 4)
    ]
    for rule in ("constant 1", "gap norm"):
        assert gain_on(findings, "mlp-fmnist-4of50", rule, range(5)) < -0.05
        assert all(
            speedup_on(findings, case, rule, range(5)).mean > speedup_on(findings, case, "annealed", range(5)).mean
            for case in study_cases()
        )
    cells = [[float(cell.split("×")[0]) for cell in row[1:]] for row in papers_table(findings, pushed).rows]
    away = [sum(abs(math.log(ours[rule] / paper)) for paper, *ours in cells) for rule in range(len(RULES))]
    assert list(RULES)[away.index(min(away))] == "gap norm"
    for rule in ("1/gap", "annealed"):
        speedups = {case: speedup_on(findings, case, rule, range(5)).mean for case in cases_of(findings, rule)}
        assert max(speedups, key=speedups.get) == "mlp-fmnist-dir-0.1"


def test_the_page_on_xi_says_what_kept_momentum_and_other_mus_do(archive):
    findings = Findings(ENTRIES["xi"].lines, archive)
    for case in study_cases():
        assert speedup(findings, case, BASELINE, BASELINE + KEPT).mean > 1
        slower, faster = (speedup(findings, case, BASELINE + KEPT, rule + KEPT) for rule in ("1/gap", "annealed"))
        assert 1 < slower.mean < faster.mean
        assert all(gain_on(findings, case, rule + KEPT, range(10)) > 0 for rule in ("1/gap", "annealed"))
    assert all(run.final_accuracy <= 0.11 for run in findings.runs("cnn-fmnist", "constant 1" + KEPT).values())
    assert gain_on(findings, "cnn-fmnist", "constant 1", range(10)) > 0
    for case in OTHER_MUS:

        def gain(rule, mu, case=case):
            return gain_on(findings, mu_case(case), mu_label(rule, mu), range(3))

        others = [mu for mu in OTHER_MUS[case] if mu < 1]
        assert all(gain(rule, mu) > 0 for rule in ("constant 1", "1/gap", "annealed") for mu in others)
        assert all(gain(rule, 2.0) < -0.2 for rule in ("constant 1", "1/gap", "annealed"))
        assert all(gain(rule, 2.0) > gain("annealed", 2.0) for rule in ("gap norm", "1/gap norm"))
    assert gain_on(findings, "mlp-fmnist", "constant 1", range(3)) < -0.2  # the paper's μ = 1.0
    assert gain_on(findings, "cnn-fmnist-mu", mu_label("constant 1", 1.0), range(3)) < -0.2
    for rule in ("1/gap", "annealed"):
        assert gain_on(findings, "mlp-fmnist", rule, range(3)) > 0
        assert gain_on(findings, "cnn-fmnist-mu", mu_label(rule, 1.0), range(3)) > 0
        for case, low, high in (("mlp-fmnist", 0.1, 0.4), ("cnn-fmnist", 0.1, 1.0)):
            faster = [
                speedup_on(findings, mu_case(case), mu_label(rule, low), range(3)).mean,
                speedup_on(findings, mu_case(case), mu_label(rule, high), range(3)).mean,
            ]
            assert faster == sorted(faster)
    for mu in OTHER_MUS["cnn-fmnist"]:
        assert speedup_on(findings, "cnn-fmnist-mu", mu_label("1/gap norm", mu), range(3)).mean < 1.1


def test_the_page_on_xi_says_what_longer_training_does(archive):
    findings = Findings(ENTRIES["reach"].lines, archive)
    for epochs in reach.EPOCHS:
        gain = {
            far: mean(reach.gains(findings, reach.mlp_case(epochs), reach.label("annealed", far)))
            for far in reach.PUSHES
        }
        assert gain[FedTripAuto.push] > 0
        assert gain[max(reach.PUSHES)] < -0.05
    above = {}
    for epochs in reach.EPOCHS[1:]:
        case = reach.cnn_case(epochs)
        assert mean(reach.gains(findings, case, reach.OURS)) > 0
        readings = {name: mean(reach.gains(findings, case, name)) for name in (reach.PAPER, "gap norm", "1/gap norm")}
        above[epochs] = {name for name, gain in readings.items() if gain > 0}
    assert above[5] & above[10] == {"1/gap norm"}


def test_choosing_says_what_figure_6_says_of_clients_with_few_classes(archive):
    findings = Findings(ENTRIES["fig6"].lines, archive).on_common_seeds()
    first, second = [], []
    for case in ("cnn-orthogonal-5", "cnn-orthogonal-10", "mlp-orthogonal-5", "mlp-orthogonal-10"):
        ends = {
            name: mean(run.final_accuracy for run in findings.runs(case, name).values())
            for name in findings.labels(case)
        }
        best, next_best, *_ = sorted(ends, key=ends.get, reverse=True)
        first.append(best)
        second.append(next_best)
        assert set(ends) == {METHOD_TITLES[method] for method in PAPER_METHODS}
    assert first == ["FedTrip", "FedDyn", "FedDyn", "FedDyn"]
    assert second == ["FedDyn", "FedTrip", "FedTrip", "FedTrip"]


def test_the_page_on_xi_says_what_the_push_does(archive):
    findings = Findings(ENTRIES["push"].lines, archive)
    assert chosen(findings, push.VARIANTS).label == push.label(FedTripAuto.push)
    for line in (line for line in findings.lines if line.label == push.PAPERS_MU and line.case != push.EVERYBODY):
        ours, papers = (
            speedup_on(findings, line.case, label, range(5)).mean
            for label in (push.label(FedTripAuto.push), line.label)
        )
        assert (ours > papers) == (reach.mu_and_push(line)[1] < FedTripAuto.push)
    for far in (1.25, 1.6):
        assert gain_on(findings, push.EVERYBODY, push.label(far), range(5)) < -0.5


def test_the_record_is_whole_and_every_run_of_it_is_somebodys(archive):
    """Nothing was lost when methods were named anew: each run is one that an entry's line asks for."""
    asked = {
        run.model_sha256
        for entry in ENTRIES.values()
        for line in entry.lines
        for run in Findings([line], archive).runs(line.case, line.label).values()
    }
    kept = [run.model_sha256 for run in archive]
    assert set(kept) == asked
    assert len(kept) == sum(len(path.read_text().splitlines()) for path in (RESULTS / RUNS).glob("*/*.jsonl")) >= 1770
    assert {run.experiment.method.name for run in archive} == {*PAPER_METHODS, "fedtrip-auto", *RULES.values()}


def test_trials_are_paired(archive):
    """Trial s of any two methods in a case differs in nothing but the method: same data, model and clients."""
    for line in ENTRIES["table4"].lines:
        found = Findings([line], archive).runs(line.case, line.label)
        assert list(found) == list(range(len(found))), "seeds without a hole"
        for seed, run in found.items():
            assert run.experiment.seed == seed
            assert run.experiment.method.name == line.method
