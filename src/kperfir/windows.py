"""Which of many are recorded: windows over numbers of launches, CTAs, SMs, warps.

all            every number
3              one
0-7            a range, both ends included
100-           from one on
0-7+0-:100     the first eight and every hundredth
last-8         the last eight, where the end is known: of the turns of a loop
none           none
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kperfir.errors import PlanError

_LAST = re.compile(r"last-(\d{1,10})", re.ASCII)
_PART = re.compile(r"(\d{1,10})(?:(-)(\d{0,10})(?::(\d{1,10}))?)?", re.ASCII)
_LIMIT = 1 << 31  # kernels compare numbers as signed 32-bit integers
_USE = "Use all, none, or parts like 3, 0-7, 100-, 0-:8 and last-8, joined by +."


@dataclass(frozen=True)
class Window:
    """`first`, `first + step`, ... up to `last`, or without end where that is None."""

    first: int = 0
    last: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        ends = [self.first, self.step] + ([] if self.last is None else [self.last])
        if self.first < 0 or self.step < 1 or max(ends) >= _LIMIT:
            raise PlanError(f"A window of numbers cannot be '{self}'.", _USE)
        if self.last is not None and self.last < self.first:
            raise PlanError(f"The window '{self}' ends before it begins.", _USE)

    def __contains__(self, number: int) -> bool:
        within = self.first <= number and (self.last is None or number <= self.last)
        return within and (number - self.first) % self.step == 0

    def __str__(self) -> str:
        if self.last == self.first:
            return str(self.first)
        end = "" if self.last is None else self.last
        return f"{self.first}-{end}" + (f":{self.step}" if self.step != 1 else "")


@dataclass(frozen=True)
class Last:
    """The last `count` numbers, whatever the greatest is."""

    count: int

    def __post_init__(self) -> None:
        if not 0 < self.count < _LIMIT:
            raise PlanError(f"The last {self.count} of something are no window.", _USE)

    def __str__(self) -> str:
        return f"last-{self.count}"


@dataclass(frozen=True)
class Windows:
    """Numbers that lie in any of the parts."""

    parts: tuple[Window | Last, ...] = (Window(),)

    def __post_init__(self) -> None:
        if Window() in self.parts:  # the others add nothing
            object.__setattr__(self, "parts", (Window(),))

    @property
    def are_all(self) -> bool:
        """Whether every number is in them."""
        return self.parts == (Window(),)

    @property
    def ask_for_last(self) -> bool:
        """Whether it has to be known how many numbers follow one."""
        return any(isinstance(part, Last) for part in self.parts)

    def hold(self, number: int, left: int) -> bool:
        """Whether a number lies in them that `left` others follow."""
        return any(left < part.count if isinstance(part, Last) else number in part for part in self.parts)

    def __contains__(self, number: int) -> bool:
        """Of windows that do not ask for the last."""
        return any(number in part for part in self.parts if isinstance(part, Window))

    def __str__(self) -> str:
        if self.are_all:
            return "all"
        return "+".join(map(str, self.parts)) or "none"

    @staticmethod
    def parse(text: str) -> Windows:
        """The inverse of printing.

        Raises:
            PlanError: a part is no window.
        """
        if text in ("all", "none"):
            return ALL if text == "all" else NONE
        return Windows(tuple(_window(part.strip()) for part in text.split("+")))


ALL = Windows()
NONE = Windows(())


@dataclass(frozen=True)
class Chosen:
    """Which CTAs by linear id, SMs by id and warps by number in their CTA write records."""

    ctas: Windows = ALL
    sms: Windows = ALL
    warps: Windows = ALL

    @property
    def is_everything(self) -> bool:
        """Whether all of them do."""
        return self.ctas.are_all and self.sms.are_all and self.warps.are_all


EVERYTHING = Chosen()


def _window(text: str) -> Window | Last:
    if last_of := _LAST.fullmatch(text):
        return Last(int(last_of.group(1)))
    found = _PART.fullmatch(text)
    if found is None:
        raise PlanError(f"'{text[:40]}' is no window of numbers.", _USE)
    first, is_range, last, step = found.groups()
    if not is_range:
        return Window(int(first), int(first))
    return Window(int(first), int(last) if last else None, int(step or 1))
