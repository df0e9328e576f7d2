"""`kperf` -> `kperf_gpu`: where the buffers lie, what a record is, what happens at entry and at returns."""

from __future__ import annotations

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from kperfir.ir.chunks import ChunkedKernel, ReturnOp
from kperfir.ir.kperf import RecordOp
from kperfir.ir.kperf_gpu import (
    CircularStoreOp,
    Counter,
    FinalizeOp,
    GlobalScratchAllocOp,
    InitOp,
    LocalAllocOp,
    ReadCounterOp,
)
from kperfir.records import ALIGNMENT_BYTES, NARROW_RECORD_BYTES, Layout
from kperfir.windows import EVERYTHING, Chosen


def to_gpu(kernel: ChunkedKernel, layout: Layout, counter: str = Counter.CLOCK, chosen: Chosen = EVERYTHING) -> None:
    """Replace every `kperf.record`; allocate at entry and finalise before every return.

    Args:
        kernel: changed in place.
        layout: shape of the scratch block; its `place` decides where the ring lies.
        counter: what a record reads. chosen: who writes records.
    """
    scratch = GlobalScratchAllocOp(-(-layout.cta_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    entry: list[Operation] = [scratch]
    ring = scratch.buffer
    if layout.place == "shared":
        local = LocalAllocOp(layout.warps * layout.ring_bytes)
        entry.append(local)
        ring = local.buffer
    init = InitOp(ring, scratch.buffer, layout, chosen)
    entry.append(init)
    for op in list(kernel.body.ops):
        if isinstance(op, RecordOp):
            clock = ReadCounterOp(counter, i32 if layout.record_bytes == NARROW_RECORD_BYTES else i64)
            store = CircularStoreOp(clock.clock, init.index, op.site.value.data)
            kernel.carriers[store] = kernel.carriers.pop(op)
            Rewriter.replace_op(op, [clock, store], [])
        elif isinstance(op, ReturnOp):
            Rewriter.insert_op(FinalizeOp(init.index), InsertPoint.before(op))
    Rewriter.insert_op(entry, InsertPoint.at_start(kernel.body))
