#!/usr/bin/python3
"""A peer process for psycopg_pool. ../README.md has the protocol."""

import asyncio
import gc
import inspect
import itertools
import random
import resource
import statistics
import sys
import threading
import time
import tracemalloc
from time import perf_counter_ns as now

import psycopg_pool
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

OPEN_TIMEOUT = 10.0  # seconds


class Decline(Exception):
    """The pool does not support the command."""


class Stub:
    """The parts of a connection that the pool uses; always idle."""

    def __init__(self):
        self.uses = 0
        self.pgconn = self  # the pool reads its transaction_status
        self.transaction_status = TransactionStatus.IDLE
        self.closed = False

    @classmethod
    def connect(cls, conninfo, **kwargs):
        return cls()

    def close(self):
        self.closed = True

    # The pool's context manager enters the connection's, which would commit.
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class AsyncStub(Stub):
    @classmethod
    async def connect(cls, conninfo, **kwargs):
        return cls()

    async def close(self):
        self.closed = True

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass


def open_pool(size, **kwargs):
    pool = ConnectionPool(min_size=size, **kwargs)
    pool.wait(OPEN_TIMEOUT)
    return pool


async def open_async_pool(size):
    pool = AsyncConnectionPool(min_size=size, connection_class=AsyncStub)
    await pool.wait(OPEN_TIMEOUT)
    return pool


def check_sum(uses, cycles):
    """Checks that each cycle incremented a resource, so that no resource was shared."""
    total = sum(uses)
    if total != cycles:
        raise RuntimeError(f"{cycles} cycles, but the resources count {total}")


class Stopwatch:
    """Wall time and CPU time of the process since construction."""

    def __init__(self):
        self._began = now()
        self._used = self._cpu_seconds()

    def seconds(self):
        return (now() - self._began) * 1e-9

    def cpu(self):
        return self._cpu_seconds() - self._used

    def cores(self):
        return self.cpu() / self.seconds()

    @staticmethod
    def _cpu_seconds():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime


