"""What became of the operations that a scope held: plain data, and when it must be told.

A scope is marked in the source; what is timed lies between two clocks in the binary.
Triton, LLVM and ptxas fold, merge, hoist, copy and move operations in between. The
compile half counts what became of them in Triton's IR (`Fate`) and in the
instructions (`Share`); both travel in the capture.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SITE_FILE = "kperfir"
"""File that the binary's line info names for kperfir's own instructions."""

FIRST_SITE_LINE = 1_000_000
"""Line of site 0 in it, beyond every line of a program: ptxas (seen in 13.4) drops a change of file alone."""

FRAME_LINE = FIRST_SITE_LINE - 1
"""Line in it of what a kernel does at its entry and its returns for the sake of records."""

LEAST_SHARE = {"works": 0.5, "computes": 0.9}
"""Below this share of instructions between its clocks, a scope measures something else than what was marked.

One that loads, stores or multiplies is marked for that, and is doubted wherever some of it lies outside;
the arithmetic of its addresses is often moved out. Of one that only computes, the arithmetic is all there is.
"""


@dataclass(frozen=True)
class Fate:
    """What became of the operations of one name and source line of a scope.

    Attributes:
        name: of the operation, as in the source's IR: "tt.load".
        held: how many the scope held, with those of unrolled and inlined copies.
        inside: what descends from them and lies between records of the scope.
        outside: descends from them, and lies in as many loops but not between records.
        hoisted: lies in fewer loops than any of them did, while none is left in as many.
        merged: those without a descendant that are the same as an earlier operation.
        merged_with: scopes of these earlier ones; empty where they lie in none.
        works: it moves or multiplies data (load, store, dot).
    """

    name: str
    file: str
    line: int
    held: int
    inside: int = 0
    outside: int = 0
    hoisted: int = 0
    merged: int = 0
    merged_with: tuple[str, ...] = ()
    works: bool = False

    @property
    def found(self) -> int:
        """What descends from them, wherever it lies."""
        return self.inside + self.outside + self.hoisted

    @property
    def kept(self) -> int:
        """Operations that are there once and between records."""
        return min(self.held, self.inside)

    @property
    def duplicated(self) -> int:
        """Further copies: of prologues, peeled iterations, partitions."""
        return max(0, self.found - self.held)

    @property
    def vanished(self) -> int:
        """Folded into others, dead, or turned into a layout; merged ones are counted apart."""
        return max(0, self.held - self.found - self.merged)


@dataclass(frozen=True)
class Share:
    """Instructions of one scope in the binary, by line info.

    Attributes:
        own: instructions of the source lines of the scope's operations.
        between: those of them that lie between a start clock and its end clock.
        hoisted: those outside that lie in fewer loops than its innermost clock: hoisted or peeled, and run less often.
        work, work_between: those of `own` and `between` that move or multiply data.
        work_outside: opcodes of those that do and lie outside, each once; of a rule, which may record in loops only,
            not those that lie in fewer loops.
        foreign: instructions between the clocks that belong to lines of other scopes only.
    """

    own: int
    between: int
    hoisted: int = 0
    work: int = 0
    work_between: int = 0
    work_outside: tuple[str, ...] = ()
    foreign: int = 0

    @property
    def share(self) -> float | None:
        """Part of its instructions between its clocks, 0 to 1; None where it has none."""
        return self.between / self.own if self.own else None

    @property
    def steady_share(self) -> float | None:
        """The same without what was hoisted or peeled, and runs less often."""
        steady = self.own - self.hoisted
        return self.between / steady if steady else None

    @staticmethod
    def from_json(data: dict[str, Any]) -> Share:
        """The inverse of `asdict`, by way of JSON; unknown keys (a newer writer's) are passed over."""
        known = {k: v for k, v in data.items() if k in Share.__dataclass_fields__}
        return Share(**known | {"work_outside": tuple(data.get("work_outside", ()))})


@dataclass(frozen=True)
class Kept:
    """One scope, or the region of a rule, in one kernel.

    Attributes:
        name: without ".issue" and ".wait". origin: "scope", "rule" or "pass".
        file, line: where it stands in the source.
        regions: ids of its regions in the kernel's table.
        lines: (file, line) of its operations.
        fates: of the operations it held; empty where the source's IR was not seen: rules and Gluon.
    """

    name: str
    origin: str
    file: str
    line: int
    regions: tuple[int, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    fates: tuple[Fate, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Kept:
        """The inverse of `to_json`; unknown keys (a newer writer's) are passed over."""
        known = {k: v for k, v in data.items() if k in Kept.__dataclass_fields__}
        fates = tuple(_fate(f) for f in data.get("fates", ()))
        lines = tuple((file, line) for file, line in data.get("lines", ()))
        return Kept(**known | {"regions": tuple(data.get("regions", ())), "lines": lines, "fates": fates})


def doubt(kept: Kept, share: Share | None) -> tuple[str, str] | None:
    """What a user must know of a scope that times something else than was marked, and the cure; None if it does not.

    Args:
        share: None where instructions were not looked at.
    """
    moved = [f"{f.name} of line {f.line}" for f in kept.fates if f.works and f.outside + f.hoisted]
    if moved:
        what = f"{_the(kept)} does not time all it holds: {', '.join(moved)} lies outside its records."
        return what, "Move it out of the scope, or put what it is moved behind into the scope as well."
    if share is None:
        return None
    if share.work_outside:
        what = f"In the binary {', '.join(share.work_outside)} of {_the(kept)} lies outside its clocks{_told(share)}."
        return what, "Put the operations around it into the scope as well, or record it alone."
    if kept.origin == "rule" or share.steady_share is None:
        return None
    if share.steady_share >= LEAST_SHARE["works" if share.work else "computes"]:
        return None
    what = f"Only {share.steady_share:.0%} of the instructions of {_the(kept)} lie between its clocks{_told(share)}."
    return what, "Read it as the time of its memory, dot, reduce and barrier operations; give the rest its own scope."


def _the(kept: Kept) -> str:
    return f"{'rule' if kept.origin == 'rule' else 'scope'} '{kept.name}'"


def _told(share: Share) -> str:
    rarer = f", {share.hoisted} more in fewer loops" if share.hoisted else ""
    return f" ({share.between} of {share.own - share.hoisted}{rarer})"


def _fate(data: dict[str, Any]) -> Fate:
    known = {k: v for k, v in data.items() if k in Fate.__dataclass_fields__}
    return Fate(**known | {"merged_with": tuple(data.get("merged_with", ()))})
