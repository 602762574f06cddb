#!/usr/bin/env python3
"""Tests the orders service as a program: under load, with idle clients, with Prometheus, shutdown.

usage: orders_service_load.py PROGRAM [unittest arguments]

With CENOTE_LOAD_SECONDS=60 (more than 10) it also measures goodput with five clients per
connection, compared with the best goodput without contention in the same run, and memory over time.
Otherwise the loads are short, and only the responses are checked.
"""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

SECONDS = float(os.environ.get("CENOTE_LOAD_SECONDS", "1"))
MEASURES = SECONDS > 10
TIMEOUT = 180
MIX = Path(__file__).with_name("mix.lua")
ORDER = json.dumps({"customer": "ann", "lines": [{"item": "tea", "quantity": 2, "cents": 350}]})

program = None


class Service:
    """The program with a temporary database; a context manager."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="orders-test-")
        self.file = Path(self.folder.name) / "orders.db"
        self.process = subprocess.Popen(
            [program, "--database", f"sqlite:{self.file}?synchronous=normal", *flags],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)$", line.strip())[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def ask(self, method, target, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request(method, target, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def ask_until(self, status, *what):
        """Repeats a request until it gets this status, which takes a while under overload."""
        answer = [None]

        def is_answered():
            try:
                answer[0] = self.ask(*what)
            except OSError:
                return False
            return answer[0][0] == status
        assert eventually(is_answered), answer[0]
        return answer[0]

    def metric(self, name):
        text = self.ask_until(200, "GET", "/metrics")[1]
        return float(re.search(rf'^{name}{{pool="orders"}} (\S+)$', text, re.MULTILINE)[1])

    def memory(self):
        """Resident, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def fill(self):
        for _ in range(9):
            assert self.ask("POST", "/orders", ORDER)[0] == 201

    def load(self, clients, seconds):
        """Runs wrk; returns its result as a dictionary."""
        command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds:.0f}s", "--timeout", f"{TIMEOUT}s",
                   "-s", str(MIX),
                   f"http://127.0.0.1:{self.port}"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        result = json.loads(re.search(r"^RESULT (.*)$", output, re.MULTILINE)[1])
        result["goodput"] = result["good"] / result["seconds"]
        return result

    def load_until(self, holds, clients, seconds):
        """Like load(), but repeated with a longer time until `holds`: the machine may be busy."""
        while True:
            result = self.load(clients, seconds)
            if holds(result) or seconds > TIMEOUT:
                return result
            seconds *= 2

    def terminate(self):
        """Sends SIGTERM; returns the time until the end, the exit status and the output."""
        since = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(TIMEOUT)
        return time.monotonic() - since, code, self.process.stdout.read()


def eventually(holds):
    end = time.monotonic() + TIMEOUT
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Client(threading.Thread):
    """Sends orders until the service stops listening."""

    def __init__(self, port):
        super().__init__()
        self.port = port
        self.made = 0
        self.lost = []
        self.start()

    def run(self):
        while True:
            try:
                there = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
            except OSError:
                return
            try:
                with there, there.makefile("rb") as answers:
                    while self.order(there, answers):
                        pass
            except OSError as error:
                self.lost.append(repr(error))
                return

    def order(self, there, answers):
        """Sends an order. Returns whether the connection can be used for another one."""
        there.sendall((f"POST /orders HTTP/1.1\r\nHost: t\r\nContent-Length: {len(ORDER)}\r\n\r\n"
                       + ORDER).encode())
        status = answers.readline()
        if not status.startswith(b"HTTP/1.1 201"):
            self.lost.append(repr(status))
            return False
        fields = http.client.parse_headers(answers)
        if len(answers.read(int(fields["Content-Length"]))) != int(fields["Content-Length"]):
            self.lost.append("an incomplete response")
            return False
        self.made += 1
        return fields["Connection"] != "close"


