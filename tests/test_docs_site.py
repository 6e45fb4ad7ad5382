"""The documentation as pages, opened as files: search works, and nothing is fetched from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser import Browser, needs_chromium

pytestmark = [pytest.mark.slow, needs_chromium]
ROOT = Path(__file__).parent.parent
ITEMS = "document.querySelectorAll('.md-search-result__item h1, .md-search-result__item h2')"
FOUND = f"return [...{ITEMS}].map(e => e.innerText)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs the extra docs, which `make docs` installs")
    built = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return built


@pytest.mark.parametrize(
    ("page", "asked", "title"),
    [("index.html", "dirichlet", "partition"), ("evidence/tuned/tuning.html", "fedgkd", "methods")],
)
def test_search_works_from_files_and_nothing_is_fetched(site, page, asked, title):
    from selenium.webdriver.support.ui import WebDriverWait

    browser = Browser()
    try:
        browser.driver.get(f"{(site / page).as_uri()}?q={asked}")
        found = WebDriverWait(browser.driver, 30).until(lambda driver: driver.execute_script(FOUND))
        assert any(title in one.lower() for one in found), found
        problems = [entry["message"] for entry in browser.driver.get_log("browser")]
        assert not [problem for problem in problems if "http" in problem], problems
    finally:
        browser.driver.quit()
