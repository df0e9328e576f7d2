"""How a word of the in-kernel language stands in IR until a pass reads it. Standard library only.

A marker is an inline assembly with a side effect, whose text is
`// KPERF_MARK <enter|exit|mark> <percent-encoded name>`. It is what Triton's
builder can make in a Triton and in a Gluon kernel alike. One that carries a scalar has
its 32 bits as operand, and its type behind the name:
`// KPERF_MARK <value|begin|end> <percent-encoded name> <int32|uint32|float32>`.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast
from urllib.parse import quote, unquote

from kperfir.records import Scalar

MarkerKind = Literal["enter", "exit", "mark", "value", "begin", "end"]
PREFIX = "// KPERF_MARK "
_MARKER = re.compile(rf"{PREFIX}(enter|exit|mark|value|begin|end) ([^\s\"]+)(?: (int32|uint32|float32))?")


class Word(NamedTuple):
    """What a marker says; `scalar` is the type of what it carries."""

    kind: MarkerKind
    name: str
    scalar: Scalar | None = None


def marker_text(kind: MarkerKind, name: str, scalar: Scalar | None = None) -> str:
    """The assembly text of a marker."""
    return f"{PREFIX}{kind} {quote(name, safe='')}" + (f" {scalar}" if scalar else "")


def read_marker(text: str) -> Word | None:
    """What a text that holds a marker says, else None."""
    match = _MARKER.search(text)
    if match is None:
        return None
    kind, name, scalar = match.groups()
    return Word(cast(MarkerKind, kind), unquote(name), cast(Scalar | None, scalar))