class OrdersService(unittest.TestCase):
    def expect_only_good_or_busy(self, result):
        self.assertGreater(result["good"], 0, result)
        self.assertEqual(result["other"], 0, result)
        self.assertEqual(result["busy_without_hint"], 0, result)
        self.assertEqual(result["socket_errors"], 0, result)

    def expect_pool_unharmed(self, service):
        """Checks that no lease is left, and that the counters are consistent."""
        # Requests that wrk has aborted may still be running.
        self.assertTrue(eventually(lambda: service.metric("cenote_pool_waiting") == 0))
        self.assertTrue(eventually(lambda: service.metric("cenote_pool_granted_total") ==
                                   service.metric("cenote_pool_released_total")))
        self.assertEqual(service.metric("cenote_pool_discarded_total"), 0)
        self.assertLessEqual(service.metric("cenote_pool_opened_total"),
                             service.metric("cenote_pool_max"))

    def test_serves_five_clients_for_each_connection(self):
        connections = 8
        with Service("--max", str(connections)) as service:
            service.fill()
            served = lambda result: result["good"] > 0
            self.expect_only_good_or_busy(
                service.load_until(served, connections, SECONDS if not MEASURES else 5))
            if MEASURES:
                self.measure(service, connections)
            else:
                result = service.load_until(served, 5 * connections, SECONDS)
                print("five clients for each connection:", json.dumps(result))
                self.expect_only_good_or_busy(result)
            self.expect_pool_unharmed(service)

    def measure(self, service, connections):
        """Alternates both loads, so that noise on the machine affects both."""
        rounds = 12
        share = SECONDS / rounds
        tried = {clients: service.load(clients, 3)["goodput"] for clients in (2, 4, connections)}
        fewest = max(tried, key=tried.get)
        ratios, alone, contended, memory = [], [], [], [service.memory()]
        for _ in range(rounds):
            alone.append(service.load(fewest, share))
            contended.append(service.load(5 * connections, share))
            ratios.append(contended[-1]["goodput"] / alone[-1]["goodput"])
            memory.append(service.memory())
        for each in alone + contended:
            self.expect_only_good_or_busy(each)
        print("without contention, by clients:", {c: round(each) for c, each in tried.items()})
        for name, results in (("without contention", alone), ("five for each", contended)):
            print(f"{name}: {statistics.median(each['goodput'] for each in results):.0f}/s, "
                  f"{sum(each['good'] for each in results)} served, "
                  f"{sum(each['busy'] for each in results)} refused with Retry-After, "
                  f"p99 {statistics.median(each['p99_ms'] for each in results):.1f} ms, "
                  f"longest {max(each['max_ms'] for each in results):.0f} ms")
        print("goodput with contention divided by goodput without, by round:",
              [round(each, 2) for each in ratios], "median", round(statistics.median(ratios), 3))
        print("memory, MiB:", [round(each / 2**20, 1) for each in memory])
        self.assertGreaterEqual(statistics.median(ratios), 0.9)
        self.assertLess(memory[-1], memory[1] * 1.05 + 2**20, "memory grew after the first round")

    def test_refuses_requests_under_overload_with_retry_after(self):
        with Service("--max", "1") as service:
            service.fill()
            result = service.load_until(lambda some: some["good"] > 0 and some["busy"] > 0, 100,
                                        SECONDS if not MEASURES else 10)
            print("a hundred clients for one connection:", json.dumps(result))
            self.expect_only_good_or_busy(result)
            self.assertGreater(result["busy"], 0)
            self.expect_pool_unharmed(service)

    def test_loses_no_request_at_shutdown(self):
        with Service("--max", "4", "--wait", str(TIMEOUT), "--drain", str(TIMEOUT)) as service:
            clients = [Client(service.port) for _ in range(20)]
            enough = 200 if not MEASURES else 20_000
            self.assertTrue(eventually(lambda: sum(each.made for each in clients) >= enough))
            took, code, output = service.terminate()
            for each in clients:
                each.join()
            made = sum(each.made for each in clients)
            with sqlite3.connect(service.file) as database:
                kept = database.execute("SELECT count(*) FROM orders").fetchone()[0]
            print(f"shutdown under load: {took:.3f} s, {made} answered, {kept} stored;",
                  output.strip())
            self.assertEqual([each.lost for each in clients], [[]] * len(clients))
            self.assertEqual(kept, made)
            self.assertEqual(code, 0)

    def test_survives_a_thousand_idle_clients(self):
        with Service("--max", "2", "--connections", "400") as service:
            idle = []
            try:
                for _ in range(1000):
                    idle.append(socket.create_connection(("127.0.0.1", service.port), TIMEOUT))
                # The server closes idle connections after a while.
                for _ in range(20):
                    service.ask_until(201, "POST", "/orders", ORDER)
                service.ask_until(200, "GET", "/health")
                self.expect_pool_unharmed(service)
            finally:
                for each in idle:
                    each.close()
            self.assertEqual(service.terminate()[1], 0)

    def test_is_scraped_by_prometheus(self):
        with Service("--max", "2") as service, tempfile.TemporaryDirectory() as folder:
            service.fill()
            before = service.metric("cenote_pool_granted_total")
            for _ in range(17):
                self.assertEqual(service.ask("GET", "/orders/1")[0], 200)
            with Prometheus(folder, service.port) as prometheus:
                # After a late scrape there may be no current value.
                for query, expected in (
                        ('cenote_pool_granted_total{pool="orders"}', before + 17),
                        ('up{job="orders"}', 1),
                        ('cenote_pool_max{pool="orders"}', 2),
                        ('sum(cenote_pool_resources{pool="orders",state="leased"})', 0)):
                    self.assertTrue(eventually(
                        lambda q=query, e=expected: prometheus.value(q) == e), query)
                self.assertTrue(eventually(lambda: (prometheus.value(
                    'cenote_pool_wait_seconds_count{pool="orders"}') or 0) > 0))


class Prometheus:
    """A Prometheus that scrapes one service."""

    def __init__(self, folder, target):
        self.folder = folder
        self.config = Path(folder) / "prometheus.yml"
        self.config.write_text("global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                               "scrape_configs:\n"
                               "  - job_name: orders\n"
                               f"    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n",
                               encoding="ascii")
        self.start()

    def start(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.config}",
             f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def value(self, query):
        """The current value of a query; None while there is none."""
        if self.process.poll() is not None:
            self.start()  # another program has taken its port
        address = f"http://127.0.0.1:{self.port}/api/v1/query?"
        try:
            with urllib.request.urlopen(address + urllib.parse.urlencode({"query": query}),
                                        timeout=TIMEOUT) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return float(result[0]["value"][1]) if len(result) == 1 else None


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
