"""Carry kperf's operations through Triton's own lowering: each becomes an empty inline assembly that says what it is.

The carrier has a side effect and no operand but its version, so nothing moves or
copies it for the sake of data, and it arrives in the LLVM dialect as a line that is easy to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from kperfir.ir.chunks import PREFIX
from kperfir.ir.foreign import ForeignModule, ForeignOp, take_place, text_type
from kperfir.ir.kperf import RecordOp, StartInstrumentationOp, StopInstrumentationOp

Carried = RecordOp | StartInstrumentationOp | StopInstrumentationOp


def lower_records(module: ForeignModule) -> int:
    """Replace every record, and what bounds an instrumentation; return how many there were."""
    carried = list(_carried(module.root))
    for op in carried:
        take_place(_carrier(op), op)
    return len(carried)


def _carried(op: ForeignOp) -> Iterator[Carried]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if isinstance(inner, Carried):
                    yield inner
                elif inner.regions and isinstance(inner, ForeignOp):
                    yield from _carried(inner)


def _carrier(record: Carried) -> ForeignOp:
    text = f"{PREFIX}{_said(record)}>"
    constraints = ",".join(["=r"] + ["r"] * len(record.operands))
    properties = f' <{{asm_string = "{text}", constraints = "{constraints}", packed_element = 1 : i32, pure = false}}>'
    location = next((op.location_text for op in (record.next_op, record.prev_op) if isinstance(op, ForeignOp)), "")
    return ForeignOp("tt.elementwise_inline_asm", list(record.operands), [text_type("i32")], properties, location)


def _said(op: Carried) -> str:
    match op:
        case RecordOp():
            return f"{op.site.value.data} {op.kind.data} {quote(op.region_name.data, safe='')}"
        case StartInstrumentationOp():
            return f"start {op.analysis.data} {op.kinds.data}"
        case StopInstrumentationOp():
            return f"stop {op.analysis.data} -"
