"""A trace: captures, decoded launch by launch, as one table of events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kperfir.capture.reader import Capture, Recorded, capture_files, read_capture
from kperfir.capture.schema import Kernel, Launch, Problem
from kperfir.trace.align import Axis, align
from kperfir.trace.decode import Headers, Records, decode
from kperfir.trace.pair import Spans, pair

if TYPE_CHECKING:
    from kperfir.analysis.summary import Summary

EVENTS = pa.schema(
    [
        ("capture", pa.int32()),
        ("launch", pa.int64()),
        ("kernel", pa.string()),
        ("region_id", pa.int32()),
        ("region", pa.string()),
        ("role", pa.string()),
        ("cta", pa.int64()),
        ("sm", pa.int32()),
        ("warp", pa.int32()),
        ("instance", pa.int64()),
        ("depth", pa.int32()),
        ("start_clock", pa.int64()),
        ("end_clock", pa.int64()),
        ("duration", pa.int64()),
        ("busy", pa.int64()),
        ("pieces", pa.int32()),
        ("start_ns", pa.float64()),
        ("end_ns", pa.float64()),
        ("ambiguous", pa.bool_()),
    ]
)
"""Columns of the events table. `duration` and `busy` (less what interrupted a region)
are raw, in the kernel's unit: cycles of its SM, or nanoseconds in the interpreter.
`start_ns` counts from the launch's first entry and is null where the frequency is unknown."""


@dataclass(frozen=True)
class LaunchTrace:
    """One launch, decoded.

    Attributes:
        written, kept: records, of all warps.
        missing_ctas, unfinished_ctas: blocks without a header, or without an end.
        unpaired: region id -> records without partner.
    """

    capture: int
    launch: Launch
    kernel: Kernel
    axis: Axis
    table: pa.Table
    written: int
    kept: int
    missing_ctas: int
    unfinished_ctas: int
    unpaired: Counter[int]
    unknown_sites: int


@dataclass(frozen=True)
class Trace:
    """One capture, or those of several processes."""

    captures: tuple[Capture, ...]

    @cached_property
    def launches(self) -> tuple[LaunchTrace, ...]:
        """All recorded launches, decoded."""
        return tuple(
            _launch(number, capture, recorded)
            for number, capture in enumerate(self.captures)
            for recorded in capture.launches
        )

    @property
    def is_interpreted(self) -> bool:
        """Whether times are those of Triton's interpreter."""
        return any(c.session.source == "interpreter" for c in self.captures)

    def events(self) -> pa.Table:
        """Every span and mark, as an Arrow table with the columns `EVENTS`."""
        tables = [launch.table for launch in self.launches]
        return pa.concat_tables(tables) if tables else EVENTS.empty_table()

    def problems(self) -> tuple[Problem, ...]:
        """Everything the user must read: from recording, from reading, from decoding."""
        noted = [p for c in self.captures for p in c.problems]
        return tuple(noted + [p for launch in self.launches for p in _problems(launch)])

    def summary(self) -> Summary:
        """Count, total, median, 95th percentile and share of every region."""
        from kperfir.analysis.summary import summarise

        return summarise(self)

    def export(self, path: str | Path) -> Path:
        """Write a timeline or table; the format follows the suffix.

        Raises:
            ExportError: the suffix is unknown or the place cannot be written.
        """
        from kperfir.export import export

        return export(self, Path(path))


def load(path: str | Path) -> Trace:
    """Read a capture file, or all captures of a directory.

    Raises:
        CaptureError: one of them cannot be read.
    """
    return Trace(tuple(read_capture(file) for file in capture_files(path)))


