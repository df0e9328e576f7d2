"""How a word of the in-kernel language stands in IR until a pass reads it. Standard library only.

A marker is an inline assembly with a side effect and no operands, whose text is
`// KPERF_MARK <enter|exit|mark> <percent-encoded name>`. It is what Triton's
builder can make in a Triton and in a Gluon kernel alike.
"""

from __future__ import annotations

import re
from typing import Literal, cast
from urllib.parse import quote, unquote

MarkerKind = Literal["enter", "exit", "mark"]
PREFIX = "// KPERF_MARK "
_MARKER = re.compile(rf"{PREFIX}(enter|exit|mark) ([^\s\"]+)")


def marker_text(kind: MarkerKind, name: str) -> str:
    """The assembly text of a marker."""
    return f"{PREFIX}{kind} {quote(name, safe='')}"


def read_marker(text: str) -> tuple[MarkerKind, str] | None:
    """Kind and name in a text that holds a marker, else None."""
    match = _MARKER.search(text)
    return (cast(MarkerKind, match.group(1)), unquote(match.group(2))) if match else None
