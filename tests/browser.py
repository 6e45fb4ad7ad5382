"""Debian's Chromium without a window, driven by Selenium."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Chromium: apt-get install chromium chromium-driver"
)


class Browser:
    """What the tests ask of a browser."""

    def __init__(self) -> None:
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service

        options = ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(str(DRIVER)))

    def show(self, address: str, width: int = 1280, scheme: str = "light") -> None:
        """Load the page anew on a screen of this width and wait for its charts."""
        from selenium.webdriver.support.ui import WebDriverWait

        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(address)
        self.run("localStorage.clear()")
        WebDriverWait(self.driver, 60).until(
            lambda _: self.run("return document.documentElement.dataset.drawn === 'yes'")
        )

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({selector!r}).click()")

    def curves(self) -> list[str]:
        """The names of the curves that are really drawn, in the order they are."""
        return self.run(
            "return [...document.querySelectorAll('.chart.convergence .scatterlayer .trace')]"
            ".filter((t) => t.querySelector('path.js-line')?.getAttribute('stroke-width') !== '0'"
            " && t.querySelector('path.js-line')?.style.strokeWidth !== '0px'"
            " && t.querySelector('path.js-line')?.getAttribute('d').length > 10)"
            ".map((t) => t.__data__[0].trace.name)"
        )

    def ink(self) -> str:
        """The colour of the page's text."""
        return self.run("return getComputedStyle(document.body).color")
