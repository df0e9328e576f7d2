"""kperfir's operations as text for people and for tests, and records back from it.

`kperf.record` stands in MLIR's generic form like everything around it. The
operations of `kperf_gpu` stand in their own form between the lines of the LLVM
dialect.
"""

from __future__ import annotations

import io
import re

from xdsl.ir import Operation
from xdsl.printer import Printer

from kperfir.errors import IRError
from kperfir.ir.chunks import ChunkedKernel, ChunkOp, ReturnOp
from kperfir.ir.foreign import ForeignModule, ForeignOp, walk
from kperfir.ir.kperf import Record, RecordOp, RecordScalarOp, StartInstrumentationOp, StopInstrumentationOp
from kperfir.ir.printer import print_module

_OWN = ('"kperf.record"(', '"kperf.record_scalar"(', '"kperf.start_instrumentation"(')
_PROPERTIES = re.compile(r'kind = #kperf<kind (\w+)>, region_name = "((?:[^"\\]|\\.)*)", site = (\d+) : i32')
_BOUNDS = (StartInstrumentationOp.name, StopInstrumentationOp.name)
_BOUND = re.compile(r'<{analysis = "addresses"(?:, kinds = "([\w+-]+)")?}>')
_NAMES = {
    "kperf_gpu.global_scratch_alloc": "kperf_scratch",
    "kperf_gpu.local_alloc": "kperf_ring",
    "kperf_gpu.init": "kperf_index",
    "kperf_gpu.read_counter": "kperf_clock",
}


# class, kinds, and how many operands there are at least
_RECORDS = {
    RecordOp.name: (RecordOp, ("start", "end", "mark"), 0),
    RecordScalarOp.name: (RecordScalarOp, ("value", "start", "end"), 2),
}


def holds_records(text: str) -> bool:
    """Whether a text holds operations that `spell_records` wrote."""
    return any(own in text for own in _OWN)


def spell_records(module: ForeignModule) -> str:
    """The module as generic text, its records included; the module is changed and not to be used again."""
    for op in list(module.root.walk()):
        match op:
            case Record():
                _replace(op, ForeignOp(op.name, list(op.operands), properties_text=_properties(op)))
            case StartInstrumentationOp():
                text = f' <{{analysis = "{op.analysis.data}", kinds = "{op.kinds.data}"}}>'
                _replace(op, ForeignOp(op.name, properties_text=text))
            case StopInstrumentationOp():
                _replace(op, ForeignOp(op.name, properties_text=f' <{{analysis = "{op.analysis.data}"}}>'))
            case _:
                pass
    return print_module(module)


def read_records(module: ForeignModule) -> None:
    """Make records of the operations that were read as text; the module is changed in place.

    Raises:
        IRError: one is not what `spell_records` writes.
    """
    for op in [op for op in walk(module.root) if op.opname in _RECORDS]:
        made, kinds, least = _RECORDS[op.opname]
        found = _PROPERTIES.search(op.properties_text)
        if found is None or found.group(1) not in kinds or len(op.operands) < least:
            raise IRError(
                f"'{op.opname}{op.properties_text}' is no record.",
                'Write \'"kperf.record"() <{kind = #kperf<kind start>, region_name = "load", site = 0 : i32}>\'.',
            )
        _replace(op, made(found.group(1), found.group(2), int(found.group(3)), list(op.operands)))
    for op in [op for op in walk(module.root) if op.opname in _BOUNDS]:
        _replace(op, _bound(op))


def spell_gpu(kernel: ChunkedKernel) -> str:
    """The whole module as text, with the operations of `kperf_gpu` between its lines."""
    printed = io.StringIO()
    printer = Printer(stream=printed)
    lines = list(kernel.before)
    for op in kernel.body.ops:
        match op:
            case ChunkOp():
                lines += op.lines
            case ReturnOp():
                lines.append(op.line)
            case _:
                lines += [f"    {line}" for line in _printed(op, printer, printed)]
                carrier = kernel.carriers.get(op)
                # the carrier's value goes on where it did; something may still name it
                lines += [f"    {carrier[0]} = llvm.mlir.constant(0 : i32) : i32"] if carrier else []
    return "\n".join(lines + kernel.after)


def _printed(op: Operation, printer: Printer, printed: io.StringIO) -> list[str]:
    for result in op.results:
        result.name_hint = _NAMES.get(op.name)
    printed.seek(0)
    printed.truncate()
    printer.print_op(op)
    return printed.getvalue().splitlines()


def _bound(op: ForeignOp) -> Operation:
    found = _BOUND.search(op.properties_text)
    starts = op.opname == StartInstrumentationOp.name
    if found is None or starts != (found.group(1) is not None):
        raise IRError(
            f"'{op.opname}{op.properties_text}' bounds no instrumentation.",
            'Write \'"kperf.start_instrumentation"() <{analysis = "addresses", kinds = "load+store"}>\'.',
        )
    return StartInstrumentationOp(tuple(found.group(1).split("+"))) if starts else StopInstrumentationOp()


def _properties(record: Record) -> str:
    name = record.region_name.data.replace("\\", "\\\\").replace('"', '\\"')
    kind, site = record.kind.data, record.site.value.data
    return f' <{{kind = #kperf<kind {kind}>, region_name = "{name}", site = {site} : i32}}>'


def _replace(old: Operation, new: Operation) -> None:
    block = old.parent
    assert block is not None
    block.insert_op_before(new, old)
    block.erase_op(old)
