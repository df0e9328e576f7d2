"""kperfir: where every warp of a Triton or Gluon kernel spends its cycles.

import kperfir as kp

with kp.record("run.kperf", regions="auto"):
    kernel[grid](...)
trace = kp.load("run.kperf")
print(trace.summary())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kperfir.version import __version__

if TYPE_CHECKING:
    from kperfir.session import record
    from kperfir.trace import Trace

__all__ = ["__version__", "load", "record"]


def load(path: Any) -> Trace:
    """Read a capture file, or a directory of them.

    Raises:
        CaptureError: it cannot be read; see `kperfir.capture.reader`.
    """
    from kperfir.trace import load as load_trace

    return load_trace(path)


def __getattr__(name: str) -> Any:
    """`record` is loaded on first use: reading needs neither Triton nor torch."""
    if name == "record":
        from kperfir.session import record

        return record
    raise AttributeError(name)
