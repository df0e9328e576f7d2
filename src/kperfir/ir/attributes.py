"""Attributes of a module: integers of Triton's, and text of kperfir's own, which travels through Triton's passes."""

from __future__ import annotations

import re

from kperfir.ir.foreign import ForeignModule

_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


def set_text(module: ForeignModule, name: str, value: str) -> None:
    """Set a string attribute that the module does not have yet."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    attribute = f'{name} = "{escaped}"'
    old = module.root.attributes_text
    module.root.attributes_text = old[:-1] + f", {attribute}}}" if old.endswith("}") else f" {{{attribute}}}"


def get_text(attributes: str, name: str) -> str | None:
    """A string attribute out of the text of a module's attributes; None where it is not there."""
    if name not in attributes:
        return None
    found = re.search(rf'{re.escape(name)} = "((?:[^"\\]|\\.)*)"', attributes)
    return _ESCAPED.sub(_unescape, found.group(1)) if found else None


def get_integer(text: str, name: str) -> int | None:
    """An integer attribute out of a module's text, custom or generic form; None where it is not there."""
    found = re.search(rf'"?{re.escape(name)}"? = (\d+)', text)
    return int(found.group(1)) if found else None


def _unescape(match: re.Match[str]) -> str:
    """MLIR writes a quote as a backslash and two hexadecimal digits."""
    text = match.group(1)
    return chr(int(text, 16)) if len(text) == 2 else text
