"""Tells an autotuner's trial launches from real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from triton.runtime.autotuner import Autotuner

from kperfir.bridge.replaced import wrapped

_trial: ContextVar[bool] = ContextVar("kperfir_trial", default=False)


def is_trial() -> bool:
    """Whether this thread is inside an autotuner's measurement."""
    return _trial.get()


@contextmanager
def noticing_trials() -> Iterator[None]:
    """While inside, `is_trial` tells the truth for Triton's autotuner."""
    with wrapped(Autotuner, "_bench", in_trial):
        yield


def in_trial(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a measuring method; launches inside are trials."""
    token = _trial.set(True)
    try:
        return original(*args, **kwargs)
    finally:
        _trial.reset(token)
