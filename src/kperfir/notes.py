"""Words to the user beside the program's own output."""

from __future__ import annotations

import sys
from contextlib import suppress


def note(text: str) -> None:
    """Tell the user something on standard error, which the program may have closed."""
    if sys.stderr is None:  # print would take standard output then
        return
    with suppress(OSError, ValueError):
        print(f"kperfir: {text}", file=sys.stderr, flush=True)
