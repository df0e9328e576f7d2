"""What an export wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Exported:
    """A file that was written; it stands for its path where one is asked for.

    Attributes:
        events: spans and marks in it (a timeline counts parts of interrupted spans), or traced accesses.
        left_out: those left out because the file would be too large to open.
    """

    path: Path
    events: int
    left_out: int = 0

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        rest = (
            f"; {self.left_out} later ones are left out, the file would be too large to open" if self.left_out else ""
        )
        return f"{self.path} ({self.events} events{rest})"
