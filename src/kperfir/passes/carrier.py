"""Carry kperf's operations through Triton's own lowering: each becomes an empty inline assembly that says what it is.

The carrier has a side effect and no operand but its version, so nothing moves or
copies it for the sake of data, and it arrives in the LLVM dialect as a line that is easy to find.
"""

from __future__ import annotations

from urllib.parse import quote

from kperfir.ir.chunks import PREFIX
from kperfir.ir.foreign import ForeignModule, ForeignOp, text_type
from kperfir.ir.kperf import RecordOp, StartInstrumentationOp, StopInstrumentationOp

Carried = RecordOp | StartInstrumentationOp | StopInstrumentationOp


def lower_records(module: ForeignModule) -> int:
    """Replace every record, and what bounds an instrumentation; return how many there were."""
    carried = [op for op in module.root.walk() if isinstance(op, Carried)]
    for op in carried:
        block = op.parent
        assert block is not None
        block.insert_op_before(_carrier(op), op)
        block.erase_op(op)
    return len(carried)


def _carrier(record: Carried) -> ForeignOp:
    text = f"{PREFIX}{_said(record)}>"
    constraints = "=r,r" if record.operands else "=r"
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
