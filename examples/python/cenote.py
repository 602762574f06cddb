"""cenote pools for Python, through the C API and ctypes.

    import cenote, sqlite3
    pool = cenote.Pool(lambda: sqlite3.connect("orders.db", check_same_thread=False),
                       close=lambda db: db.close(), max=5)
    with pool.acquire(timeout=2) as db:
        db.execute("…")
    pool.close()

Loads libcenote.so.0, or the library named by CENOTE_LIBRARY. ctypes releases the interpreter lock
while a thread waits in the pool, and the pool's threads may call Python.
"""

import atexit
import ctypes
import itertools
import os
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int,
                    c_int32, c_int64, c_size_t, c_uint64, c_void_p, sizeof)

OK, TIMED_OUT, CLOSED = 0, 1, 2
KEEP, DISCARD = 0, 2
OPEN_RAISED = 1  # an application-defined cause
DEFAULT_TIMEOUT = -2**63


class Failure(Structure):
    _fields_ = [("size", c_size_t), ("code", c_int), ("cause", c_int32), ("retry_after", c_int64),
                ("text", c_char * 512)]


Open = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(Failure))
Tend = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Failure))
Look = CFUNCTYPE(c_int, c_void_p, c_void_p)
Close = CFUNCTYPE(None, c_void_p, c_void_p)
End = CFUNCTYPE(None, c_void_p)


class Connector(Structure):
    _fields_ = [("size", c_size_t), ("context", c_void_p), ("open", Open), ("close", Close),
                ("probe", Tend), ("reset", Tend), ("before_acquire", Look),
                ("before_release", Look), ("forsake", Close), ("end", End)]


class Options(Structure):
    _fields_ = ([("size", c_size_t), ("name", c_char_p), ("max", c_uint64), ("min_size", c_uint64),
                 ("min_idle", c_uint64)]
                + [(name, c_int) for name in ("warm_up", "order", "fairness", "probe_on_release",
                                              "refuse_deadlock", "open_errors")]
                + [(name, c_int64) for name in ("acquire_timeout", "open_timeout", "probe_timeout",
                                                "reset_timeout", "close_timeout")]
                + [(name, c_uint64) for name in ("opening_max", "open_rate", "open_burst")]
                + [("idle_timeout", c_int64), ("max_lifetime", c_int64),
                   ("lifetime_jitter", c_double), ("max_uses", c_uint64)]
                + [(name, c_int64) for name in ("sweep_interval", "probe_after_idle", "heartbeat",
                                                "leak_after", "bypass_for")]
                + [("line_max", c_uint64)]
                + [(name, c_int64) for name in ("head_start", "shed_target", "shed_interval",
                                                "backoff_first", "backoff_cap_waiting",
                                                "backoff_cap_idle")]
                + [("seed", c_uint64), ("observer", c_void_p), ("breaker", c_void_p),
                   ("threshold", c_void_p), ("reset_after", c_int64)])


class Request(Structure):
    _fields_ = [("size", c_size_t), ("timeout", c_int64), ("priority", c_int),
                ("no_queue", c_int32), ("task", c_char_p), ("leak_after", c_int64)]


COUNTERS = ("max total leased idle opening probing resetting closing waiting acquires granted"
            " waited released discarded detached opened open_failed closed abandoned events_lost"
            " try_empty leaks refused retired refused_after_wait").split()

library = ctypes.CDLL(os.environ.get("CENOTE_LIBRARY", "libcenote.so.0"))
for _name, _arguments in {
        "options_init": (POINTER(Options), c_size_t),
        "create": (POINTER(Connector), POINTER(Options), POINTER(c_uint64), POINTER(Failure)),
        "destroy": (c_uint64, POINTER(c_size_t)),
        "close": (c_uint64, c_int64, POINTER(c_size_t)),
        "acquire_with": (c_uint64, POINTER(Request), POINTER(c_uint64), POINTER(c_void_p),
                         POINTER(Failure)),
        "release": (c_uint64,),
        "discard": (c_uint64,),
        "count": (c_uint64, c_int, POINTER(c_uint64))}.items():
    _function = getattr(library, "cenote_" + _name)
    _function.argtypes = _arguments
    _function.restype = c_int
library.cenote_text.argtypes = (c_int,)
library.cenote_text.restype = c_char_p


