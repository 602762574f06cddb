"""A program with a dashboard, and its page in a browser: for the tests of the page."""

import json
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import chromium
from chromium import PATIENCE

# Runs before the page's own script: the page polls ten times as often, and requests are counted.
HASTE = """
const slowTimeout = window.setTimeout, plainFetch = window.fetch;
window.setTimeout = (f, time, ...rest) => slowTimeout(f, time / 10, ...rest);
window.requests = 0;
window.fetch = (...args) => {
  window.requests += 1;
  return plainFetch(...args);
};"""


class Scene:
    """The program that owns the pools."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.url, self.token = self.process.stdout.readline().split()

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def state(self):
        with urllib.request.urlopen(self.url + "state", timeout=PATIENCE) as answer:
            return {pool["name"]: pool for pool in json.load(answer)["pools"]}

    def control(self, pool, action):
        body = json.dumps({"pool": pool, "action": action}).encode()
        request = urllib.request.Request(self.url + "control", body, {
            "Content-Type": "application/json", "Authorization": "Bearer " + self.token})
        urllib.request.urlopen(request, timeout=PATIENCE).close()

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.write("bye\n")
            self.process.stdin.flush()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.process.stdin.close()
        self.process.stdout.close()
        assert code == 0, f"the scene ended with {code}"


class Page(unittest.TestCase):
    """All tests of a class share a scene and a browser."""

    screenshots = None  # the folder

    @classmethod
    def start(cls, *command):
        """The scene and the browser, until the end of the class."""
        cls.scene = Scene(*command)
        cls.addClassCleanup(cls.scene.end)
        profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.browser = chromium.start(profile.name, "--hide-scrollbars")
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HASTE})

    def open(self, url=None):
        """Opens the page as a new user."""
        self.look_at(1280, 900)
        self.browser.get(url or self.scene.url)
        self.browser.execute_script("sessionStorage.clear(); localStorage.clear()")
        self.browser.get("about:blank")
        self.browser.get(url or self.scene.url)
        self.until(lambda: self.text("#link") == "live")

    def look_at(self, width, height, scheme="light", phone=False):
        chromium.look_at(self.browser, width, height, scheme, phone)

    def until(self, holds):
        def tried(_):
            try:
                return holds()
            except (IndexError, KeyError):
                return False
        return WebDriverWait(self.browser, PATIENCE, 0.05).until(tried)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    # In one script each, because the page may replace elements at any time.

    def text(self, selector):
        return self.browser.execute_script(
            "return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)",
            selector)

    def picture(self, name, width=1280, scheme="light", of=None, height=None):
        """A screenshot of the whole page, of its top (height), or of one element."""
        phone = width < 500
        self.look_at(width, 900, scheme, phone)
        if height is None:
            height = self.browser.execute_script("return document.documentElement.scrollHeight")
        self.look_at(width, height, scheme, phone)
        # Finishes animations and waits until the page is drawn.
        self.browser.execute_async_script("""
            for (const each of document.getAnimations())
              if (each.effect.getComputedTiming().endTime !== Infinity) each.finish();
            const done = arguments[arguments.length - 1];
            requestAnimationFrame(() => requestAnimationFrame(() => done()));""")
        area = {"x": 0, "y": 0, "width": width, "height": height}
        if of:
            area = self.browser.execute_script("""
                const box = document.querySelector(arguments[0]).getBoundingClientRect();
                const edge = 8;
                return {x: box.x - edge, y: box.y + scrollY - edge,
                        width: box.width + 2 * edge, height: box.height + 2 * edge};""", of)
        # Full resolution for a phone, whose screen has few pixels.
        clip = {**area, "scale": 1 if phone else 0.75}
        chromium.picture(self.browser, self.screenshots / f"{name}.png", clip=clip,
                         captureBeyondViewport=True)

    def requests(self):
        """How many requests the page has sent."""
        return self.browser.execute_script("return window.requests")

    def type(self, key):
        """Sends a key to the focused element."""
        webdriver.ActionChains(self.browser).send_keys(key).perform()

    def faint(self):
        """Texts with too little contrast."""
        return self.browser.execute_script(CONTRAST)


# Visible texts whose contrast with their background is less than 4.5 to 1 (WCAG AA).
CONTRAST = """
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c;
  }
  return [255, 255, 255];
};
const found = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility() || e.disabled || e.closest(".skip, noscript")) continue;
  const style = getComputedStyle(e);
  if (style.fontSize === "0px") continue;
  const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) found.push(`${e.tagName}.${e.className} "${e.textContent}" ${ratio.toFixed(2)}`);
}
return found;
"""


def run(arguments):
    """Runs the tests of the program, and ends it."""
    began = time.monotonic()
    program = unittest.main(argv=[arguments[0], "-v", *arguments[3:]], exit=False)
    print(f"took {time.monotonic() - began:.1f} s")
    sys.exit(0 if program.result.wasSuccessful() else 1)
