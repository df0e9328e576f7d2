"""What a kernel costs before it is run, plain and with records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kperfir.fidelity import Kept, Share


@dataclass(frozen=True)
class Cost:
    """One binary.

    Attributes:
        registers: of a thread; vector registers on AMD. scalar_registers: AMD's.
        local_bytes: a thread's local memory, where spilled registers go.
        shared_bytes: of a CTA. ctas_per_sm: None where it is not known.
        code_bytes: of the binary's text sections. instructions: in them, without padding.
    """

    registers: int
    scalar_registers: int | None
    local_bytes: int
    shared_bytes: int
    warps: int
    ctas_per_sm: int | None
    code_bytes: int
    instructions: int


@dataclass(frozen=True)
class Inspection:
    """One kernel, plain and with the records of a plan.

    Attributes:
        target: such as "cuda:90". sites: records in its code.
        place_reason: why the rings lie where they do, in words.
        warnings: sentences, the most important first.
        fidelity, shares: what became of each scope's operations, and its instructions.
        absent: why there are no shares; empty where there are.
        proposal: a plan that keeps the CTAs an SM where this one does not; empty where
            it does, or where none was found.
        findings: sentences on what is not recorded as it was asked for.
    """

    target: str
    plain: Cost
    instrumented: Cost
    sites: int
    place_reason: str
    warnings: tuple[str, ...] = ()
    proposal: str = ""
    findings: tuple[str, ...] = ()
    fidelity: tuple[Kept, ...] = ()
    shares: tuple[Share | None, ...] = ()
    absent: str = ""

    @property
    def instructions_per_record(self) -> float:
        """Growth of the code by record, with what entry and returns need."""
        return (self.instrumented.instructions - self.plain.instructions) / self.sites

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Inspection:
        """The inverse of `dataclasses.asdict`, by way of JSON."""
        plain, instrumented = Cost(**data["plain"]), Cost(**data["instrumented"])
        told = {name: tuple(data[name]) for name in ("warnings", "findings")}
        kept = tuple(map(Kept.from_json, data["fidelity"]))
        shares = tuple(None if s is None else Share.from_json(s) for s in data["shares"])
        revived = {"plain": plain, "instrumented": instrumented, "fidelity": kept, "shares": shares}
        return Inspection(**data | revived | told)