class Waits:
    """A histogram of nanoseconds with 32 equal steps per power of two; small values are exact."""

    STEPS = 32

    def __init__(self):
        self.buckets = [0] * (60 * self.STEPS)
        self.count = 0
        self.longest = 0

    def record(self, value):
        # The bucket is exponent times steps plus the six leading bits.
        shift = max(value.bit_length() - 6, 0)
        self.buckets[shift * 32 + (value >> shift)] += 1
        self.count += 1
        if value > self.longest:
            self.longest = value

    @classmethod
    def all_of(cls, parts):
        whole = cls()
        whole.buckets = [sum(column) for column in zip(*(part.buckets for part in parts))]
        whole.count = sum(part.count for part in parts)
        whole.longest = max(part.longest for part in parts)
        return whole

    def quantile(self, share):
        """The value that a share of all waits do not exceed, in microseconds."""
        rank = int(share * self.count)
        for bucket, seen in enumerate(itertools.accumulate(self.buckets)):
            if seen > rank:
                shift = max(bucket // self.STEPS - 1, 0)
                upper_end = ((bucket - shift * self.STEPS + 1) << shift) - 1
                return min(upper_end, self.longest) * 1e-3
        return self.longest * 1e-3


class Thread(threading.Thread):
    """A daemon thread with a result."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self._work = work

    def run(self):
        try:
            self._result = self._work()
        except Exception as error:
            self._result = error

    def result(self):
        self.join()
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


class Stop:
    """Stops the threads; reading an attribute is cheaper than an Event."""

    def __init__(self):
        self.now = False


def run_threads(count, seconds, work):
    """Runs work(stop) on threads that start together; returns results, seconds and cores."""
    stop = Stop()
    ready = threading.Barrier(count + 1)

    def wait_and_work():
        ready.wait()
        return work(stop)

    threads = [Thread(wait_and_work) for _ in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    watch = Stopwatch()
    time.sleep(seconds)
    stop.now = True
    elapsed, cores = watch.seconds(), watch.cores()
    return [thread.result() for thread in threads], elapsed, cores


# Each command returns its metrics (value, unit, name) and the number of cores used.


def w1(seconds, size):
    """One thread runs cycles."""
    batches = []
    total = 0
    with open_pool(size, connection_class=Stub) as pool:
        watch = Stopwatch()
        for _ in range(10):
            cycles = 0
            began = now()
            end = began + seconds * 1e8
            while (at := now()) < end:
                for _ in range(100):
                    with pool.connection() as resource:
                        resource.uses += 1
                cycles += 100
            batches.append((at - began) / cycles)
            total += cycles
        cores = watch.cores()
        check_sum((pool.getconn().uses for _ in range(size)), total)
    return [(statistics.median(batches), "ns", "cycle")], cores


def w2(seconds, size, threads):
    """Many threads run cycles."""

    def work(stop):
        cycles = 0
        while not stop.now:
            with pool.connection() as resource:
                resource.uses += 1
            cycles += 1
        return cycles

    with open_pool(size, connection_class=Stub) as pool:
        cycles, elapsed, cores = run_threads(threads, seconds, work)
        check_sum((pool.getconn().uses for _ in range(size)), sum(cycles))
    return [(sum(cycles) / elapsed * 1e-6, "M/s", "cycles")], cores


def w3(seconds, size, threads, hold, asleep):
    """More threads than resources."""
    hold_seconds = hold * 1e-6

    def be_busy():
        end = now() + hold * 1000
        while now() < end:
            pass

    def work(stop):
        waits = Waits()
        while not stop.now:
            began = now()
            with pool.connection() as resource:
                waits.record(now() - began)
                resource.uses += 1
                if hold:
                    if asleep:
                        time.sleep(hold_seconds)
                    else:
                        be_busy()
        return waits

    with open_pool(size, connection_class=Stub) as pool:
        results, elapsed, cores = run_threads(threads, seconds, work)
        waits = Waits.all_of(results)
        check_sum((pool.getconn().uses for _ in range(size)), waits.count)
    cycles = [each.count for each in results]
    return [
        (waits.count / elapsed * 1e-3, "k/s", "cycles"),
        (waits.quantile(0.5), "us", "wait p50"),
        (waits.quantile(0.99), "us", "wait p99"),
        (waits.quantile(0.999), "us", "wait p99.9"),
        (waits.longest * 1e-3, "us", "wait longest"),
        (min(cycles) / max(cycles), "-", "least/most"),
    ], cores


async def w4(seconds, size, tasks, threads):
    """Many tasks run cycles with a yield."""
    if threads != 1:
        raise Decline("an asyncio pool runs on one thread")
    stop = Stop()
    made = 0

    async def work():
        nonlocal made
        while not stop.now:
            async with pool.connection() as resource:
                resource.uses += 1
                await asyncio.sleep(0)
            made += 1

    async with await open_async_pool(size) as pool:
        running = [asyncio.create_task(work()) for _ in range(tasks)]
        watch = Stopwatch()
        await asyncio.sleep(seconds)
        stop.now = True
        elapsed, cores, cycles = watch.seconds(), watch.cores(), made
        await asyncio.gather(*running)
        check_sum([(await pool.getconn()).uses for _ in range(size)], made)
    return [(cycles / elapsed * 1e-6, "M/s", "cycles")], cores


async def w4_memory(size, tasks):
    """The memory of a waiting task."""

    async def wait():
        async with pool.connection():
            pass

    async with await open_async_pool(size) as pool:
        leased = [await pool.getconn() for _ in range(size)]
        gc.collect()  # also empties the interpreter's free lists
        watch = Stopwatch()
        tracemalloc.start()
        waiting = [asyncio.create_task(wait()) for _ in range(tasks)]
        while pool.get_stats()["requests_waiting"] < tasks:
            await asyncio.sleep(0.01)
        cores = watch.cores()
        gc.collect()  # count only memory in use
        grown, _ = tracemalloc.get_traced_memory()
        allocations = len(tracemalloc.take_snapshot().traces)
        tracemalloc.stop()
        for resource in leased:
            await pool.putconn(resource)  # passed from task to task
        await asyncio.gather(*waiting)
    return [(grown / tasks, "-", "bytes"), (allocations / tasks, "-", "allocations")], cores


async def w5(size, tasks, timeout):
    """Many tasks wait for an exhausted pool and are refused."""

    async def wait():
        began = now()
        try:
            async with pool.connection(timeout=timeout * 1e-3):
                raise RuntimeError("an exhausted pool leased a resource")
        except PoolTimeout:
            return (now() - began) * 1e-6 - timeout

    async with await open_async_pool(size) as pool:
        for _ in range(size):
            await pool.getconn()
        waiting = [asyncio.create_task(wait()) for _ in range(tasks)]
        watch = Stopwatch()
        latest = max(await asyncio.gather(*waiting))
        cpu, cores = watch.cpu() * 1e3, watch.cores()
    return [(latest, "ms", "latest"), (cpu, "ms", "cpu")], cores


def w6(seconds, size, borrowers, host, port, user, password, database):
    """Threads share connections to PostgreSQL."""

    def select(connection):
        # Prepare at the first use on each connection instead of the sixth.
        query = "select balance from account where id = %s"
        return connection.execute(query, (random.randint(1, 10000),), prepare=True).fetchone()[0]

    def work(stop):
        waits = Waits()
        while not stop.now:
            began = now()
            with pool.connection() as connection:
                waits.record(now() - began)
                select(connection)
        return waits

    # Without autocommit, psycopg would send BEGIN and COMMIT around each query, with a round trip
    # each.
    to = {"host": host, "port": port, "user": user, "password": password, "dbname": database}
    with open_pool(size, configure=select, kwargs={**to, "autocommit": True}) as pool:
        results, elapsed, cores = run_threads(borrowers, seconds, work)
    waits = Waits.all_of(results)
    cycles = [each.count for each in results]
    return [
        (waits.count / elapsed * 1e-3, "k/s", "queries"),
        (waits.quantile(0.5), "us", "wait p50"),
        (waits.quantile(0.99), "us", "wait p99"),
        (waits.longest * 1e-3, "us", "wait longest"),
        (min(cycles) / max(cycles), "-", "least/most"),
    ], cores


COMMANDS = {"w1": w1, "w2": w2, "w3": w3, "w4": w4, "w4-memory": w4_memory, "w5": w5, "w6": w6}
TYPES = {"seconds": float, "host": str, "user": str, "password": str, "database": str}


def run(line):
    """Executes a command line; returns the metrics and the cores."""
    name, *words = line.split()
    if name not in COMMANDS:
        raise Decline(f"unknown command {name}")
    command = COMMANDS[name]
    given = dict(word.split("=", 1) for word in words)
    known = inspect.signature(command).parameters
    arguments = {name: TYPES.get(name, int)(given[name]) for name in known}
    if inspect.iscoroutinefunction(command):
        return asyncio.run(command(**arguments))
    return command(**arguments)


def main():
    if sys.argv[1:] != ["psycopg_pool"]:
        sys.exit("usage: peer.py psycopg_pool")
    print("ready psycopg_pool", psycopg_pool.__version__, flush=True)
    for line in sys.stdin:
        try:
            metrics, cores = run(line)
            for value, unit, name in metrics:
                print(f"metric {value:.6f} {unit} {name}")
            print(f"cores {cores:.3f}")
        except Decline as why:
            print("declined", why)
        except Exception as error:
            print("failed", f"{type(error).__name__}: {error}".replace("\n", " "))
        print("done", flush=True)


if __name__ == "__main__":
    main()
