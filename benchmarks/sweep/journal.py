"""What a sweep has found so far: a JSON object a line, so that nothing is lost when a process ends."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

ALL = "all"  # the case of the line that says that all cases were called
Outcome = Literal["begun", "instrumented", "exception", "plain failure", "crash"]


@dataclass(frozen=True)
class Line:
    """Attributes:
    case: the wrapper that was called.
    launch: its how many-th launch; -1 stands for the case as a whole.
    outcome: "begun" is written first, and stays the last word of a process that crashed.
    cause: why it is not instrumented, or why the case ended early.
    """

    case: str
    launch: int
    outcome: Outcome | Literal["done"]
    kernel: str = ""
    hash: str = ""
    cause: str = ""
    loops: int = 0
    sites: int = 0
    seconds: list[float] = field(default_factory=list)


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: Line) -> None:
        """Append a line; it is in the file when this returns."""
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(line)) + "\n")

    def lines(self) -> list[Line]:
        """Everything written so far, by this process or earlier ones."""
        if not self.path.exists():
            return []
        return [Line(**_object(text)) for text in self.path.read_text().splitlines()]


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
