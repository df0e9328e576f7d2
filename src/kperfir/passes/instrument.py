"""Bound the instrumentation of a kernel: from its entry on, its accesses are to be traced."""

from __future__ import annotations

from kperfir.ir.foreign import ForeignModule, ForeignOp
from kperfir.ir.kperf import StartInstrumentationOp
from kperfir.ir.locations import Locations
from kperfir.passes.finding import Finding

_PRIVATE = 'sym_visibility = "private"'


def instrument(module: ForeignModule, kinds: tuple[str, ...], markers: list[ForeignOp]) -> tuple[Finding, ...]:
    """Insert `kperf.start_instrumentation` at the entry of the kernel; without a stop it goes on to the end.

    Args:
        module: TTGIR; changed in place.
        kinds: of access.
        markers: of a Gluon kernel's scopes; they are taken out.

    Returns:
        functions that are not inlined, in which nothing is traced.
    """
    for marker in markers:
        block = marker.parent
        assert block is not None
        block.erase_op(marker)
    findings: list[Finding] = []
    for function in module.functions():
        if _PRIVATE in function.properties_text:
            findings.append(_not_inlined(*Locations.of(module).source(function.location_text)))
            continue
        entry = function.regions[0].blocks[0]
        assert entry.first_op is not None
        entry.insert_op_before(StartInstrumentationOp(kinds), entry.first_op)
    return tuple(findings)


def _not_inlined(file: str, line: int) -> Finding:
    what = "A function that is called without being inlined is not traced."
    return Finding("noinline", f"{file}:{line}", what, "Take noinline off it to see its accesses.")
