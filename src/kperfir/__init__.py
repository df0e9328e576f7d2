"""kperfir: where every warp of a Triton or Gluon kernel spends its cycles.

import kperfir as kp

with kp.record("run.kperf", regions="auto"):
    kernel[grid](...)
trace = kp.load("run.kperf")
print(trace.summary())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kperfir.version import __version__

if TYPE_CHECKING:
    from kperfir.opened import load
    from kperfir.passes.context import PassContext
    from kperfir.passes.patched import patch, unpatch
    from kperfir.passes.registry import register_pass
    from kperfir.passes.user import Pass
    from kperfir.session import record

__all__ = ["Pass", "PassContext", "__version__", "load", "patch", "record", "register_pass", "unpatch"]

_HOMES = {
    "load": "kperfir.opened",
    "record": "kperfir.session",
    "patch": "kperfir.passes.patched",
    "unpatch": "kperfir.passes.patched",
    "register_pass": "kperfir.passes.registry",
    "Pass": "kperfir.passes.user",
    "PassContext": "kperfir.passes.context",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Loaded on first use: reading needs neither Triton nor torch, and recording no Arrow tables."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'kperfir' has no attribute '{name}'")
