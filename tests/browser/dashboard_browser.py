#!/usr/bin/env python3
"""Tests the dashboard in a browser: it shows the state and problems, and control requires a token.

usage: dashboard_browser.py SCENE SCREENSHOTS

SCENE is the program dashboard_scene; screenshots are written to the folder SCREENSHOTS.
"""

import json
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from chromium import PATIENCE
from dashboard_page import Page, Scene, run

CARD = '.pool[data-pool="%s"]'
LETTERS = {"leased": "L", "idle": "i", "opening": "o", "probing": "p", "resetting": "r",
           "closing": "c", "vacant": "."}


class Dashboard(Page):
    """All tests share a scene and a browser; each test reloads the page."""

    @classmethod
    def setUpClass(cls):
        cls.start(SCENE)

    def setUp(self):
        self.scene.tell("work")
        self.open()
        self.until(lambda: len(self.all(".pool")) >= 4)

    def pool(self, name):
        """What the page shows of a pool at one moment. KeyError: nothing yet."""
        shown = self.browser.execute_script("""
            const card = document.querySelector(arguments[0]);
            if (!card) return null;
            const texts = (s) => [...card.querySelectorAll(s)].map((each) => each.textContent);
            return {
              badge: card.querySelector(".badge").textContent,
              sentence: card.querySelector(".sentence").textContent,
              slots: [...card.querySelectorAll(".slots .slot")].map((each) => each.dataset.state),
              suspects: card.querySelectorAll('.slots .slot[data-suspect="true"]').length,
              waiting: Number(card.querySelector(".line").dataset.waiting),
              waiters: card.querySelectorAll(".waiter").length,
              granted: Number(card.dataset.granted),
              state: card.dataset.state, breaker: card.dataset.breaker,
              late: texts("tr.suspect"), holders: texts(".holders tbody tr"),
              refused: Object.fromEntries([...card.querySelectorAll("[data-reason]")].map(
                (each) => [each.dataset.reason, each.querySelector("b").textContent])),
              facts: Object.fromEntries([...card.querySelectorAll("[data-fact]")].map(
                (each) => [each.dataset.fact, each.textContent])),
              lines: [...card.querySelectorAll("path.line")].map((each) => each.getAttribute("d")),
            };""", CARD % name)
        if shown is None:
            raise KeyError(name)
        return shown

    def press(self, pool, action):
        self.browser.execute_script("""
            document.querySelector(arguments[0]).open = true""",
            CARD % pool + " details:has([data-action])")
        self.one(CARD % pool + f' [data-action="{action}"]').click()

    def resize(self, pool, size):
        # In one script, because the page resets a field that was not edited.
        self.browser.execute_script("""
            const field = document.querySelector(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input", {bubbles: true}));""",
            CARD % pool + " input", size)
        self.press(pool, "resize")
        self.one("#confirm-yes").click()

    def unlock(self):
        self.one("#token").click()
        self.one("#token-input").send_keys(self.scene.token, Keys.ENTER)
        self.until(lambda: self.text("#token") == "Forget token")

    # Tests.

    def test_shows_the_state_under_load(self):
        before = self.scene.state()
        self.until(lambda: self.pool("orders")["granted"] > before["orders"]["stats"]["granted"])
        shown = {name: self.pool(name) for name in before}
        after = self.scene.state()
        self.assertEqual(set(shown), set(after))
        for name, page in shown.items():
            self.assertLessEqual(page["granted"], after[name]["stats"]["granted"])
            self.assertEqual(len(page["slots"]), after[name]["stats"]["max"])
        self.until(lambda: "L" in (self.pool("orders")["lines"][0] or ""))
        self.until(lambda: "leased" in self.pool("orders")["slots"])
        self.until(lambda: self.pool("orders")["waiting"] > 0)
        self.until(lambda: any("dashboard_scene.cpp" in each and "checkout" in each
                               for each in self.pool("orders")["holders"]))

    def test_shows_exactly_the_state_without_load(self):
        self.scene.tell("rest")

        def agree():
            said, page = self.scene.state(), self.pool("orders")
            now = said["orders"]
            return (now["stats"]["leased"] == 0 and
                    "".join(LETTERS[each] for each in page["slots"]) == now["slots"] and
                    page["granted"] == now["stats"]["granted"] and
                    page["facts"]["granted"] == f'{now["stats"]["granted"]:,}' and
                    page["facts"]["opened"] == str(now["stats"]["opened"]) and
                    page["waiting"] == 0 and
                    f'0 of {now["stats"]["max"]} leased' in page["sentence"])
        self.until(agree)
        # Only one of the two leases exceeds its leak_after.
        sessions = self.scene.state()["sessions"]
        self.assertEqual([each["suspect"] for each in sessions["leases"][:2]], [True, False])

    def test_shows_a_leak(self):
        self.until(lambda: self.pool("sessions")["suspects"] == 1)
        page = self.pool("sessions")
        self.assertEqual(page["badge"], "1 leak suspect")
        self.assertEqual(len(page["late"]), 1)
        self.assertIn("nightly export", page["late"][0])
        self.assertIn("dashboard_scene.cpp", page["late"][0])
        self.assertIn("held for too long", self.text('#attention [data-pool="sessions"]'))
        self.until(lambda: self.all('.event[data-kind="leak_suspected"]'))

    def test_shows_an_open_breaker_and_its_refusals(self):
        page = self.pool("payments")
        self.assertEqual(page["badge"], "breaker open")
        self.assertEqual(page["breaker"], "inactive")
        self.assertIn("the breaker is open", self.text('#attention [data-pool="payments"]'))
        first = int(page["refused"]["unavailable"].replace(",", ""))
        self.until(lambda: int(self.pool("payments")["refused"]["unavailable"].replace(",", ""))
                   > first)

    def test_shows_a_paused_pool_and_its_line(self):
        page = self.pool("reports")
        self.assertEqual(page["badge"], "paused")
        self.assertEqual((page["waiting"], page["waiters"]), (3, 3))
        self.assertIn("3 callers wait", self.text('#attention [data-pool="reports"]'))

    def test_shows_names_as_text_and_not_as_markup(self):
        rows = ".overview tbody tr[data-pool]"
        self.scene.tell("odd")
        self.until(lambda: len(self.all(rows)) == 5)
        odd = [each for each in self.all(rows + " a") if each.text.startswith("<img")]
        self.assertEqual(len(odd), 1)
        odd[0].click()
        self.until(lambda: self.text(".pool h2").startswith("<img"))
        self.assertEqual(self.all("main img"), [])
        self.assertNotEqual(self.browser.title, "!")
        self.scene.tell("even")
        self.until(lambda: self.one("#absent").is_displayed())
        self.assertEqual(self.all("main img"), [])

    def test_refuses_control_without_the_token(self):
        body = json.dumps({"pool": "reports", "action": "resume"}).encode()
        for token in (None, "Bearer wrong-wrong-wrong-wrong"):
            request = urllib.request.Request(self.scene.url + "control", body,
                                             {"Content-Type": "application/json"})
            if token:
                request.add_header("Authorization", token)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=PATIENCE)
            self.assertEqual(refused.exception.code, 401)
        status = self.browser.execute_async_script("""
            const done = arguments[arguments.length - 1];
            fetch("/control", {method: "POST", headers: {"Content-Type": "application/json"},
                               body: '{"pool":"reports","action":"resume"}'})
              .then((answer) => done(answer.status))""")
        self.assertEqual(status, 401)
        self.assertEqual(self.scene.state()["reports"]["stats"]["state"], "paused")
        self.assertFalse(self.one(CARD % "reports" + ' [data-action="resume"]').is_displayed())

    def test_reports_a_wrong_token(self):
        self.one("#token").click()
        self.one("#token-input").send_keys("not-the-right-token", Keys.ENTER)
        self.press("reports", "resume")
        self.until(lambda: "the token was refused" in self.text(CARD % "reports" + ' .result'))
        self.assertEqual(self.scene.state()["reports"]["stats"]["state"], "paused")

    def test_requests_a_token_once_and_keeps_a_read_token(self):
        reading = "a-token-for-looking"
        other = Scene(SCENE, reading)
        self.addCleanup(other.end)
        dialog = lambda: self.one("#token-dialog").is_displayed()
        self.browser.get(other.url)
        self.until(dialog)
        self.one("#token-dialog [data-close]").click()
        self.until(lambda: self.text("#link") == "locked")
        # After the second request from now, the response to the first has been handled.
        before = self.requests()
        self.until(lambda: self.requests() >= before + 2)
        self.assertFalse(dialog())
        self.assertEqual(self.text("#token"), "Enter token")

        self.one("#token").click()
        self.one("#token-input").send_keys(reading, Keys.ENTER)
        self.until(lambda: self.text("#link") == "live" and len(self.all(".pool")) >= 4)
        result = CARD % "reports" + " .result"
        self.press("reports", "resume")
        self.until(lambda: "the token was refused" in self.text(result))
        self.assertEqual(self.text("#token"), "Unlock control")

        before = self.requests()
        self.until(lambda: self.requests() >= before + 2)
        self.until(lambda: self.text("#link") == "live")
        self.one("#token").click()
        self.one("#token-input").send_keys("not-the-right-token", Keys.ENTER)
        self.press("reports", "resume")
        self.until(lambda: self.text("#token") == "Unlock control")
        before = self.requests()
        self.until(lambda: self.requests() >= before + 2)
        self.until(lambda: self.text("#link") == "live")
        self.one("#token").click()
        self.one("#token-input").send_keys(other.token, Keys.ENTER)
        self.press("reports", "resume")
        self.until(lambda: self.pool("reports")["state"] == "lending")
        self.one("#token").click()
        self.until(lambda: self.text("#link") == "locked")
        self.assertFalse(dialog())

    def test_sends_no_requests_while_hidden(self):
        show = """
            Object.defineProperty(document, "hidden", {value: arguments[0], configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));"""
        # The response is delayed until go_on(), without the timeout of the page.
        self.browser.execute_script("""
            window.real = window.fetch;
            window.requests = 0;
            const go_on = new Promise((resolve) => { window.go_on = resolve; });
            window.fetch = async (path, options) => {
              window.requests += 1;
              await go_on;
              return window.real(path, {...options, signal: undefined});
            };""")
        self.until(lambda: self.requests() == 1)
        self.browser.execute_script(show, True)
        self.browser.execute_script("""
            delete document.documentElement.dataset.sample;
            window.fetch = window.real;
            window.go_on();""")
        self.until(lambda: self.browser.execute_script(
            "return document.documentElement.dataset.sample"))
        count = self.requests()
        end = time.monotonic() + 0.3  # three polling intervals
        while time.monotonic() < end:
            self.assertEqual(self.requests(), count)
        self.browser.execute_script(show, False)
        self.until(lambda: self.requests() >= count + 2)

    def test_starts_again_with_another_pool_of_the_same_name(self):
        other = Scene(SCENE)
        self.addCleanup(other.end)
        self.browser.get(other.url)
        self.until(lambda: self.pool("payments")["badge"] == "breaker open")
        mark = "document.querySelector(arguments[0]).old = true"
        self.browser.execute_script(mark, CARD % "payments")
        other.tell("renew")
        self.until(lambda: len(self.pool("payments")["slots"]) == 3)
        self.assertIsNone(self.browser.execute_script(
            "return document.querySelector(arguments[0]).old", CARD % "payments"))
        self.assertEqual(self.pool("payments")["badge"], "healthy")
        self.assertEqual(len(self.all(CARD % "payments")), 1)
        held = self.browser.execute_script(
            "return document.querySelector(arguments[0]).previousElementSibling.dataset.pool",
            CARD % "payments")
        self.assertEqual(held, "orders")

    def test_controls_with_the_token(self):
        self.unlock()
        self.press("reports", "resume")
        self.until(lambda: self.pool("reports")["state"] == "lending")
        self.until(lambda: self.pool("reports")["granted"] > 0)
        self.press("reports", "pause")
        self.assertIn("reports", self.text("#confirm-title"))
        self.one("#confirm-dialog [data-close]").click()
        self.assertEqual(self.scene.state()["reports"]["stats"]["state"], "lending")
        self.press("reports", "pause")
        self.one("#confirm-yes").click()
        self.until(lambda: self.pool("reports")["badge"] == "paused")

        self.resize("orders", "14")
        self.until(lambda: len(self.pool("orders")["slots"]) == 14)
        self.until(lambda: "Done" in self.text(CARD % "orders" + ' .result'))
        self.picture("control", of=CARD % "orders")
        self.look_at(1280, 900)
        self.resize("orders", "0")
        self.until(lambda: "Not done" in self.text(CARD % "orders" + ' .result'))
        self.resize("orders", "12")
        self.until(lambda: len(self.pool("orders")["slots"]) == 12)

    def test_keeps_the_focus_while_problems_come_and_go(self):
        problem = '#attention li[data-pool="%s"] a'
        focused = "return document.activeElement === document.querySelector(arguments[0])"
        focus = "document.querySelector(arguments[0]).focus()"
        self.until(lambda: self.all(problem % "sessions") and self.all(problem % "reports"))
        self.browser.execute_script(focus, problem % "sessions")
        self.scene.control("reports", "resume")
        self.until(lambda: not self.all(problem % "reports"))
        self.assertTrue(self.browser.execute_script(focused, problem % "sessions"))
        self.scene.control("reports", "pause")
        self.until(lambda: self.all(problem % "reports"))
        self.assertTrue(self.browser.execute_script(focused, problem % "sessions"))
        # When the focused problem ends, the pools get the focus.
        self.browser.execute_script(focus, problem % "reports")
        self.scene.control("reports", "resume")
        self.until(lambda: not self.all(problem % "reports"))
        self.assertTrue(self.browser.execute_script(focused, "#pools"))
        self.scene.control("reports", "pause")

    def test_can_be_used_without_a_mouse(self):
        focused = []
        for _ in range(8):
            self.type(Keys.TAB)
            focused.append(self.browser.execute_script(
                "return document.activeElement.id || document.activeElement.className"))
        self.assertEqual(focused[:3], ["skip", "token", "theme"])
        self.browser.execute_script("document.getElementById('theme').focus()")
        outline = self.browser.execute_script(
            "return getComputedStyle(document.activeElement).outlineStyle")
        self.type(Keys.ENTER)
        self.assertEqual(self.text("#theme"), "Theme: light")
        self.assertIn(outline, ("solid", "auto"))
        self.browser.execute_script("document.getElementById('token').focus()")
        self.type(Keys.ENTER)
        self.assertTrue(self.one("#token-dialog").is_displayed())
        self.type(Keys.ESCAPE)
        self.assertFalse(self.one("#token-dialog").is_displayed())

    def test_fits_on_a_phone(self):
        self.look_at(360, 740, phone=True)
        self.browser.get(self.scene.url)
        self.until(lambda: len(self.all(".pool")) >= 4)
        width = self.browser.execute_script("return document.documentElement.scrollWidth")
        self.assertLessEqual(width, 360)

    def test_is_readable_in_light_and_dark(self):
        for scheme in ("light", "dark"):
            self.look_at(1280, 900, scheme)
            self.until(lambda: self.pool("sessions")["suspects"] == 1)
            self.assertEqual(self.faint(), [], scheme)

    def test_reports_a_lost_connection(self):
        other = Scene(SCENE)
        try:
            self.browser.get(other.url)
            self.until(lambda: self.text("#link") == "live")
        finally:
            other.end()
        self.until(lambda: self.text("#link").startswith("connection lost"))
        self.assertIn("lost", self.one("body").get_attribute("class"))

    def test_z_takes_screenshots(self):
        """One of the last tests, so that the charts contain data."""
        self.until(lambda: self.browser.execute_script(
            "return Number(document.documentElement.dataset.sample)") >= 24)
        self.picture("light")
        self.picture("dark", scheme="dark")
        self.picture("overview-light", height=840)
        self.picture("overview-dark", scheme="dark", height=840)
        self.picture("leak", of=CARD % "sessions")
        self.picture("phone", width=360)
        self.picture("phone-first-screen", width=360, height=1100)
        for each in SCREENSHOTS.glob("*.png"):
            self.assertGreater(each.stat().st_size, 10_000, each)

    def test_zz_logs_no_unexpected_errors(self):
        """The last test: the browser has logged only errors that tests cause."""
        expected = ("status of 401", "status of 422", "ERR_CONNECTION_REFUSED",
                    "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "ERR_SOCKET_NOT_CONNECTED")
        logged = [each["message"] for each in self.browser.get_log("browser")]
        self.assertEqual([each for each in logged
                          if not any(word in each for word in expected)], [])


if __name__ == "__main__":
    SCENE = sys.argv[1]
    SCREENSHOTS = Path(sys.argv[2])
    Page.screenshots = SCREENSHOTS
    run(sys.argv)
