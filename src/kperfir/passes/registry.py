"""Finds passes: by registered name, by entry point, by file."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from kperfir.errors import KperfError, PlanError
from kperfir.passes.user import Bound, Pass, check_pass

ENTRY_POINTS = "kperfir.passes"

_FILE = re.compile(r"(.*\.py)(?::(\w+))?")
_RAISED = (Exception, SystemExit, KeyboardInterrupt)  # what ends users' code; it must not end the program silently
_registered: dict[str, type[Pass]] = {}

PassClass = TypeVar("PassClass", bound=type[Pass])
PassLike = str | Pass | type[Pass]


def register_pass(cls: PassClass) -> PassClass:
    """Register a pass by its name: as a decorator, or called. A class defined anew takes its own old place.

    Raises:
        PlanError: it is no pass, or another one has its name.
    """
    check_pass(cls)
    old = _registered.setdefault(cls.name, cls)
    if (old.__module__, old.__qualname__) != (cls.__module__, cls.__qualname__):
        what = f"Two passes are called '{cls.name}': {_place(old)} and {_place(cls)}."
        raise PlanError(what, "Give one of them another name.")
    _registered[cls.name] = cls
    return cls


def bind(passes: PassLike | Sequence[PassLike], at: str | None = None) -> tuple[Bound, ...]:
    """Passes as users write them, each bound to its point or to `at`.

    Args:
        passes: one or several of: a class, an object, a registered name, the name of an
            entry point, "file.py:Class", or "file.py" for all passes in it; a name or
            class may be followed by "=text", which is given to its constructor.

    Raises:
        PlanError: there is no such pass or point, or it cannot be made.
    """
    each: Sequence[PassLike] = [passes] if isinstance(passes, (str, type, Pass)) else passes
    return tuple(Bound.of(made, at) for given in each for made in _made(given))


def names_pass(text: str) -> bool:
    """Whether a text names a pass of users': a file, a registered class, or an entry point."""
    what = text.partition("=")[0]
    named = what in _registered or any(point.name == what for point in entry_points(group=ENTRY_POINTS))
    return named or _FILE.fullmatch(what) is not None


def absolute(name: str) -> str:
    """The same pass, also where it is named in another folder."""
    what, equals, argument = name.partition("=")
    file = _FILE.fullmatch(what)
    if file is None:
        return name
    return f"{Path(file[1]).resolve()}{':' + file[2] if file[2] else ''}{equals}{argument}"


def _made(given: PassLike) -> list[Pass]:
    if isinstance(given, Pass):
        return [given]
    if not isinstance(given, str):
        check_pass(given)
        return [_new(given)]
    what, equals, argument = given.partition("=")
    file = _FILE.fullmatch(what)
    if file is None:
        classes = [_named(what)]
    elif file[2] is None:
        classes = _passes_in(_load(Path(file[1])), file[1])
    else:
        classes = [_class_in(_load(Path(file[1])), *file.groups())]
    return [_new(cls, *[argument] if equals else []) for cls in classes]


def _new(cls: type[Pass], *argument: str) -> Pass:
    try:
        return cls(*argument)
    except _RAISED as error:
        cure = f"Give it what its constructor asks for: {cls.name}=text, or an object."
        raise _cannot(f"Pass '{cls.name}' cannot be made", error, cure) from error


def _named(name: str) -> type[Pass]:
    if name in _registered:
        return _registered[name]
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name in found:
        return _from_entry_point(found[name])
    known = ", ".join(sorted({*_registered, *found})) or "none"
    raise PlanError(f"There is no pass '{name}'.", f"Known are: {known}; a file ends in .py.")


def _from_entry_point(point: EntryPoint) -> type[Pass]:
    try:
        cls: type[Pass] = point.load()
    except _RAISED as error:
        what = f"The entry point '{point.name}' = {point.value} cannot be loaded"
        raise _cannot(what, error, "Repair or remove the package that has it.") from error
    check_pass(cls)
    return cls


def _load(path: Path) -> ModuleType:
    """Run a file as a module of its own, anew each time."""
    if not path.is_file():
        raise PlanError(f"There is no file '{path}' to take passes from.", "Check the path.")
    name = f"kperfir_pass_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    try:
        spec.loader.exec_module(module)
    except _RAISED as error:
        raise _cannot(f"'{path}' cannot be loaded", error, "Repair the file.") from error
    return module


def _cannot(what: str, error: BaseException, cure: str) -> PlanError:
    """What users' code raised, in one sentence; kperfir's own words stand for themselves."""
    if isinstance(error, KperfError):
        return PlanError(f"{what}: {error.what}", error.cure or cure)
    said = " ".join(str(error).split()).rstrip(".")
    return PlanError(f"{what}: {type(error).__name__}{': ' if said else ''}{said}.", cure)


def _passes_in(module: ModuleType, path: str) -> list[type[Pass]]:
    own = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Pass)]
    found = [c for c in own if c.__module__ == module.__name__ and c.name]
    for cls in found:
        if twice := [c.__qualname__ for c in found if c.name == cls.name and c is not cls]:
            what = f"'{path}' has two passes called '{cls.name}': {cls.__qualname__} and {twice[0]}."
            raise PlanError(what, "Give one of them another name.")
    if not found:
        raise PlanError(f"'{path}' defines no pass.", "Derive a class from kperfir.Pass, and give it a name.")
    return found


def _class_in(module: ModuleType, path: str, name: str) -> type[Pass]:
    cls = getattr(module, name, None)
    if cls is None:
        known = ", ".join(c.__name__ for c in _passes_in(module, path))
        raise PlanError(f"'{path}' has no class '{name}'.", f"It has: {known}.")
    check_pass(cls)
    found: type[Pass] = cls
    return found


def _place(cls: type[Pass]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
