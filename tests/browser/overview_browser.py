#!/usr/bin/env python3
"""Tests the dashboard of many pools in a browser: the table of all pools, and the way to one pool.

usage: overview_browser.py CROWD SCREENSHOTS

CROWD is the program dashboard_crowd; screenshots are written to the folder SCREENSHOTS.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from chromium import PATIENCE
from dashboard_page import Page, Scene, run

POOLS = 20
TROUBLED = ["archive", "cache", "crowded", "exports", "gateway", "ledger", "locks", "scratch"]
CALM = ["wide"]  # with 500 slots
LEVELS = {"good": 0, "notable": 1, "bad": 2}

# What the table shows at one moment.
ROWS = """
return [...document.querySelectorAll(".overview tbody tr")].map((row) => ({
  name: row.dataset.pool ?? row.dataset.group,
  group: row.dataset.group !== undefined,
  member: row.classList.contains("member"),
  level: row.dataset.level,
  cells: Object.fromEntries([...row.children].map(
    (each) => [each.className.split(" ").pop().slice(2), each.textContent])),
}));"""


class Overview(Page):
    """All tests share a scene and a browser; each test opens the page anew."""

    @classmethod
    def setUpClass(cls):
        cls.start(CROWD, str(POOLS), "trouble")

    def setUp(self):
        self.scene.tell("work")
        self.open()
        self.until(lambda: len(self.rows()) > 9)

    def rows(self):
        return self.browser.execute_script(ROWS)

    def names(self):
        return [each["name"] for each in self.rows()]

    def row(self, name):
        """IndexError: not shown."""
        return [each for each in self.rows() if each["name"] == name][0]

    def focused(self):
        """The name of the row with the focus, or the id of the element."""
        return self.browser.execute_script("""
            const row = document.activeElement.closest("tr");
            return row ? row.dataset.row : document.activeElement.id;""")

    def search(self, text):
        field = self.one("#search")
        field.clear()
        field.send_keys(text)

    def sort_by(self, key):
        self.one(f'[data-sort="{key}"]').click()

    def details(self, name):
        """Opens the details of a pool by its address."""
        self.browser.execute_script("location.hash = '#pool=' + encodeURIComponent(arguments[0])",
                                    name)
        self.until(lambda: self.all(f'.pool[data-pool="{name}"]'))

    # Tests.

    def test_lists_the_worst_pools_first(self):
        self.until(lambda: {each["name"] for each in self.rows() if each["level"] != "good"}
                   >= set(TROUBLED))
        rows = self.rows()
        ranks = [LEVELS[each["level"]] for each in rows]
        self.assertEqual(ranks, sorted(ranks, reverse=True))
        self.assertEqual({each["name"] for each in rows if not each["group"]},
                         set(TROUBLED + CALM + ["search/0"]))
        self.assertEqual(self.text("#pool-count"), f"{POOLS + len(TROUBLED + CALM)} pools")
        self.assertEqual(self.row("ledger")["cells"]["breaker"], "inactive")
        self.assertEqual(self.row("wide")["cells"]["use"], "130 of 500")
        self.assertEqual(self.row("archive")["cells"]["waiting"], "4")
        self.until(lambda: "connection refused" in self.row("gateway")["cells"]["error"])

    def test_groups_shards_and_replicas(self):
        state = self.scene.state()
        groups = {each["name"]: each for each in self.rows() if each["group"]}
        self.assertEqual(set(groups), {"main", "orders", "billing"})
        of = {group: [each for each in state if each.startswith(group)] for group in groups}
        for group, row in groups.items():
            most = sum(state[each]["stats"]["max"] for each in of[group])
            self.assertTrue(row["cells"]["use"].endswith(f"of {most}"), row)
            self.assertIn(str(len(of[group])), row["cells"]["name"])
        toggle = self.one('tr[data-group="main"] button')
        self.assertEqual(toggle.get_attribute("aria-expanded"), "false")
        toggle.click()
        self.until(lambda: [each["name"] for each in self.rows() if each["member"]]
                   == ["main", "main-replica-1", "main-replica-2"])
        at = self.names().index("main")
        self.assertEqual(self.names()[at + 1:at + 4], of["main"])
        self.assertEqual(toggle.get_attribute("aria-expanded"), "true")
        toggle.send_keys(Keys.ENTER)
        self.until(lambda: not any(each["member"] for each in self.rows()))
        self.one("#group").click()
        self.until(lambda: len(self.rows()) == len(state))
        self.assertFalse(any(each["group"] for each in self.rows()))

    def test_shows_the_sick_member_of_a_group(self):
        self.scene.control("orders/5", "deactivate")
        try:
            self.until(lambda: "1 of 8: breaker open" in self.row("orders")["cells"]["state"])
            self.assertEqual(self.row("orders")["cells"]["breaker"], "inactive")
            self.one('tr[data-group="orders"] button').click()
            self.until(lambda: self.row("orders/5")["level"] == "bad")
            members = [each["name"] for each in self.rows() if each["member"]]
            self.assertEqual(members[0], "orders/5")
        finally:
            self.scene.control("orders/5", "activate")

    def test_finds_pools_by_words(self):
        self.search("orders/3")
        self.until(lambda: self.names() == ["orders/3"])
        self.assertEqual(self.text("#pool-count"), "1 of 29 pools")
        self.search("orders")
        self.until(lambda: self.names() == ["orders"] + [f"orders/{i}" for i in range(8)])
        self.search("10.0.0.7 refused")
        self.until(lambda: self.names() == ["gateway"])
        self.search("nothing of this")
        self.until(lambda: self.names() == [])
        self.assertIn("No pool matches", self.one("#overview").text)
        self.one("#search").send_keys(Keys.ESCAPE)
        self.until(lambda: len(self.rows()) > 9)

    def test_sorts_by_each_column(self):
        self.one("#group").click()
        self.scene.tell("rest")
        self.sort_by("name")
        natural = ["orders/0", "orders/1", "orders/7", "scratch", "search/0", "wide"]
        self.until(lambda: [each for each in self.names() if each in natural] == natural)
        self.assertEqual(self.names()[0], "archive")
        self.sort_by("name")
        self.until(lambda: self.names()[-1] == "archive")
        self.sort_by("use")
        self.until(lambda: self.names()[0] in ("crowded", "locks"))
        self.sort_by("breaker")
        self.until(lambda: self.names()[0] == "ledger")
        self.sort_by("error")
        self.until(lambda: self.names()[0] == "gateway")
        for key in ("waiting", "granted", "wait", "hold", "refused", "rank"):
            self.sort_by(key)
            head = self.one(f'th:has([data-sort="{key}"])')
            self.assertEqual(head.get_attribute("aria-sort"), "descending", key)
            self.assertEqual(len(self.all("[aria-sort]")), 1)
        self.sort_by("waiting")
        self.until(lambda: self.names()[0] in ("archive", "crowded"))
        self.sort_by("waiting")
        self.until(lambda: self.names()[-1] in ("archive", "crowded"))
        # The choice is kept.
        self.browser.refresh()
        self.until(lambda: len(self.rows()) > 9)
        self.assertEqual(self.one("[aria-sort]").get_attribute("aria-sort"), "ascending")

    def test_opens_a_pool_and_returns(self):
        self.one('tr[data-pool="gateway"] .o-use').click()
        self.until(lambda: self.all('.pool[data-pool="gateway"]'))
        self.assertFalse(self.one("#overview").is_displayed())
        self.assertTrue(self.browser.current_url.endswith("#pool=gateway"))
        self.assertEqual(len(self.all("#attention li[data-pool]")), 1)
        self.assertIn("other pools have problems", self.text("#attention"))
        self.until(lambda: set(self.texts(".event-pool")) == {"gateway"})
        self.browser.back()
        self.until(lambda: self.one("#overview").is_displayed())
        self.assertEqual(self.all(".pool"), [])
        self.details("locks")
        self.one("#crumbs a").click()
        self.until(lambda: self.one("#overview").is_displayed())

    def test_links_to_a_pool(self):
        self.browser.get("about:blank")
        self.browser.get(self.scene.url + "#pool=orders%2F3")
        self.until(lambda: self.text(".pool h2") == "orders/3")
        self.browser.get("about:blank")
        self.browser.get(self.scene.url + "#pool=absent")
        self.until(lambda: self.one("#absent").is_displayed())
        self.one("#crumbs a").click()
        self.until(lambda: self.one("#overview").is_displayed())

    def test_can_be_used_without_a_mouse(self):
        self.type("/")
        self.assertEqual(self.focused(), "search")
        self.type("locks")
        self.until(lambda: self.names() == ["locks"])
        self.type(Keys.ARROW_DOWN)
        self.assertEqual(self.focused(), "locks")
        self.type(Keys.ENTER)
        self.until(lambda: self.all('.pool[data-pool="locks"]'))
        self.assertEqual(self.focused(), "pools")
        self.type(Keys.ESCAPE)
        self.until(lambda: self.one("#overview").is_displayed())
        self.assertEqual(self.focused(), "locks")
        self.type(Keys.ARROW_UP)
        self.assertEqual(self.focused(), "search")
        self.type(Keys.ESCAPE)
        self.until(lambda: len(self.rows()) > 9)
        self.type(Keys.ARROW_DOWN)
        self.type(Keys.END)
        last = self.focused()
        self.assertEqual(last, self.names()[-1])
        self.type(Keys.HOME)
        self.assertEqual(self.focused(), self.names()[0])

    def test_keeps_its_order_while_it_is_used(self):
        self.sort_by("name")
        self.sort_by("rank")
        self.one("#group").click()
        self.until(lambda: len(self.rows()) == POOLS + len(TROUBLED + CALM))
        self.until(lambda: all(self.row(each)["level"] != "good" for each in TROUBLED))
        self.browser.execute_script("""
            document.querySelector('tr[data-pool="wide"] a').focus({preventScroll: true})""")
        at = self.names().index("orders/6")
        self.scene.control("orders/6", "pause")
        try:
            self.until(lambda: self.row("orders/6")["level"] == "notable")
            self.assertEqual(self.names().index("orders/6"), at)
            self.browser.execute_script("document.activeElement.blur()")
            self.until(lambda: self.names().index("orders/6") < at)
        finally:
            self.scene.control("orders/6", "resume")

    def test_says_why_a_pool_is_sick_in_one_alert(self):
        alert = lambda name: self.text(f'#attention li[data-pool="{name}"]')
        why = {
            "gateway": ["failed in the last 10 s: connection refused: 10.0.0.7:5432 (",
                        "refused in the last 10 s"],
            "cache": ["a probe failed: the server closed the connection unexpectedly ("],
            "scratch": ["a reset failed: ROLLBACK failed: the transaction is unknown ("],
            "locks": ["probably a deadlock"],
            "exports": ["2 leases are held for too long", "nightly export"],
            "ledger": ["the breaker is open"],
            "archive": ["paused: no lease is granted, 4 callers wait"],
            "crowded": ["callers wait most of the time"],
        }
        for name, texts in why.items():
            self.details(name)
            for each in texts:
                self.until(lambda: each in alert(name))
            self.assertEqual(len(self.all("#attention li")), 1)
        self.browser.execute_script("location.hash = ''")
        self.until(lambda: len(self.all("#attention li")) == 6)
        self.until(lambda: f"{len(TROUBLED) - 6} other pools have problems"
                   in self.text("#attention"))

    def test_shows_the_last_errors_on_the_card(self):
        cause = '.pool [data-cause="%s"]'
        for name, kind, text in (
                ("gateway", "open_failed", "connection refused: 10.0.0.7:5432"),
                ("cache", "probe_failed", "the server closed the connection unexpectedly"),
                ("scratch", "reset_failed", "ROLLBACK failed: the transaction is unknown"),
                ("locks", "nested_acquire", "dashboard_crowd.cpp:")):
            self.details(name)
            self.until(lambda: text in self.text(cause % kind))
            self.assertRegex(self.text(cause % kind + " time"), "just now|ago")
        self.details("wide")
        self.assertEqual(self.all(".pool .causes li"), [])

    def test_groups_holders_and_waiters_by_call_site_and_task(self):
        places = lambda which: self.browser.execute_script("""
            return [...document.querySelectorAll(arguments[0])].map(
              (row) => [...row.children].map((cell) => cell.textContent))""",
            f'.pool table[aria-label="{which}"] tbody tr')
        self.details("archive")
        waiting = places("Waiters")
        self.assertEqual([each[1:3] for each in waiting],
                         [["monthly report", "3"], ["audit", "1"]])
        self.assertRegex(waiting[0][0], r"^dashboard_crowd.cpp:\d+$")
        self.details("wide")
        self.until(lambda: [each[1:3] for each in places("Leases")] == [["stream", "130"]])
        self.assertEqual(places("Waiters"), [])
        slots = "return document.querySelectorAll('.pool .slot:not(.key)').length"
        self.assertEqual(self.browser.execute_script(slots), 500)
        self.details("locks")
        self.until(lambda: {each[1] for each in places("Waiters")} == {"transfer", "settle"})

    def test_says_which_program_this_is(self):
        pid = self.scene.process.pid
        self.assertTrue(self.text("#program").startswith("dashboard_crowd on "))
        self.assertIn(f"Process {pid} of dashboard_crowd on ", self.text("#about"))
        self.assertRegex(self.text("#about"), r"started (just now|.* ago) .*, cenote \d+\.\d+")
        self.assertIn("dashboard_crowd on ", self.browser.title)
        self.details("wide")
        self.assertTrue(self.browser.title.split(") ")[-1].startswith("wide – dashboard_crowd"))
        self.one(".options summary").click()
        self.assertEqual(self.texts(".options tr.changed th"),
                         ["name", "max", "opening_max", "leak_after", "observers"])
        self.assertEqual(self.texts('.options tr[data-option="max"] td'), ["500", "10"])
        self.assertGreater(len(self.all(".options tbody tr")), 30)
        self.assertFalse(self.one(".endpoint").is_displayed())
        self.details("gateway")
        self.assertEqual(self.text(".endpoint"), "postgresql://10.0.0.7:5432/calls")

    def test_shows_leases_over_time(self):
        self.details("crowded")
        asked = lambda: self.browser.execute_script("""
            return performance.getEntriesByType("resource").filter(
              (each) => each.name.includes("/state")).at(-1).name""")
        begin = ".pool .chart .chart-foot span"
        self.until(lambda: "L" in self.one(".pool path.area.leased").get_attribute("d"))
        self.assertIn("max 2", self.texts(".pool .readings")[0])
        self.assertIn("step=1&", asked())
        self.one('[data-step="12"]').click()
        self.until(lambda: "step=12&" in asked())
        # There are samples of 12 seconds, and the chart shows at least thirty.
        self.until(lambda: self.text(begin) in {f"−{n} min" for n in range(6, 60)})
        self.assertEqual(self.one('[data-step="12"]').get_attribute("aria-pressed"), "true")
        self.one('[data-step="288"]').click()
        self.until(lambda: self.text(begin) == "−2.4 h")
        self.browser.refresh()
        self.until(lambda: self.text(begin) == "−2.4 h")
        self.one('[data-step="1"]').click()
        self.until(lambda: not self.text(begin).endswith(" h"))

    def test_links_to_a_pool_and_a_time(self):
        self.details("crowded")
        ends = lambda: self.texts(".pool .chart-foot span:last-child")
        self.until(lambda: set(ends()) == {"now"})
        samples = "return Number(document.documentElement.dataset.sample)"
        self.until(lambda: self.browser.execute_script(samples) >= 12)
        frame = self.one(".pool .chart-frame")
        at_the_right = frame.size["width"] // 2 - 40  # from the middle
        webdriver.ActionChains(self.browser).move_to_element_with_offset(
            frame, at_the_right, 0).click().perform()
        self.until(lambda: "&at=" in self.browser.current_url)
        link = self.browser.current_url
        self.browser.get("about:blank")
        self.browser.get(link)
        self.until(lambda: [each.endswith(" s ago") for each in ends()] == [True] * 4)
        self.assertEqual(len(self.all('.cursor[visibility="visible"]')), 4)
        self.one("#unpin").click()
        self.until(lambda: set(ends()) == {"now"})
        # An older moment needs coarser charts.
        past = self.browser.execute_script("return Date.now() - 2 * 3600 * 1000")
        self.browser.execute_script(f"location.hash = '#pool=crowded&at={past}'")
        self.until(lambda: self.one('[data-step="288"]').get_attribute("aria-pressed") == "true")

    def test_marks_events_in_the_charts(self):
        self.scene.control("search/0", "pause")
        self.scene.control("search/0", "resume")
        self.details("search/0")
        self.until(lambda: any("paused, no lease is granted" in each
                               for each in self.texts('.mark-line[data-level="notable"] title')))
        self.until(lambda: self.all('.mark-line[data-level="good"]'))

    def test_pauses(self):
        self.one("#pause").click()
        self.until(lambda: self.text("#link").startswith("paused at "))
        before = self.browser.execute_script("return window.requests")
        self.details("crowded")  # what is selected is shown, once
        after = self.browser.execute_script("return window.requests")
        self.assertLessEqual(after, before + 2)
        end = time.monotonic() + 0.4  # four polling intervals
        while time.monotonic() < end:
            self.assertEqual(self.browser.execute_script("return window.requests"), after)
        self.assertTrue(self.text("#link").startswith("paused at "))
        self.one("#pause").click()
        self.until(lambda: self.text("#link") == "live")
        self.until(lambda: self.browser.execute_script("return window.requests") > after + 2)

    def test_is_a_table_for_screen_readers(self):
        for width, phone in ((1280, False), (360, True)):
            self.look_at(width, 900, phone=phone)
            self.until(lambda: len(self.rows()) > 9)
            nodes = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            of = {}
            for each in nodes:
                if each.get("ignored"):
                    continue
                name = each.get("name", {}).get("value", "")
                of.setdefault(each["role"]["value"], []).append(name)
            self.assertTrue(any(each.startswith("All pools.") for each in of["table"]), of["table"])
            self.assertIn("gateway", of["rowheader"])
            self.assertGreaterEqual(len(of["row"]), len(self.rows()))
            if not phone:
                self.assertIn("Wait p99", of["columnheader"])
            self.assertIn("Search pools", of["searchbox"])

    def test_announces_only_what_changes(self):
        self.assertNotEqual(self.text("#announcement"), "")
        self.until(lambda: all(self.row(each)["level"] != "good" for each in TROUBLED))
        self.scene.control("search/0", "pause")
        try:
            self.until(lambda: "search/0: paused" in self.text("#announcement"))
        finally:
            self.scene.control("search/0", "resume")
        self.until(lambda: "search/0 is healthy" in self.text("#announcement"))

    def test_is_readable_in_light_and_dark_and_on_a_phone(self):
        for scheme in ("light", "dark"):
            for width in (1280, 360):
                self.look_at(width, 900, scheme, width < 500)
                for place in ("", "#pool=gateway", "#pool=archive", "#pool=wide"):
                    self.browser.execute_script("location.hash = arguments[0]", place)
                    self.until(lambda: not place or self.text(".pool h2") == place[6:])
                    self.assertEqual(self.faint(), [], (scheme, width, place))
                    wide = self.browser.execute_script(
                        "return document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, width, (scheme, width, place))

    def test_shows_one_pool_at_once(self):
        other = Scene(CROWD, "1", "calm")
        self.addCleanup(other.end)
        self.open(other.url)
        self.until(lambda: len(self.all(".pool")) == 1)
        self.assertFalse(self.one("#overview").is_displayed())
        self.assertFalse(self.one("#crumbs").is_displayed())
        self.assertEqual(self.text("#attention"), "The pool is healthy.")
        self.picture("one-pool", height=900)

    def test_shows_two_hundred_pools(self):
        other = Scene(CROWD, "200", "trouble")
        self.addCleanup(other.end)
        self.open(other.url)
        self.until(lambda: self.text("#pool-count") == "209 pools")
        self.until(lambda: LEVELS[self.rows()[0]["level"]] == 2)
        self.picture("200-pools", height=1100)
        self.one("#group").click()
        self.until(lambda: len(self.rows()) == 209)
        self.search("orders/7")
        self.until(lambda: "orders/7" in self.names())

    def test_sends_few_bytes_for_what_is_not_shown(self):
        size = lambda query: len(urllib.request.urlopen(
            self.scene.url + "state" + query, timeout=PATIENCE).read())
        few = json.load(urllib.request.urlopen(self.scene.url + "state?details="))
        self.assertFalse(any("slots" in each for each in few["pools"]))
        self.assertLess(size("?details="), size("") / 2)
        asked = self.browser.execute_script("""
            return performance.getEntriesByType("resource").filter(
              (each) => each.name.includes("/state")).at(-1).name""")
        self.assertTrue(asked.endswith("?step=1&since=0&details=") or
                        asked.endswith("&details="), asked)

    def test_z_takes_screenshots(self):
        """One of the last tests, so that there is data."""
        self.until(lambda: self.browser.execute_script(
            "return Number(document.documentElement.dataset.sample)") >= 20)
        self.until(lambda: {each["name"] for each in self.rows() if each["level"] != "good"}
                   == set(TROUBLED))
        self.picture("many-light", height=900)
        self.picture("many-dark", scheme="dark", height=900)
        self.picture("many-phone", width=360, height=1600)
        for name in ("gateway", "archive", "wide", "locks"):
            self.look_at(1280, 900)
            self.details(name)
            self.picture(f"pool-{name}")
        self.picture("pool-locks-phone", width=360)
        self.picture("pool-locks-dark", scheme="dark")

    def test_zz_logs_no_errors(self):
        """The last test: the browser has logged only that the scenes of tests have ended."""
        logged = [each["message"] for each in self.browser.get_log("browser")]
        self.assertEqual([each for each in logged if "net::ERR_" not in each], [])


if __name__ == "__main__":
    CROWD = sys.argv[1]
    Page.screenshots = Path(sys.argv[2])
    run(sys.argv)
