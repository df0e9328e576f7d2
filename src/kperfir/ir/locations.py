"""Locations of a module: aliases, names, call sites; source positions and kperf's tags in them.

MLIR writes a location as an alias (`loc(#loc3)`) whose definition stands around the
module: `#loc3 = loc("kernel.py":12:8)`, `loc("x"(#loc3))` for a name,
`loc(callsite(#a at #b))` for an inlined call, `loc(fused[#a, #b])`. A tag is a name
that starts with `kperf.`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from kperfir.ir.foreign import ForeignModule
from kperfir.ir.reader import split_top

TAG_PREFIX = "kperf."

_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"\((.*)\)$', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_MAX_DEPTH = 64
_LIBRARY = "/triton/language/"


class _Known(NamedTuple):
    tags: tuple[str, ...]
    file: str
    line: int
    name: str = ""


_UNKNOWN = _Known((), "", 0)


def is_library(file: str) -> bool:
    """Whether a file is of Triton's own library, whose functions are shown at their caller's line."""
    return _LIBRARY in file


class Locations:
    """The location table of one module."""

    def __init__(self, definitions: dict[str, str]) -> None:
        self._definitions = definitions
        self._known: dict[str, _Known] = {}
        self._read: dict[str, _Known] = {}
        self._tagged: dict[tuple[str, str], str] = {}
        self._lines: list[str] = []

    @staticmethod
    def of(module: ForeignModule) -> Locations:
        """Read the aliases around a module."""
        return Locations.read((*module.prologue, *module.epilogue))

    @staticmethod
    def read(lines: Iterable[str]) -> Locations:
        """Read those lines of a text that define aliases of locations."""
        parts = (line.partition(" = loc(") for line in lines if line.startswith("#loc"))
        return Locations({name: text[:-1] for name, _, text in parts})

    def tags(self, location: str) -> tuple[str, ...]:
        """Tags of an operation's ` loc(...)`, outermost first; a caller's come before its callee's."""
        return self._of(location).tags

    def source(self, location: str) -> tuple[str, int]:
        """File and line that the operation was written in; ("", 0) where unknown.

        For a function of Triton's own library, such as `tl.max`, that is its caller.
        """
        known = self._of(location)
        return known.file, known.line

    def name(self, location: str) -> str:
        """Name of the variable that the operation was assigned to, as Triton notes it; empty where there is none."""
        return self._of(location).name

    def tag(self, location: str, tag: str) -> str:
        """A location that is `location` with one more tag around it.

        The new alias must be added to the module: `lines`. It stands behind the
        file's own aliases, since MLIR cannot refer to a later one.
        """
        inner = _inner(location) or "unknown"
        key = (inner, tag)
        if key not in self._tagged:
            alias = f"#lockperf{len(self._tagged)}"
            self._tagged[key] = alias
            self._definitions[alias] = f'"{tag}"({inner})'
            self._lines.append(f"{alias} = loc({self._definitions[alias]})")
        return f" loc({self._tagged[key]})"

    def lines(self) -> list[str]:
        """Definitions of the aliases that `tag` made, in order."""
        return list(self._lines)

    def _of(self, location: str) -> _Known:
        """Each operation is asked for several times, by its text as it stands there."""
        known = self._read.get(location)
        if known is None:
            known = self._read[location] = self._resolve(_inner(location), 0)
        return known

    def _resolve(self, text: str, depth: int) -> _Known:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = _UNKNOWN if depth > _MAX_DEPTH else self._parse(text, depth + 1)
        return known

    def _parse(self, text: str, depth: int) -> _Known:
        if text.startswith("#"):
            return self._resolve(self._definitions.get(text, "unknown"), depth)
        if position := _position(text):
            return position
        if text.startswith("callsite("):
            callee, _, caller = _split_call(text[len("callsite(") : -1])
            inner, outer = self._resolve(callee, depth), self._resolve(caller, depth)
            place = outer if not inner.file or is_library(inner.file) else inner
            return _Known(outer.tags + inner.tags, place.file, place.line, inner.name)
        if text.startswith("fused"):
            return self._fused(text, depth)
        name = _NAME.match(text)
        if name is None:
            return _UNKNOWN
        child = self._resolve(name.group(2), depth)
        if not name.group(1).startswith(TAG_PREFIX):
            return child._replace(name=_unescaped(name.group(1)))
        return child._replace(tags=(name.group(1), *child.tags))

    def _fused(self, text: str, depth: int) -> _Known:
        """Operations that were merged: the first tagged one counts, else the first."""
        parts = [self._resolve(part, depth) for part in split_top(text[text.index("[") + 1 : text.rindex("]")])]
        tagged = [p for p in parts if p.tags]
        return (tagged or parts or [_UNKNOWN])[0]


@lru_cache(4096)
def _position(text: str) -> _Known | None:
    """Of a place in a source; modules of one kernel hold the same."""
    found = _POSITION.match(text)
    return _Known((), _unescaped(found.group(1)), int(found.group(2))) if found else None


def _inner(location: str) -> str:
    text = location.strip()
    return text[4:-1] if text.startswith("loc(") else text


def _split_call(text: str) -> tuple[str, str, str]:
    """`callee at caller`, where either may be a nested call site."""
    depth = 0
    for i, char in enumerate(text):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth == 0 and text.startswith(" at ", i):
            return text[:i], " at ", text[i + 4 :]
    return text, "", "unknown"


def _unescaped(text: str) -> str:
    """MLIR writes bytes beyond ASCII as a backslash and two hexadecimal digits."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]) if len(m[1]) == 2 else m[1], text.encode()).decode(
        errors="replace"
    )
