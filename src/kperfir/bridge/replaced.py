"""Attributes of Triton's that stand replaced for a while, and how they come back."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kperfir.bridge.gate import Gate


class Replacing(ABC):
    """Something that is in Triton's place while `_stack` is open, and can step aside."""

    def __init__(self) -> None:
        self._gate = Gate()
        self._stack = ExitStack()

    @abstractmethod
    def _replace(self) -> None:
        """Step into place, which fills `_stack`: first what a launch under way needs, then the gate, then what lets
        launches in. Closing goes the other way."""

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Record nothing meanwhile, and leave Triton as it was."""
        self._stack.close()
        try:
            yield
        finally:
            self._replace()


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` meanwhile; one that `owner` only inherits is inherited again afterwards.

    Where somebody else has replaced `value` by then, theirs stays. It may still call `value`, which has to do
    afterwards what stood there before.
    """
    is_own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if vars(owner).get(name) is not value:
            pass
        elif is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def wrapped(owner: type, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """`owner.name(...)` calls `wrapper(original, ...)` meanwhile."""
    original = getattr(owner, name)
    over = False

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if over else wrapper(original, *args, **kwargs)

    with replaced(owner, name, method):
        try:
            yield
        finally:
            over = True
