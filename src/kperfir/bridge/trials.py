"""Tells an autotuner's trial launches from real ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from triton.runtime.autotuner import Autotuner

from kperfir.bridge.replaced import wrapped

_INDUCTOR = "torch._inductor.runtime.triton_heuristics"
_trial: ContextVar[bool] = ContextVar("kperfir_trial", default=False)


def is_trial() -> bool:
    """Whether this thread is inside an autotuner's measurement."""
    return _trial.get()


@contextmanager
def noticing_trials() -> Iterator[None]:
    """While inside, `is_trial` tells the truth, for Triton's autotuner and Inductor's."""
    with ExitStack() as stack:
        stack.enter_context(wrapped(Autotuner, "_bench", _in_trial))
        inductor = sys.modules.get(_INDUCTOR) or _import_inductor()
        if inductor is not None:
            stack.enter_context(wrapped(inductor.CachingAutotuner, "bench", _in_trial))
        yield


def _import_inductor() -> Any | None:
    """Inductor, where torch is there already: importing it here must not be what loads torch."""
    if "torch" not in sys.modules:
        return None
    try:
        __import__(_INDUCTOR)
    except ImportError:
        return None
    return sys.modules[_INDUCTOR]


def _in_trial(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    token = _trial.set(True)
    try:
        return original(*args, **kwargs)
    finally:
        _trial.reset(token)
