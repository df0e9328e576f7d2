"""Hands recorded launches their scratch memory through Triton's profile allocator.

Triton keeps one profile allocator for the process. It is wrapped, not replaced:
outside a recorded launch of this thread it is whatever the program set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from triton.runtime import _allocation

from kperfir.bridge.replaced import replaced
from kperfir.errors import BridgeError

Allocator = Callable[[int, int, "int | None"], Any]

_current: ContextVar[Allocator | None] = ContextVar("kperfir_scratch", default=None)


class TooSmall(BridgeError):
    """A launch asks for more scratch memory than it was given; it did not happen."""


class _Router:
    """Stands for Triton's own wrapper: `get`, `set` and a call."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def get(self) -> Any:
        return _current.get() or self.previous.get()

    def set(self, allocator: Any) -> None:
        self.previous.set(allocator)

    def __call__(self, size: int, alignment: int, stream: int | None) -> Any:
        return self.get()(size, alignment, stream)


@contextmanager
def routed() -> Iterator[None]:
    """While inside, `giving` has an effect."""
    with replaced(_allocation, "_profile_allocator", _Router(_allocation._profile_allocator)):
        yield


@contextmanager
def giving(buffer: Any) -> Iterator[None]:
    """The launch that this thread makes inside gets `buffer` as its scratch memory.

    Raises:
        TooSmall: within the launch, which asks for more.
    """

    def give(size_bytes: int, alignment: int, stream: int | None) -> Any:
        if size_bytes > buffer.size_bytes:
            raise TooSmall(
                f"Triton asks for {size_bytes} bytes for its records, and {buffer.size_bytes} were expected."
            )
        return buffer

    token = _current.set(give)
    try:
        yield
    finally:
        _current.reset(token)
