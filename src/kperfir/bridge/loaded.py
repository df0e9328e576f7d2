"""Acts on a module of somebody else's once it is loaded, without being the one who loads it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
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
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module as others do, and puts `act` behind its execution."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._act(module)

        spec.loader.exec_module = exec_module
        return spec  # type: ignore[no-any-return]
