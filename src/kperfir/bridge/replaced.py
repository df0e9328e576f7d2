"""Attributes of Triton's that stand replaced for a while, and how they come back."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


class Replacing(ABC):
    """Something that is in Triton's place while `_stack` is open, and can step aside."""

    _stack: ExitStack

    @abstractmethod
    def _replace(self) -> None:
        """Step into place, which fills `_stack`."""

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
    """`owner.name` is `value` meanwhile; one that `owner` only inherits is inherited again afterwards."""
    is_own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def wrapped(owner: type, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """`owner.name(...)` calls `wrapper(original, ...)` meanwhile."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    with replaced(owner, name, method):
        yield
