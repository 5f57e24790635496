"""A browser, or the reason why there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


def _without(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"a browser is needed in CI: {reason}")
    pytest.skip(f"no browser: {reason}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium under Selenium, with its console and its requests logged."""
    try:
        from selenium import webdriver
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.chrome.service import Service
    except ImportError as error:
        _without(f"{error}; pip install faultbeam[test]")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        _without("chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = str(chromium)
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        opened = webdriver.Chrome(service=Service(driver), options=options)
    except WebDriverException as error:
        _without(f"chromium did not start: {error.msg}")
    yield opened
    opened.quit()
