"""A headless Chromium for the tests of this folder.

Needs Debian's chromium, chromium-driver and python3-selenium.
"""

import base64
import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

PATIENCE = 180  # seconds, for conditions that must become true


def start(profile, *arguments):
    """A browser; `profile` is a folder for its files."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--force-color-profile=srgb", "--lang=en", "--user-data-dir=" + profile,
                     *arguments):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = shutil.which("chromedriver") or "/usr/bin/chromedriver"
    browser = webdriver.Chrome(service=Service(driver), options=options)
    browser.set_page_load_timeout(PATIENCE)
    browser.set_script_timeout(PATIENCE)
    return browser


def look_at(browser, width, height=900, scheme="light", phone=None):
    """Sets the size of the window, and whether the system is light or dark."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1,
        "mobile": width < 500 if phone is None else phone})


def picture(browser, file, **how):
    """Writes a screenshot; `how` are parameters of Page.captureScreenshot."""
    file.parent.mkdir(parents=True, exist_ok=True)
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", how)
    file.write_bytes(base64.b64decode(shot["data"]))
