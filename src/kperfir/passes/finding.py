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
