"""Standard output, which may be full, closed, or unable to spell a name."""

from __future__ import annotations

import io
import os
import sys

from kperfir.errors import ExportError


def say(text: str) -> None:
    """Print a line at once.

    Raises:
        ExportError: it cannot be written, or is closed.
        BrokenPipeError: its reader went away; typer ends the program quietly.
    """
    if sys.stdout is None:
        raise ExportError("Standard output is closed.", "Send it elsewhere.")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ExportError(f"Standard output cannot be written: {error.strerror}.", "Send it elsewhere.") from None
