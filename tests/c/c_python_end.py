#!/usr/bin/env python3
"""A program ends normally although its pool is not closed and its threads keep calling Python.

usage: c_python_end.py FOLDER_OF_THE_EXAMPLE
"""

import sys
import time

sys.path.insert(0, sys.argv[1])
import cenote  # noqa: E402

probes = []


def probe(_):
    probes.append(time.monotonic())
    return True


pool = cenote.Pool(object, probe=probe, heartbeat=1_000_000, min_size=2, max=2)
with pool.acquire():
    while len(probes) < 10:
        time.sleep(0.001)
nothing = cenote.Pool(lambda: 1 / 0, acquire_timeout=20_000_000)
cause = None
while cause is None:  # on a busy machine the timeout may expire before the first open
    try:
        nothing.acquire()
        raise SystemExit("got a lease of nothing")
    except cenote.Error as error:
        assert error.code == cenote.TIMED_OUT, error
        cause = error.cause
        assert cause is None or "division by zero" in str(error), error
assert isinstance(cause, ZeroDivisionError), cause
del nothing
del pool
