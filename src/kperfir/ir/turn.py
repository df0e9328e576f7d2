"""The turn of the loop around a record, as the text of a lowered kernel names it."""

from __future__ import annotations

from dataclasses import dataclass

from kperfir.windows import ALL, Windows


@dataclass(frozen=True)
class Turn:
    """What a record knows of the loop around it.

    Attributes:
        number: name of the turn's number from 0, 32 bits; empty where there is none.
        left: name of the number of turns that follow it, 32 bits; empty where nobody asks.
        iterations: turns in which the record is written.
    """

    number: str = ""
    left: str = ""
    iterations: Windows = ALL

    @property
    def always_writes(self) -> bool:
        """Whether the record is written whatever the turn."""
        return not self.number or self.iterations.are_all

    @staticmethod
    def of(names: str, iterations: Windows) -> Turn:
        """From the version of a carrier, the names of its operands: none, the number, or both."""
        number, _, left = names.partition(",")
        return Turn(number.strip(), left.strip(), iterations if number else ALL)


NO_TURN = Turn()