class Error(Exception):
    """An error with `code`; `cause` is the exception that the pool's `open` raised, if any."""

    def __init__(self, code, text="", cause=None):
        super().__init__(text or library.cenote_text(code).decode())
        self.code = code
        self.cause = cause


def check(code, why=None):
    if code != OK:
        raise Error(code, why.text.decode(errors="replace") if why else "")


class Lease:
    """A lease, for a `with` block, which discards the resource if it raises."""

    def __init__(self, number, resource):
        self._number = number
        self._resource = resource

    def __enter__(self):
        return self._resource

    def __exit__(self, kind, error, trace):
        check(library.cenote_release(self._number) if kind is None
              else library.cenote_discard(self._number))


FOREVER = 2**63 - 1


def nanoseconds(seconds):
    return max(0, min(int(min(seconds, 9e9) * 1e9), FOREVER))


# Keeps pools alive while the library may still call their callbacks.
_alive = set()


@atexit.register
def _end_all():
    """Ends all pools before the interpreter, which their threads must not call afterwards."""
    for pool in list(_alive):
        pool.close(0)


class Pool:
    def __init__(self, open, close=None, probe=None, reset=None, **options):
        # The library stores only the numbers of this table.
        self._resources = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._last_error = None
        self._open = True
        # ctypes does not keep callbacks alive that C still uses: see _alive.
        self._callbacks = Connector(sizeof(Connector), None, Open(self._opener(open)),
                                    Close(self._closer(close)))
        self._callbacks.end = End(lambda context: _alive.discard(self))
        if probe:
            self._callbacks.probe = Tend(self._tender(probe))
        if reset:
            self._callbacks.reset = Tend(self._tender(reset))
        settings = Options()
        check(library.cenote_options_init(byref(settings), sizeof(settings)))
        for name, value in options.items():
            if name not in dict(Options._fields_):
                raise TypeError(f"unknown option {name!r}")
            setattr(settings, name, value)
        self._pool = c_uint64()
        why = Failure(sizeof(Failure))
        _alive.add(self)
        check(library.cenote_create(byref(self._callbacks), byref(settings), byref(self._pool),
                                    byref(why)), why)

    def acquire(self, timeout=None):
        """A lease, within `timeout` seconds."""
        time = DEFAULT_TIMEOUT if timeout is None else nanoseconds(timeout)
        request = Request(sizeof(Request), time, 2, 0, None, 0)
        number, resource, why = c_uint64(), c_void_p(), Failure(sizeof(Failure))
        code = library.cenote_acquire_with(self._pool, byref(request), byref(number),
                                           byref(resource), byref(why))
        if code != OK:
            cause = self._last_error if why.cause == OPEN_RAISED else None
            raise Error(code, why.text.decode(errors="replace"), cause)
        return Lease(number, self._resources[resource.value])

    def count(self, which):
        value = c_uint64()
        check(library.cenote_count(self._pool, COUNTERS.index(which), byref(value)))
        return value.value

    def close(self, timeout=5):
        """Waits for leases and ends the pool. Returns how many leases were left; their holders must
        close the resources."""
        left = c_size_t()
        if self._open:
            self._open = False
            check(library.cenote_close(self._pool, nanoseconds(timeout), byref(left)))
            check(library.cenote_destroy(self._pool, byref(left)))
        return left.value

    # Callbacks. ctypes would turn an exception into a result of 0, which means success.

    def _opener(self, open):
        def call(context, into, why):
            try:
                made = open()
            except BaseException as error:
                self._last_error = error
                why.contents.cause = OPEN_RAISED
                why.contents.text = f"{type(error).__name__}: {error}".encode()[:511]
                return DISCARD
            with self._lock:
                number = next(self._numbers)
                self._resources[number] = made
            into[0] = number
            return KEEP
        return call

    def _closer(self, close):
        def call(context, number):
            with self._lock:
                gone = self._resources.pop(number)
            if close:
                close(gone)
        return call

    def _tender(self, tend):
        def call(context, number, why):
            try:
                return DISCARD if tend(self._resources[number]) is False else KEEP
            except BaseException as error:
                why.contents.text = f"{type(error).__name__}: {error}".encode()[:511]
                return DISCARD
        return call
