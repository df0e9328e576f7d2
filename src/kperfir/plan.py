"""The plan: what to record and where, as one frozen object.

The capture file holds it printed to one string, from which it can be parsed:

    regions=auto;buffer=auto;slots=0
    regions=load+dot;buffer=global;slots=256
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from kperfir.errors import PlanError

RULES = ("kernel", "load", "store", "dot", "reduce", "wait", "barrier", "loop")
AUTO = ("kernel", "load", "store", "dot", "reduce", "wait")
MAX_SLOTS = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What to record.

    Attributes:
        regions: rules that place records without source edits, from `RULES`, or
            ("auto",): the whole kernel plus the other kinds of `AUTO` in loops,
            everywhere where the kernel has no loop. Scopes written in a kernel
            are recorded whatever this says.
        buffer: memory for the rings; "auto" takes shared memory where it fits
            and occupancy stays as it was, else global memory.
        slots: records a warp keeps, a power of two from 2; 0 leaves it to kperfir.
    """

    regions: tuple[str, ...] = ()
    buffer: Literal["auto", "shared", "global"] = "auto"
    slots: int = 0

    def __post_init__(self) -> None:
        if "auto" in self.regions and len(self.regions) > 1:
            what = f"'{'+'.join(self.regions)}' joins auto with other rules."
            raise PlanError(what, f"Use auto alone, or rules: {', '.join(RULES)}.")
        for rule in self.regions:
            if rule != "auto" and rule not in RULES:
                raise PlanError(f"'{rule}' is no rule for regions.", f"Use auto, none, or any of {', '.join(RULES)}.")
        if self.buffer not in ("auto", "shared", "global"):
            raise PlanError(f"'{self.buffer}' is no buffer.", "Use auto, shared or global.")
        if self.slots and (self.slots not in range(2, MAX_SLOTS + 1) or self.slots & (self.slots - 1)):
            what = f"A ring of {self.slots} slots cannot be made."
            raise PlanError(what, f"Use a power of two from 2 to {MAX_SLOTS}, or 0.")

    def __str__(self) -> str:
        return f"regions={'+'.join(self.regions) or 'none'};buffer={self.buffer};slots={self.slots}"

    @staticmethod
    def parse(text: str) -> Plan:
        """Read the printed form back; keys may be left out.

        Raises:
            PlanError: a key or a value is unknown.
        """
        known = {f.name for f in fields(Plan)}
        values: dict[str, str] = {}
        for part in filter(None, (p.strip() for p in text.split(";"))):
            key, equals, value = part.partition("=")
            if not equals or key not in known:
                raise PlanError(f"'{part}' is no part of a plan.", f"Use key=value with {', '.join(sorted(known))}.")
            values[key] = value
        return Plan.make(values.get("regions"), values.get("buffer", "auto"), values.get("slots", "0"))

    @staticmethod
    def make(regions: str | tuple[str, ...] | list[str] | None, buffer: str = "auto", slots: str | int = 0) -> Plan:
        """Build a plan from what users write: "auto", "load+dot", "load,dot" or a list.

        Raises:
            PlanError: a value is unknown.
        """
        if regions is None or regions == "none":
            regions = ()
        if isinstance(regions, str):
            regions = tuple(rule.strip() for rule in regions.replace(",", "+").split("+"))
        try:
            count = int(slots)
        except ValueError:
            raise PlanError(f"'{slots}' is no number of slots.", "Use a power of two, or 0.") from None
        return Plan(tuple(regions), buffer, count)  # type: ignore[arg-type]
