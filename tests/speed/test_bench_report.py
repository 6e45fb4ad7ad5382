"""The pages of the benchmark, from made-up measurements."""

import json

from bench.__main__ import kept_results, of_this_machine
from bench.bars import BARS, EVALUATION, FEDTRIP, ONE, TORCH_TRAINING, TRAINING, TWO, bar_in_words, verdict
from bench.report import in_readme, write_report


def around(value):
    return {"median": value, "low": 0.9 * value, "high": 1.1 * value}


def case(kernels, ratio):
    parts = {"training": 0.5, "evaluation": 0.3, "checkpoint": 0.1, "whole": 1.0}
    return {
        "kernels": kernels, "turns": 30, "compute": "native", "sgemm": around(47e9),
        "seconds": {"plain": around(0.5)}, "ratio": {"1 worker": around(ratio), "2 workers": around(2 * ratio)},
        "workers": around(1.5), "share": {"training": around(0.62), "evaluation": around(0.5)},
        "torch over native": {"training": around(2.0), "evaluation": around(3.0)},
        "torch over ours": {"training": around(2.0), "evaluation": around(3.0)},
        "parts": {"1 worker": parts, "2 workers": parts}, "over fedavg": {"fedtrip": around(1.0)}, "layers": [],
    }  # fmt: skip


RESULTS = {"cpu": "a CPU", "cores": 2, "cases": {"cnn": {"avx512": case("avx512", 4.0), "avx2": case("avx2", 4.0)}}}


def test_the_bars_are_those_that_were_set():
    assert [bar_in_words("cnn", figure) for figure in (TRAINING, EVALUATION, ONE, TWO, FEDTRIP)] == [
        "≥ 65%", "≥ 75%", "≥ 5.30", "≥ 1.75", "≤ 1.010",
    ]  # fmt: skip
    assert bar_in_words("mcmahan", TORCH_TRAINING) == "≥ 1.00"
    assert list(BARS) == ["mlp", "cnn", "small3", "mcmahan", "alexnet"]


def test_verdicts_and_that_the_bar_of_a_round_is_for_avx2_alone():
    wide, narrow = RESULTS["cases"]["cnn"].values()
    assert verdict("cnn", ONE, wide) == "meant for AVX2"
    assert verdict("cnn", ONE, narrow) == "missed"  # 4.4 at best, of 5.3
    assert verdict("cnn", TRAINING, wide) == "within the interval"  # 0.62, 0.68 at best, of 0.65
    assert verdict("cnn", EVALUATION, wide) == "missed"
    assert verdict("cnn", FEDTRIP, wide) == "met"
    assert verdict("cnn", FEDTRIP, {**wide, "turns": 6}) == "met"
    assert verdict("cnn", FEDTRIP, {**wide, "turns": 5}) == "too few turns"


def test_torch_is_not_compared_with_itself():
    by_torch = {**RESULTS["cases"]["cnn"]["avx2"], "compute": "torch"}
    assert verdict("alexnet", TORCH_TRAINING, by_torch) == "not measured: ours is torch here"
    assert verdict("alexnet", TORCH_TRAINING, {**by_torch, "compute": "native"}) == "met"


def test_every_figure_of_the_page_stands_beside_its_kernels_and_their_sgemm():
    page = write_report([RESULTS])
    row = "| CNN | avx2, 47 GMAC/s | plain loop over ours, 1 worker | **4.00** [3.60, 4.40] | ≥ 5.30 | missed |"
    assert row in page.splitlines()
    figures = [line for line in page.splitlines() if line.startswith("| CNN ")]
    assert len(figures) == 2 * (5 + 1 + 2 + 1 + 1)
    assert all("avx2, 47 GMAC/s" in line or "avx512, 47 GMAC/s" in line for line in figures)
    assert "### From the prompt" not in page
    told = write_report([{**RESULTS, "compare": {"median": 12.4, "low": 11.9, "high": 13.0}}])
    assert "The bar is 12 s: within the interval." in told


def test_the_readme_gets_the_speed_between_its_marks_and_keeps_the_rest():
    marks = "<!-- speed: written by `python -m bench --render` -->", "<!-- end of speed -->"
    readme = f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n"
    told = in_readme(readme, [RESULTS])
    assert "| CNN | avx2, 47 GMAC/s | 4.0× | 8.0× | 62% | 50% |" in told
    assert "CPU: a CPU." in told
    assert "old" not in told
    assert (told.splitlines()[0], told.splitlines()[-1]) == ("before", "after")
    assert in_readme(told, [RESULTS]) == told


def test_every_processor_has_its_own_part(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"machines": [RESULTS]}))
    machines = kept_results(path)
    assert machines == [RESULTS]
    new = of_this_machine(machines)
    assert (new["cases"], machines) == ({}, [RESULTS, new])
    assert of_this_machine(machines) is new
    new["cases"] = {"mlp": {"avx2": case("avx2", 3.0)}}
    page = write_report(machines)
    assert (
        page.index("## a CPU, 2 cores") < page.index("| CNN |") < page.index(f"## {new['cpu']}") < page.index("| MLP |")
    )
    assert kept_results(tmp_path / "none.json") == []
