"""`kperf` -> `kperf_gpu`: where the buffers lie, what a record is, what happens at entry and at returns."""

from __future__ import annotations

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from kperfir.ir.chunks import ChunkedKernel, ReturnOp
from kperfir.ir.kperf import Record, RecordKind, RecordScalarOp
from kperfir.ir.kperf_gpu import (
    AggregateEndOp,
    AggregateStartOp,
    CircularStoreOp,
    Counter,
    CountOp,
    FinalizeOp,
    InitOp,
    ReadCounterOp,
    StoreCounterOp,
)
from kperfir.ir.kperf_gpu_memory import GlobalScratchAllocOp, LocalAllocOp, StackAllocOp
from kperfir.ir.scalar import NO_SCALAR, Scalar
from kperfir.ir.turn import Turn
from kperfir.records import ALIGNMENT_BYTES, Layout
from kperfir.windows import ALL, EVERYTHING, Chosen, Windows


def to_gpu(
    kernel: ChunkedKernel,
    layout: Layout,
    counter: str = Counter.CLOCK,
    bits: int = 32,
    chosen: Chosen = EVERYTHING,
    pieces: tuple[tuple[int, int], ...] = (),
    iterations: Windows = ALL,
) -> None:
    """Replace every record; allocate at entry and finalise before every return.

    Args:
        kernel: changed in place.
        layout: shape of the scratch block; its `place` decides where the ring lies.
        counter, bits: what is read at a record. chosen: who writes records.
        pieces: region and piece of each site, where sums are kept.
        iterations: turns of a loop in which its records are written.
    """
    index = framed(kernel, layout, chosen)
    kind = i32 if bits == 32 else i64
    for op in list(kernel.body.ops):
        if isinstance(op, Record):
            clock = ReadCounterOp(counter, kind)
            carrier = kernel.carriers.pop(op)
            scalar, version = _operands(op, carrier[2])
            turn = Turn.of(version, iterations)
            if layout.holds_sums:
                store = _sum(op, clock, index, pieces[op.site.value.data], turn)
            else:
                kind_of_store = CircularStoreOp if layout.wraps else StoreCounterOp
                store = kind_of_store(clock.clock, index, op.site.value.data, turn, scalar)
            kernel.carriers[store] = carrier
            Rewriter.replace_op(op, [store] if isinstance(store, CountOp) else [clock, store], [])


def framed(kernel: ChunkedKernel, layout: Layout, chosen: Chosen) -> SSAValue:
    """Allocate at the kernel's entry and finalise before every return; the index that stores advance."""
    scratch = GlobalScratchAllocOp(-(-layout.cta_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    entry: list[Operation] = [scratch]
    ring = scratch.buffer
    if layout.place in ("shared", "stack"):
        shared = layout.place == "shared"
        near = LocalAllocOp(layout.warps * layout.ring_bytes) if shared else StackAllocOp(layout.ring_bytes)
        entry.append(near)
        ring = near.buffer
    init = InitOp(ring, scratch.buffer, layout, chosen)
    for op in list(kernel.body.ops):
        if isinstance(op, ReturnOp):
            Rewriter.insert_op(FinalizeOp(init.index), InsertPoint.before(op))
    Rewriter.insert_op([*entry, init], InsertPoint.at_start(kernel.body))
    return init.index


def _operands(record: Record, names: str) -> tuple[Scalar, str]:
    """What a record carries, and its version, from the names of its carrier's operands."""
    if not isinstance(record, RecordScalarOp):
        return NO_SCALAR, names
    bits, happens, *version = (name.strip() for name in names.split(","))
    return Scalar(bits, happens), ",".join(version)


def _sum(record: Record, clock: ReadCounterOp, index: SSAValue, site: tuple[int, int], turn: Turn) -> Operation:
    region, piece = site
    match record.kind.data:
        case RecordKind.START:
            return AggregateStartOp(clock.clock, index, region)
        case RecordKind.END:
            return AggregateEndOp(clock.clock, index, region, piece, turn)
        case _:
            return CountOp(index, region, turn)
