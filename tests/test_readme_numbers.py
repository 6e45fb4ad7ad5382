"""The README's speed and the benchmark's page are what the benchmark measured."""

import json
from pathlib import Path

from bench.report import in_readme, write_report

ROOT = Path(__file__).parent.parent


def test_the_speed_in_the_readme_and_the_page_are_those_of_the_results():
    results = json.loads((ROOT / "bench" / "results.json").read_text())
    readme = (ROOT / "README.md").read_text()
    assert in_readme(readme, results) == readme
    assert write_report(results) == (ROOT / "bench" / "README.md").read_text()
    assert f"CPU: {results['cpu']}." in readme
