"""The README's speed table is what the benchmark measured."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_speed_table_is_the_benchmarks():
    results = json.loads((ROOT / "bench" / "results.json").read_text())
    readme = (ROOT / "README.md").read_text()
    for name, title in (("mlp", "MLP"), ("cnn", "CNN"), ("alexnet", "AlexNet")):
        one, two = (results[name]["ratio"][workers]["median"] for workers in ("1 worker", "2 workers"))
        assert f"| {title} | {one:.1f}× | {two:.1f}× |" in readme
