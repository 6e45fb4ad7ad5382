"""The README's speed and the benchmark's page are what the benchmark measured."""

import json
from pathlib import Path

from bench.report import in_readme, write_report

ROOT = Path(__file__).parent.parent


def test_the_speed_in_the_readme_and_the_page_are_those_of_the_results():
    machines = json.loads((ROOT / "bench" / "results.json").read_text())["machines"]
    readme = (ROOT / "README.md").read_text()
    assert in_readme(readme, machines) == readme
    assert write_report(machines) == (ROOT / "bench" / "README.md").read_text()
    assert all(f"CPU: {results['cpu']}." in readme for results in machines)
