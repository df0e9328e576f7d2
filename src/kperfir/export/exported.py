"""What an export wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kperfir.trace import Trace

_INTERPRETED = "Times are those of Triton's interpreter on the host: they say nothing of a GPU."
_RAW = "Times are raw: the cost of the records is in them."


def times_of(trace: Trace) -> str:
    """What a file says of its times, wherever its format has room for a sentence."""
    return _INTERPRETED if trace.is_interpreted else _RAW


@dataclass(frozen=True)
class Exported:
    """A file that was written; it stands for its path where one is asked for.

    Attributes:
        events: spans and marks in it (a timeline counts parts of interrupted spans), or traced accesses.
        left_out: those left out because the file would be too large to open.
        interpreted: its times are those of Triton's interpreter, on the host.
    """

    path: Path
    events: int
    left_out: int = 0
    interpreted: bool = False

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        rest = (
            f"; {self.left_out} later ones are left out, the file would be too large to open" if self.left_out else ""
        )
        interpreted = "; times of Triton's interpreter" if self.interpreted else ""
        return f"{self.path} ({self.events} events{interpreted}{rest})"
