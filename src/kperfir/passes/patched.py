"""Which passes run for which kernels, in this process: `patch` and `unpatch`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from kperfir.passes.registry import PassLike, bind
from kperfir.passes.user import Bound
from kperfir.plan import Plan


@dataclass(frozen=True)
class _Patch:
    passes: tuple[Bound, ...]
    kernels: Plan


_lock = threading.Lock()
_patches: tuple[_Patch, ...] = ()


def patch(passes: PassLike | Sequence[PassLike], kernels: str | Sequence[str] = "*", at: str | None = None) -> None:
    """From now on recordings use these passes for kernels that match, also those under way.

    Nothing is compiled or recompiled here: plain kernels stay what they are, and twins
    are built at the next launch that is recorded.

    Args:
        passes: one or several, as a class, an object, a registered name, the name of an
            entry point, "file.py:Class" or "file.py".
        kernels: patterns of kernel names, as in a shell; "!pattern" leaves kernels out.
        at: the point at which they run instead of their own.

    Raises:
        PlanError: there is no such pass or point, or a pattern makes no sense.
    """
    global _patches
    made = _Patch(bind(passes, at), Plan.make(None, kernels=kernels))
    with _lock:
        _patches = (*_patches, made)


def unpatch() -> None:
    """Take all passes away again."""
    global _patches
    with _lock:
        _patches = ()


def passes_for(kernel: str) -> tuple[Bound, ...]:
    """Passes that are patched for a kernel of this name, in the order in which they run; each of them once."""
    found = {b.key: b for p in _patches if p.kernels.wants(kernel) for b in p.passes}
    return tuple(found.values())
