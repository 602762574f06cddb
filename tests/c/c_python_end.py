#!/usr/bin/env python3
"""A pool that nobody closes, and whose threads call Python all the time: the program ends well.

usage: c_python_end.py FOLDER_OF_THE_EXAMPLE
"""

import sys
import time

sys.path.insert(0, sys.argv[1])
import cenote  # noqa: E402

pool = cenote.Pool(object, probe=lambda it: True, heartbeat=1_000_000, min_size=2, max=2)
with pool.acquire():
    time.sleep(0.05)
try:
    cenote.Pool(lambda: 1 / 0, acquire_timeout=20_000_000).acquire()
except cenote.Error as error:
    assert error.code == cenote.TIMED_OUT and isinstance(error.cause, ZeroDivisionError), error
    assert "division by zero" in str(error), error
else:
    raise SystemExit("got a lease of nothing")
del pool
