"""Why Triton refuses a module. It says so on standard error only, so that is read while it parses once more."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from kperfir.bridge.text import parse_text
from kperfir.errors import IRError
from kperfir.ir.chunks import location_of
from kperfir.ir.locations import Locations

_ERROR = re.compile(r'loc\("/proc/self/fd/\d+":(\d+):\d+\): error: (.*)')
_OPNAME = re.compile(r'"([\w.$]+)"\(')
_UNKNOWN = "its verifier's own words are on standard error"
_STDERR = 2


def refusal_of(text: str, context: Any) -> str:
    """Operation, source and Triton's words for a text that Triton refuses.

    Operations lose their locations for this, so that Triton names the line of the text.
    """
    lines = text.split("\n")
    bare = "\n".join(_without_location(line) for line in lines)
    with _heard() as file:
        with suppress(IRError):
            parse_text(bare, context)
        file.seek(0)
        heard = file.read().decode(errors="replace")
    found = _ERROR.search(heard)
    if found is None:
        return _UNKNOWN
    at = min(int(found[1]), len(lines)) - 1
    opname = _OPNAME.search(lines[at])
    file_name, line = Locations.read(lines).source(_location(lines, at))
    place = f"{file_name}:{line}" if file_name else "source unknown"
    return f"operation '{opname[1] if opname else lines[at].strip()[:60]}' ({place}): {found[2][:300].rstrip('.')}"


def _without_location(line: str) -> str:
    location = "" if line.startswith("#") else location_of(line)
    return line.removesuffix(f" {location}") if location else line


def _location(lines: list[str], at: int) -> str:
    """Location of the operation that begins in a line: in this one, or in the one that closes its regions."""
    if location := location_of(lines[at]):
        return location
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return next((location_of(line) for line in lines[at + 1 :] if line.startswith(indent + "})")), "")


def read_back(text: str, context: Any) -> Any:
    """Triton's module of a text that kperfir made.

    Raises:
        IRError: Triton refuses it; which operation, and in which words.
    """
    try:
        return parse_text(text, context)
    except IRError:
        what = f"Triton refuses the module with records: {refusal_of(text, context)}."
        raise IRError(what, "Please report the kernel.") from None


@contextmanager
def _heard() -> Iterator[BinaryIO]:
    """Standard error of the process goes to a file meanwhile; what is not Triton's is passed on behind it."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(_STDERR)
        os.dup2(file.fileno(), _STDERR)
        try:
            yield file
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
            file.seek(0)
            others = [line for line in file.readlines() if b"/proc/self/fd/" not in line]
            os.write(_STDERR, b"".join(others))
