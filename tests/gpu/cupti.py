"""Which driver calls a thread makes, from CUPTI's callbacks.

Reference: https://docs.nvidia.com/cupti (cupti_callbacks.h): a subscriber's function gets
(user data, domain, callback id, data); the data begin with the site, 0 at entry, and
the function's name.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DRIVER_API = 1
_ENTER = 0
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


class _Data(ctypes.Structure):
    _fields_ = [("site", ctypes.c_int), ("function_name", ctypes.c_char_p)]


@contextmanager
def driver_calls() -> Iterator[Counter[str]]:
    """Counts the driver calls that this thread makes inside, by name."""
    calls: Counter[str] = Counter()
    thread = threading.get_ident()

    def note(_: int, domain: int, callback: int, data: int) -> None:
        entry = ctypes.cast(data, ctypes.POINTER(_Data)).contents
        if entry.site == _ENTER and threading.get_ident() == thread:
            calls[entry.function_name.decode()] += 1

    cupti, subscriber, function = _library(), ctypes.c_void_p(), _CALLBACK(note)
    _check(cupti.cuptiSubscribe(ctypes.byref(subscriber), function, None))
    try:
        _check(cupti.cuptiEnableDomain(1, subscriber, _DRIVER_API))
        yield calls
    finally:
        _check(cupti.cuptiUnsubscribe(subscriber))


def _library() -> ctypes.CDLL:
    """The CUPTI that torch has loaded; a second one cannot subscribe beside it."""
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcupti.so" in line}
    return ctypes.CDLL(min(loaded))


def _check(status: int) -> None:
    if status:
        raise OSError(f"CUPTI answered {status}")
