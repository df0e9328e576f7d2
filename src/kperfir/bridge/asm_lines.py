"""PTX whose inline assembly stands on its source line.

LLVM (seen in Triton 3.9.0) counts one source line on for each line of an inline assembly: a load of four
registers at line 37 has its instruction at line 41, which may be another statement's. The
first location inside an inline assembly is the right one, and is kept; the others go.
"""

from __future__ import annotations

_BEGIN, _END, _LOCATION = "// begin inline asm", "// end inline asm", ".loc"


def on_their_lines(ptx: str) -> str:
    """The text without the locations that LLVM counted on."""
    lines: list[str] = []
    inside = located = False
    for line in ptx.split("\n"):
        text = line.strip()
        if text == _BEGIN:
            inside, located = True, False
        elif text == _END:
            inside = False
        elif inside and text.startswith(_LOCATION):
            if located:
                continue
            located = True
        lines.append(line)
    return "\n".join(lines)