def _launch(number: int, capture: Capture, recorded: Recorded) -> LaunchTrace:
    kernel = capture.kernels[recorded.launch.kernel]
    parts = [decode(chunk.payload, kernel.layout) for chunk in recorded.chunks]
    axis = _interpreter_axis(parts) if kernel.clock == "ns" else align(_joined([p.headers for p in parts]))
    spans = [pair(part, kernel.table) for part in parts]
    tables = [_table(number, recorded.launch, kernel, axis, p, s) for p, s in zip(parts, spans, strict=True)]
    return LaunchTrace(
        number,
        recorded.launch,
        kernel,
        axis,
        pa.concat_tables(tables) if tables else EVENTS.empty_table(),
        sum(int(p.written.sum()) for p in parts),
        sum(int(p.kept.sum()) for p in parts),
        recorded.launch.ctas - sum(len(p.headers.cta) for p in parts),
        sum(int((~p.headers.finished).sum()) for p in parts),
        sum((s.unpaired for s in spans), Counter()),
        sum(s.unknown_sites for s in spans),
    )


def _joined(headers: list[Headers]) -> Headers:
    names = Headers.__dataclass_fields__
    return Headers(**{n: np.concatenate([getattr(h, n) for h in headers]) for n in names})


def _interpreter_axis(parts: list[Records]) -> Axis:
    """The interpreter's clock is nanoseconds already."""
    starts = np.concatenate([p.headers.start_clock for p in parts])
    origin = int(starts.min()) if len(starts) else 0
    sms = {int(s) for p in parts for s in p.headers.sm}
    return Axis(origin, 1.0, {s: float(origin) for s in sms}, (0.0, 0.0))


def _table(number: int, launch: Launch, kernel: Kernel, axis: Axis, records: Records, spans: Spans) -> pa.Table:
    row = np.array(spans.row, np.int64)
    sm, cta = records.headers.sm[row], records.headers.cta[row]
    start, end = np.array(spans.start, np.int64), np.array(spans.end, np.int64)
    start_ns, end_ns = axis.to_ns(sm, start), axis.to_ns(sm, end)
    regions = kernel.table.regions
    unknown = pa.nulls(len(row), pa.float64())
    columns = {
        "capture": np.full(len(row), number),
        "launch": np.full(len(row), launch.id),
        "kernel": pa.array([kernel.name] * len(row), pa.string()),
        "region_id": spans.region,
        "region": [regions[r].name for r in spans.region],
        "role": [regions[r].role for r in spans.region],
        "cta": cta,
        "sm": sm,
        "warp": spans.warp,
        "instance": spans.instance,
        "depth": spans.depth,
        "start_clock": start,
        "end_clock": end,
        "duration": end - start,
        "busy": spans.busy,
        "pieces": spans.pieces,
        "start_ns": unknown if start_ns is None else start_ns,
        "end_ns": unknown if end_ns is None else end_ns,
        "ambiguous": spans.ambiguous,
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in EVENTS}, schema=EVENTS)


def _problems(launch: LaunchTrace) -> list[Problem]:
    where = f"{launch.kernel.name}, launch {launch.launch.number}"
    found = []
    if launch.kept < launch.written:
        lost = launch.written - launch.kept
        what = f"{lost} of {launch.written} records were overwritten: a ring holds {launch.kernel.layout.slots}."
        found.append(Problem("overwritten", where, what, "Ask for more slots to keep them.", lost))
    if launch.missing_ctas:
        what = f"{launch.missing_ctas} of {launch.launch.ctas} CTAs left no header."
        found.append(Problem("missing-ctas", where, what, "", launch.missing_ctas))
    if launch.unfinished_ctas:
        what = f"{launch.unfinished_ctas} CTAs did not reach their end; their records are left out."
        found.append(Problem("unfinished-ctas", where, what, "", launch.unfinished_ctas))
    for region, count in sorted(launch.unpaired.items()):
        name = launch.kernel.table.regions[region].name
        found.append(Problem("unpaired", where, f"{count} records of region '{name}' have no partner.", "", count))
    if launch.unknown_sites:
        what = f"{launch.unknown_sites} records name a site that the table does not have."
        found.append(Problem("unknown-site", where, what, "Please report this.", launch.unknown_sites))
    ambiguous = int(np.count_nonzero(launch.table["ambiguous"].to_numpy()))
    if ambiguous:
        what = f"{ambiguous} events have a clock that may be off by multiples of 2^32 cycles."
        found.append(Problem("ambiguous-clock", where, what, "", ambiguous))
    return found
