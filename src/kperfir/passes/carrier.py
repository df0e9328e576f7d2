"""Carry records through Triton's own lowering: `kperf.record` -> an empty inline assembly that names its site.

The carrier has a side effect and no operand but its version, so nothing moves or
copies it for the sake of data, and it arrives in the LLVM dialect as a line that is easy to find.
"""

from __future__ import annotations

from urllib.parse import quote

from kperfir.ir.chunks import PREFIX
from kperfir.ir.foreign import ForeignModule, ForeignOp, text_type
from kperfir.ir.kperf import RecordOp


def lower_records(module: ForeignModule) -> int:
    """Replace every record; return how many there were."""
    records = [op for op in module.root.walk() if isinstance(op, RecordOp)]
    for record in records:
        block = record.parent
        assert block is not None
        block.insert_op_before(_carrier(record), record)
        block.erase_op(record)
    return len(records)


def _carrier(record: RecordOp) -> ForeignOp:
    name = quote(record.region_name.data, safe="")
    text = f"{PREFIX}{record.site.value.data} {record.kind.data} {name}>"
    constraints = ",".join(["=r"] + ["r"] * len(record.operands))
    properties = f' <{{asm_string = "{text}", constraints = "{constraints}", packed_element = 1 : i32, pure = false}}>'
    location = next((op.location_text for op in (record.next_op, record.prev_op) if isinstance(op, ForeignOp)), "")
    return ForeignOp("tt.elementwise_inline_asm", list(record.operands), [text_type("i32")], properties, location)
