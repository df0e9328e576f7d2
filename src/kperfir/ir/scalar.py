"""The scalar that a record carries, as the text of a lowered kernel names it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """What a record carries.

    Attributes:
        bits: name of its 32 bits; empty where the record carries nothing.
        happens: name of a number of 32 bits, 0 where nothing is to be written.
    """

    bits: str = ""
    happens: str = ""


NO_SCALAR = Scalar()
