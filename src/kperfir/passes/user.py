"""What a user's pass is, and where it can run.

import kperfir as kp

@kp.register_pass
class Stores(kp.Pass):
    name = "stores"

    def run(self, module, context):
        for op in module.walk():
            if op.opname == "tt.store":
                context.around(op, "my store")
"""

from __future__ import annotations

import hashlib
import re
import sys
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kperfir.errors import PlanError

if TYPE_CHECKING:
    from kperfir.passes.context import PassContext

Level = Literal["ttir", "ttgir", "llvm"]
When = Literal["before", "after"]

_NAME = re.compile(r"[\w.-]+")
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Point:
    """Before or after kperfir's own step at a level of the compile pipeline."""

    level: Level
    when: When

    def __str__(self) -> str:
        return next(name for name, point in POINTS.items() if point == self)

    @staticmethod
    def parse(text: str) -> Point:
        """Read a point's name; a level alone is where passes of that level usually run.

        Raises:
            PlanError: there is no such point.
        """
        name = _USUAL.get(text, text) if isinstance(text, str) else ""
        if name not in POINTS:
            known = ", ".join((*_USUAL, *POINTS))
            raise PlanError(f"{text!r} is no point at which a pass can run.", f"Use one of {known}.")
        return POINTS[name]


POINTS = {
    "ttir:before-tag": Point("ttir", "before"),
    "ttir:after-tag": Point("ttir", "after"),
    "ttgir:before-place": Point("ttgir", "before"),
    "ttgir:after-place": Point("ttgir", "after"),
    "llvm:before-lower": Point("llvm", "before"),
    "llvm:after-lower": Point("llvm", "after"),
}
_USUAL = {"ttir": "ttir:after-tag", "ttgir": "ttgir:after-place", "llvm": "llvm:before-lower"}


class Pass(ABC):
    """Base of users' passes.

    What `run` does may depend on the files of the pass and of its base classes, on the
    files of `sources`, and on its attributes, which hold plain values: these are part of
    the compile key. Each run gets a copy of the pass.

    Attributes:
        name: what it is registered and reported by; letters, digits, and `_`, `.`, `-`.
        at: a level ("ttir", "ttgir", "llvm"), or a point from `POINTS`.
        sources: other modules that decide what it does.
    """

    name: ClassVar[str] = ""
    at: ClassVar[str] = "ttgir"
    sources: ClassVar[tuple[ModuleType, ...]] = ()
    _text: ClassVar[str]

    def __init_subclass__(cls, **more: Any) -> None:
        """Read the source while it is still what is being imported; a file may change later."""
        super().__init_subclass__(**more)
        own = [sys.modules.get(name) for name in dict.fromkeys(c.__module__ for c in cls.__mro__) if _is_users(name)]
        cls._text = "-".join(_digest_of(module) for module in (*own, *cls.sources))

    @abstractmethod
    def run(self, module: Any, context: PassContext) -> None:
        """Look at the kernel, place records, change it.

        Args:
            module: a `kperfir.ir.foreign.ForeignModule`, at the LLVM dialect a
                `kperfir.ir.chunks.ChunkedKernel`; changed in place.
            context: says what is compiled, and places records.
        """


@dataclass(frozen=True)
class Bound:
    """A pass that is to run, and where.

    Attributes:
        key: differs whenever the pass, its parameters, its place or its source do.
    """

    user_pass: Pass
    point: Point
    key: str

    @staticmethod
    def of(user_pass: Pass, at: str | None = None) -> Bound:
        """Bind a pass to its own point, or to another.

        Raises:
            PlanError: there is no such point, or the pass holds values that no key can be made of.
        """
        check_pass(type(user_pass))
        point = Point.parse(at) if at else _usual_point(user_pass)
        state = sorted(getattr(user_pass, "__dict__", {}).items())
        for name, value in state:
            if not _is_plain(value):
                what = f"Pass '{user_pass.name}' holds a {type(value).__name__} as '{name}', which is no plain value."
                raise PlanError(what, "Use strings, numbers, and tuples, lists or dictionaries of them.")
        parts = (type(user_pass).__qualname__, user_pass._text, repr(state))
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return Bound(user_pass, point, f"{user_pass.name}@{point}#{digest}")

    def __str__(self) -> str:
        return f"Pass '{self.user_pass.name}' at {self.point}"


def check_pass(cls: object) -> None:
    """Check that a class is a pass.

    Raises:
        PlanError: it is none; why not.
    """
    if not (isinstance(cls, type) and issubclass(cls, Pass)):
        raise PlanError(f"{cls!r} is no pass.", "Derive a class from kperfir.Pass.")
    if not isinstance(cls.name, str) or not _NAME.fullmatch(cls.name):
        what = f"The pass {cls.__qualname__} has no name that can be used: {cls.name!r}."
        raise PlanError(what, "Give it one of letters and digits: name = 'my-pass'.")
    for module in cls.sources:
        if not isinstance(module, ModuleType):
            what = f"Pass '{cls.name}' has {module!r} among its sources, which is no module."
            raise PlanError(what, "Import it, and give the module.")
    _usual_point(cls)


def _usual_point(given: Pass | type[Pass]) -> Point:
    try:
        return Point.parse(given.at)
    except PlanError as error:
        raise PlanError(f"Pass '{given.name}': {error.what}", error.cure) from None


def _is_users(module: str) -> bool:
    """Whether a module is neither of Python nor of kperfir."""
    top = module.partition(".")[0]
    return top == "__main__" or (top != "kperfir" and top not in sys.stdlib_module_names)


def _is_plain(value: object) -> bool:
    try:
        return _holds_plain(value)
    except RecursionError:  # it holds itself
        return False


def _holds_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_holds_plain(v) for item in value.items() for v in item)
    if isinstance(value, (tuple, list)):
        return all(_holds_plain(v) for v in value)
    return isinstance(value, _PLAIN)


def _digest_of(module: ModuleType | None) -> str:
    """Of a module's file; of code without a file nobody can tell whether it changed, so it is never the same."""
    file = getattr(module, "__file__", None)
    try:
        return hashlib.sha256(Path(file or "").read_bytes()).hexdigest()
    except OSError:
        return uuid.uuid4().hex
