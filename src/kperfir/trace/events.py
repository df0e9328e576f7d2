"""The events table: every span and mark of a launch as a row, in Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kperfir.capture.schema import Kernel, Launch
from kperfir.records import Region
from kperfir.trace.align import F64, Axis
from kperfir.trace.decode import I64, Headers
from kperfir.trace.pair import Spans
from kperfir.trace.scalars import scalars_of

_NAME = pa.dictionary(pa.int32(), pa.string())

EVENTS = pa.schema(
    [
        ("capture", pa.int32()),
        ("launch", pa.int64()),
        ("kernel", _NAME),
        ("region_id", pa.int32()),
        ("region", _NAME),
        ("role", _NAME),
        ("cta", pa.int64()),
        ("sm", pa.int64()),
        ("warp", pa.int32()),
        ("iteration", pa.int64()),
        ("value", pa.float64()),
        ("instance", pa.int64()),
        ("depth", pa.int32()),
        ("start_clock", pa.int64()),
        ("end_clock", pa.int64()),
        ("duration_cycles", pa.int64()),
        ("busy_cycles", pa.int64()),
        ("pieces", pa.int32()),
        ("end_warp", pa.int32()),
        ("start_ns", pa.float64()),
        ("end_ns", pa.float64()),
        ("duration_ns", pa.float64()),
        ("busy_ns", pa.float64()),
        ("ambiguous", pa.bool_()),
    ]
)
"""Columns of the events table.

capture: number of the capture file, `launch` of the launch in it. iteration: turn of the loop
around it, or of the outermost, where the plan asked for that version, else null. value: what a
record of `kl.value` carries, or the id of an event, exactly, of whatever type
(`kperfir.records.Region.scalar`); else null. instance: number of the span among those kept of its
warp and region. depth: spans open around it. start_clock, end_clock: raw, of the SM's counter, or
host nanoseconds in the interpreter. duration: from start to end; busy: the same less what
interrupted it. Raw: the cost of the records is in them. The cycles are null for interpreter times.
pieces: uninterrupted parts, 0 for a mark. end_warp: that of the end, which of an event may be
another. start_ns, end_ns: since the launch's first entry, all SMs on one axis; nanoseconds are null
where the frequency is unknown. ambiguous: the clocks may be off by multiples of 2^32 cycles.
"""


def events_table(capture: int, launch: Launch, kernel: Kernel, axis: Axis, headers: Headers, spans: Spans) -> pa.Table:
    """Rows of one launch, with the columns `EVENTS`, by CTA, warp and start."""
    count = len(spans.row)
    sm = headers.sm[spans.row]
    start_ns, end_ns = axis.to_ns(sm, spans.start), axis.to_ns(sm, spans.end)
    duration = spans.end - spans.start
    regions = kernel.table.regions
    columns = {
        "capture": np.full(count, capture),
        "launch": np.full(count, launch.id),
        "kernel": _names([kernel.name], np.zeros(count, np.int64)),
        "region_id": spans.region,
        "region": _region_names(regions, [r.name for r in regions], spans.region),
        "role": _region_names(regions, [r.role for r in regions], spans.region),
        "cta": headers.cta[spans.row],
        "sm": sm,
        "warp": spans.warp * kernel.layout.warp_step,
        "iteration": _given(spans.version),
        "value": _values(regions, spans),
        "instance": spans.instance,
        "depth": spans.depth,
        "start_clock": spans.start,
        "end_clock": spans.end,
        "duration_cycles": _cycles(kernel, duration),
        "busy_cycles": _cycles(kernel, spans.busy),
        "pieces": spans.pieces,
        "end_warp": spans.end_warp * kernel.layout.warp_step,
        "start_ns": _or_null(start_ns, count),
        "end_ns": _or_null(end_ns, count),
        "duration_ns": _or_null(_ns(axis, duration), count),
        "busy_ns": _or_null(_ns(axis, spans.busy), count),
        "ambiguous": spans.ambiguous,
    }
    return pa.table([_array(columns[f.name], f.type) for f in EVENTS], schema=EVENTS)


def _array(column: pa.Array | np.ndarray, kind: pa.DataType) -> pa.Array:
    return column if isinstance(column, pa.Array) else pa.array(column, kind)


def _region_names(regions: tuple[Region, ...], names: list[str], region: I64) -> pa.Array:
    """Regions are numbered as they lie in the table, so an id is an index."""
    assert all(r.id == i for i, r in enumerate(regions))
    return _names(names, region)


def _names(names: list[str], index: I64) -> pa.Array:
    """Dictionary column; names may repeat (two regions of one name), a dictionary's must not."""
    names = [spelled(name) for name in names]
    distinct = list(dict.fromkeys(names))
    code = np.array([distinct.index(n) for n in names], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(code[index], pa.int32()), pa.array(distinct, pa.string()))


def spelled(text: str) -> str:
    """A name as Arrow can hold it: Python gives bytes of a file's name that are no UTF-8 as halves of characters."""
    return text.encode(errors="backslashreplace").decode()


def _given(version: I64) -> pa.Array:
    return pa.array(version, pa.int64(), mask=version < 0)


def _values(regions: tuple[Region, ...], spans: Spans) -> pa.Array:
    values = scalars_of(regions, spans)
    return pa.array(values, pa.float64(), mask=spans.scalar < 0)


def _cycles(kernel: Kernel, values: I64) -> pa.Array | I64:
    return values if kernel.clock == "cycles" else pa.nulls(len(values), pa.int64())


def _ns(axis: Axis, values: I64) -> F64 | None:
    return None if axis.ghz is None else values / axis.ghz


def _or_null(values: F64 | None, count: int) -> pa.Array | F64:
    return pa.nulls(count, pa.float64()) if values is None else values
