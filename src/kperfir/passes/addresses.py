"""`kperf.start_instrumentation "addresses"` -> a `kperf_gpu.store_address` before each access behind it.

Works on the text of the LLVM dialect: one operation a line, in the order in which
Triton lowered them. Which lines access global memory is the target's to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from kperfir.errors import LoweringError
from kperfir.ir.chunks import ChunkedKernel, ChunkOp, location_of
from kperfir.ir.kperf import Record, StartInstrumentationOp, StopInstrumentationOp
from kperfir.ir.locations import Locations
from kperfir.ir.store_address import Accessed, StoreAddressOp
from kperfir.passes.finding import Finding
from kperfir.passes.scopes import Scope
from kperfir.passes.tables import TableBuilder
from kperfir.passes.to_gpu import framed
from kperfir.records import AccessKind, Layout
from kperfir.windows import Chosen

_SCOPE = "kperf.scope:"


@dataclass(frozen=True)
class Untraced:
    """An access whose addresses cannot be traced; the reason is a sentence."""

    kind: AccessKind
    instruction: str
    reason: str


FindAccesses = Callable[[str], list[Accessed | Untraced]]


def trace_addresses(
    kernel: ChunkedKernel,
    layout: Layout,
    chosen: Chosen,
    scopes: tuple[Scope, ...],
    tables: TableBuilder,
    find: FindAccesses,
) -> tuple[Finding, ...]:
    """Insert `kperf_gpu.store_address`; allocate at entry and finalise before every return.

    Args:
        kernel: changed in place.
        scopes: what tags in locations name. tables: grows by the accesses.
        find: the accesses of a line to global memory.

    Returns:
        accesses that are not traced, each place once.

    Raises:
        LoweringError: there is nothing to trace, or records stand beside it.
    """
    tracer = _Tracer(Locations.read((*kernel.before, *kernel.after)), {s.id: s.name for s in scopes}, tables, find)
    index = framed(kernel, layout, chosen)
    for op in list(kernel.body.ops):
        match op:
            case Record():
                what = f"Record '{op.region_name.data}' of a pass stands in it, and a trace of addresses has no times."
                raise LoweringError(what, "Leave the pass out, or record twice.")
            case StartInstrumentationOp() | StopInstrumentationOp():
                tracer.bound(op)
                value, location, _ = kernel.carriers.pop(op)
                _replace(op, [ChunkOp.make([f"    {value} = llvm.mlir.constant(0 : i32) : i32 {location}".rstrip()])])
            case ChunkOp() if tracer.kinds:
                _replace(op, tracer.chunk(op.lines, index))
            case _:
                pass
    if not tables.has_accesses:
        raise LoweringError("Nothing in it can be traced.", tracer.nothing())
    return tuple(dict.fromkeys(tracer.findings))


class _Tracer:
    def __init__(self, locations: Locations, scopes: dict[int, str], tables: TableBuilder, find: FindAccesses) -> None:
        self.locations, self.scopes, self.tables, self.find = locations, scopes, tables, find
        self.kinds: tuple[str, ...] = ()
        self.asked: dict[str, None] = {}
        self.others: dict[str, None] = {}
        self.findings: list[Finding] = []

    def bound(self, op: StartInstrumentationOp | StopInstrumentationOp) -> None:
        """From here on other kinds are traced."""
        starts = isinstance(op, StartInstrumentationOp)
        if starts == bool(self.kinds):
            what = (
                "An instrumentation starts in another one." if starts else "An instrumentation stops that none started."
            )
            raise LoweringError(what, "Bound each by one start and one stop, in the order of the text.")
        self.kinds = op.chosen if isinstance(op, StartInstrumentationOp) else ()
        self.asked |= dict.fromkeys(self.kinds)

    def chunk(self, lines: list[str], index: SSAValue) -> list[Operation]:
        """The lines, with a store before each that accesses memory."""
        made: list[Operation] = []
        pending: list[str] = []
        for line in lines:
            stores = [s for access in self.find(line) if (s := self.store(access, location_of(line), index))]
            if stores and pending:
                made.append(ChunkOp.make(pending))
                pending = []
            made += stores
            pending.append(line)
        return [*made, ChunkOp.make(pending)]

    def store(self, access: Accessed | Untraced, location: str, index: SSAValue) -> StoreAddressOp | None:
        if access.kind not in self.kinds:
            self.others[access.kind] = None
            return None
        file, line = self.locations.source(location)
        if isinstance(access, Untraced):
            self.findings.append(Finding("not-traced", f"{file}:{line}", access.reason))
            return None
        kind, width, text = access.kind, access.width_bytes, access.instruction
        site = self.tables.access(kind, width, text, location, self.region(location), file, line)
        return StoreAddressOp(index, site, access)

    def region(self, location: str) -> str:
        """Name of the innermost scope that a location is tagged with."""
        tags = [tag for tag in self.locations.tags(location) if tag.startswith(_SCOPE)]
        return self.scopes.get(int(tags[-1].removeprefix(_SCOPE).partition(".")[0]), "") if tags else ""

    def nothing(self) -> str:
        """Why nothing is traced, and what could be."""
        if self.findings:
            return self.findings[0].what
        if self.others:
            return f"It has no {' or '.join(self.asked)}; trace {'+'.join(self.others)}."
        return "It does not access global memory."


def _replace(op: Operation, new: list[Operation]) -> None:
    block = op.parent
    assert block is not None
    for each in new:
        block.insert_op_before(each, op)
    block.erase_op(op)
