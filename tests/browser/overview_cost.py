#!/usr/bin/env python3
"""Measures what the dashboard of many pools costs: the script of the page, and the program.

usage: overview_cost.py CROWD POOLS SECONDS [all]

CROWD is the program dashboard_crowd. With `all` the table has a row per pool, without groups. Not a
test: run it on a machine that does nothing else.
"""

import os
import sys
import tempfile
import time

import chromium
from dashboard_page import Scene


def processor_time(process):
    """Seconds of each thread."""
    folder = f"/proc/{process.pid}/task"
    times = {}
    for thread in os.listdir(folder):
        with open(f"{folder}/{thread}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        times[thread] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return times


def main(crowd, pools, seconds, how="groups"):
    scene = Scene(crowd, pools, "calm")
    scene.tell("rest")
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    browser = chromium.start(profile.name, "--hide-scrollbars")
    try:
        chromium.look_at(browser, 1280, 900)
        before = processor_time(scene.process)
        time.sleep(float(seconds))
        alone = sum(processor_time(scene.process).values()) - sum(before.values())
        scene.tell("work")
        browser.get(scene.url)
        time.sleep(5)
        if how == "all":
            browser.execute_script("document.querySelector('#group').click()")
        browser.execute_cdp_cmd("Performance.enable", {})
        metrics = lambda: {each["name"]: each["value"] for each in browser.execute_cdp_cmd(
            "Performance.getMetrics", {})["metrics"]}
        page = metrics()
        time.sleep(float(seconds))
        for name, value in metrics().items():
            if name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration", "TaskDuration"):
                print(f"{name}: {(value - page[name]) / float(seconds) * 1000:.2f} ms per second")
        scene.tell("rest")
        before = processor_time(scene.process)
        time.sleep(float(seconds))
        watched = sum(processor_time(scene.process).values()) - sum(before.values())
        rows = "return document.querySelectorAll('.overview tbody tr').length"
        print(f"rows: {browser.execute_script(rows)}")
        print(f"program without a page: {alone / float(seconds) * 100:.2f} % of a core")
        print(f"program with a page: {watched / float(seconds) * 100:.2f} % of a core")
    finally:
        browser.quit()
        scene.end()
        profile.cleanup()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
