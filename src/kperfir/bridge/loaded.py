"""Acts on a module of somebody else's once it is loaded, without being the one who loads it.

Standard library only: child processes load this file alone, at their start.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def when_loaded(name: str, act: Callable[[ModuleType], None]) -> Iterator[None]:
    """Call `act` with the module: now if it is loaded, else when the program loads it inside."""
    module = sys.modules.get(name)
    if module is not None:
        act(module)
        yield
        return
    finder = WhenLoaded(name, act)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.remove()


class WhenLoaded(importlib.abc.MetaPathFinder):
    """Finds the module as others do, and puts `act` behind its execution.

    Whoever only asks where the module is does not use it up.
    """

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act

    def remove(self) -> None:
        """Find nothing any more; a second call does nothing."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        finders = tuple(sys.meta_path)
        if fullname != self._name or self not in finders:
            return None
        behind = finders[finders.index(self) + 1 :]  # those before have been asked, or ask in turn
        found = (f.find_spec(fullname, path, target) for f in behind if hasattr(f, "find_spec"))
        spec: Any = next((s for s in found if s is not None), None)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.remove()
            self._act(module)

        spec.loader.exec_module = exec_module
        return spec  # type: ignore[no-any-return]
