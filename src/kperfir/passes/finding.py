"""What a pass found that the user must read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One sentence about one place in a kernel.

    Attributes:
        code: stable name, such as "no-anchor".
        where: scope, file and line as far as known.
        what, cure: sentences.
    """

    code: str
    where: str
    what: str
    cure: str = ""

    def __str__(self) -> str:
        return f"[{self.code}] {self.where}: {self.what} {self.cure}".rstrip()


def not_inlined(file: str, line: int) -> Finding:
    """Of a function that stays a call."""
    return Finding(
        "noinline",
        f"{file}:{line}",
        "A function that is called without being inlined is not recorded; its time counts for its caller.",
        "Take noinline off it to see inside.",
    )


def not_counted(file: str, line: int, is_inside: bool) -> Finding:
    """Of a loop that does not count; `is_inside` one that does."""
    by = "go by the turn of the loop around it" if is_inside else "are written in each turn, without its number"
    return Finding(
        "not-counted",
        f"{file}:{line}",
        f"The turns of a while loop are not counted, and its end is not known: the records in it {by}.",
        "Make it a for loop to choose its turns.",
    )
