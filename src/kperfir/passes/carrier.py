"""Carry kperf's operations through Triton's own lowering: each becomes an empty inline assembly that says what it is.

The carrier has a side effect and no operand but its version and what it carries, so nothing moves or
copies it for the sake of data, and it arrives in the LLVM dialect as a line that is easy to find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import quote

from kperfir.ir.chunks import PREFIX
from kperfir.ir.foreign import ForeignModule, ForeignOp, take_place, text_type
from kperfir.ir.kperf import Record, RecordScalarOp, StartInstrumentationOp, StopInstrumentationOp

_CARRIER = "tt.elementwise_inline_asm"
_RECORD = re.compile(rf"{re.escape(PREFIX)}(\d+) (\w+\+?) ")

Carried = Record | StartInstrumentationOp | StopInstrumentationOp


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
                if isinstance(inner, ForeignOp):
                    if inner.regions:
                        yield from _carried(inner)
                elif isinstance(inner, Carried):
                    yield inner


def carried_record(op: ForeignOp) -> tuple[int, str] | None:
    """Site and kind of the record that an operation carries; None where it carries none."""
    found = _RECORD.search(op.properties_text) if op.opname == _CARRIER else None
    return (int(found[1]), found[2]) if found else None


def _carrier(record: Carried) -> ForeignOp:
    text = f"{PREFIX}{_said(record)}>"
    constraints = ",".join(["=r"] + ["r"] * len(record.operands))
    properties = f' <{{asm_string = "{text}", constraints = "{constraints}", packed_element = 1 : i32, pure = false}}>'
    location = next((op.location_text for op in (record.next_op, record.prev_op) if isinstance(op, ForeignOp)), "")
    return ForeignOp(_CARRIER, list(record.operands), [text_type("i32")], properties, location)


@lru_cache(1024)
def _quoted(name: str) -> str:
    return quote(name, safe="")


def _said(op: Carried) -> str:
    match op:
        case Record():
            carries = "+" if isinstance(op, RecordScalarOp) else ""
            return f"{op.site.value.data} {op.kind.data}{carries} {_quoted(op.region_name.data)}"
        case StartInstrumentationOp():
            return f"start {op.analysis.data} {op.kinds.data}"
        case StopInstrumentationOp():
            return f"stop {op.analysis.data} -"
