"""Chrome's trace format, which Perfetto opens: a process an SM, a track a warp.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
Launches lie at the device's global time, so that what overlapped overlaps. CTAs that
are resident on an SM at once get slots of their own; one that starts after another has
ended takes its slot. A span that a sibling interrupts is drawn in its parts. Viewers
keep whole nanoseconds and drop slices that cross: times are rounded before they become
microseconds, and a slice that crosses another on its track moves to a track beside it. Events, which
cross by their nature, are async slices.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from kperfir.export.exported import Exported, times_of
from kperfir.export.slots import Slots
from kperfir.records import Scalar
from kperfir.trace import LaunchTrace, Trace
from kperfir.trace.decode import I64
from kperfir.trace.pair import Spans
from kperfir.trace.scalars import scalars_of

MAX_EVENTS = 2_000_000
_CYCLES = " (cycles, not ns; SMs not aligned)"

Event = dict[str, Any]


def write(trace: Trace, path: Path) -> Exported:
    """Plain JSON."""
    with path.open("w", encoding="utf-8") as out:
        return Exported(path, *_write(trace, out), trace.is_interpreted)


def write_compressed(trace: Trace, path: Path) -> Exported:
    """JSON, compressed by gzip."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as out:
        return Exported(path, *_write(trace, out), trace.is_interpreted)


def _write(trace: Trace, out: IO[str]) -> tuple[int, int]:
    """Write events up to the bound; returns how many, and how many were left out."""
    written = left_out = 0
    tracks = _Tracks(trace)
    out.write('{"displayTimeUnit":"ns","traceEvents":[\n')
    separator = ""
    for launch, offset_ns in _placed(trace):
        slices = _slices(launch)
        fits = min(len(slices.start_ns), MAX_EVENTS - written)
        left_out += len(slices.start_ns) - fits
        for event in _events(launch, slices, fits, offset_ns, tracks):
            out.write(separator + json.dumps(event, separators=(",", ":")))
            separator = ",\n"
        written += fits
    notes = {"producer": "kperfir", "times": times_of(trace)}
    notes["problems"] = str(len(trace.problems()))
    if left_out:
        notes["left_out"] = f"{left_out} events of later launches and CTAs are not in this file"
    out.write(f'\n],"otherData":{json.dumps(notes)}}}\n')
    return written, left_out


def _placed(trace: Trace) -> list[tuple[LaunchTrace, int]]:
    """Launches in the order of their starts, and when they started, counted from the first of all."""
    starts = sorted(((launch.axis.origin_ns, i) for i, launch in enumerate(trace.launches) if len(launch.spans.row)))
    return [(trace.launches[i], origin_ns - starts[0][0]) for origin_ns, i in starts]


@dataclass(frozen=True)
class _Slices:
    """What is drawn of a launch, by CTA, warp and start: parts of spans, and marks.

    Attributes:
        span: index into the launch's spans.
        start_ns, end_ns: since the launch's first entry, whole numbers; cycles since
            the SM's first start where the frequency is unknown.
    """

    span: I64
    start_ns: I64
    end_ns: I64


def _slices(launch: LaunchTrace) -> _Slices:
    parts = launch.spans.parts
    sm = launch.headers.sm[launch.spans.row[parts.span]]
    start, end = launch.axis.to_ns(sm, parts.start), launch.axis.to_ns(sm, parts.end)
    if start is None or end is None:
        units, unit = np.unique(sm, return_inverse=True)
        first = np.full(len(units), np.iinfo(np.int64).max)
        np.minimum.at(first, unit, parts.start)
        start_ns, end_ns = parts.start - first[unit], parts.end - first[unit]
    else:
        start_ns, end_ns = np.rint(start).astype(np.int64), np.rint(end).astype(np.int64)
    spans = launch.spans
    # Outer spans come before inner ones that start with them.
    order = np.lexsort((-end_ns, start_ns, spans.warp[parts.span], spans.row[parts.span]))
    return _Slices(parts.span[order], start_ns[order], end_ns[order])


def _events(launch: LaunchTrace, slices: _Slices, count: int, offset_ns: int, tracks: _Tracks) -> Iterator[Event]:
    spans, regions = launch.spans, launch.kernel.table.regions
    values = scalars_of(regions, spans)
    rows = spans.row[slices.span]
    slots = tracks.slots_of(launch, rows, slices.start_ns + offset_ns, slices.end_ns + offset_ns)
    args = [_region_args(r.role, r.file, r.line, launch.launch.number) for r in regions]
    unit = "" if launch.axis.ghz is not None else _CYCLES
    warps = spans.warp[slices.span] * launch.kernel.layout.warp_step
    fields = (slices.span, rows, warps, spans.region[slices.span], slices.start_ns, slices.end_ns)
    for span, row, warp, region, start, end in zip(*(f[:count].tolist() for f in fields), strict=True):
        sm, cta = int(launch.headers.sm[row]), int(launch.headers.cta[row])
        start_ns, end_ns = offset_ns + start, offset_ns + end
        is_mark = regions[region].is_moment
        process = tracks.process(launch, sm, unit)
        thread = tracks.thread(
            process, slots[row], warp, start_ns, end_ns, regions[region].origin in ("mark", "value", "event")
        )
        yield from tracks.new_names()
        event: Event = {"name": regions[region].name, "cat": launch.kernel.name, "pid": process, "tid": thread}
        event["ts"] = start_ns / 1000
        event |= {"ph": "i", "s": "t"} if is_mark else {"ph": "X", "dur": max(end_ns - start_ns, 0) / 1000}
        event["args"] = args[region] | {
            "cta": cta,
            "instance": int(spans.instance[span]),
            "span_clocks": int(spans.end[span]) - int(spans.start[span]),
        }
        if spans.scalar[span] >= 0:
            event["args"]["value"] = _json_number(values[span], regions[region].scalar)
        if spans.ambiguous[span]:
            event["args"]["ambiguous"] = True
        if regions[region].origin == "event":
            yield from _async(event, f"{launch.launch.id}.{cta}.{region}.{event['args']['value']}.{span}", spans, span)
        else:
            yield event


def _async(event: Event, number: str, spans: Spans, span: int) -> Iterator[Event]:
    """An event as the two ends of an async slice; they may overlap others of their track, and end on another."""
    end_ts = event["ts"] + event.pop("dur")
    event["args"]["end_warp"] = int(spans.end_warp[span])
    both = {"name": event["name"], "cat": event["cat"], "id": number, "pid": event["pid"], "tid": event["tid"]}
    yield both | {"ph": "b", "ts": event["ts"], "args": event["args"]}
    yield both | {"ph": "e", "ts": end_ts}


def _json_number(value: float, scalar: Scalar | None) -> int | float | str:
    """A number as JSON has it, which knows no infinity and no NaN."""
    if not np.isfinite(value):
        return str(value)
    return float(value) if scalar == "float32" else int(value)


def _region_args(role: str, file: str, line: int, launch: int) -> Event:
    return {"launch": launch, "role": role} | ({"source": f"{file}:{line}"} if file else {})


@dataclass
class _Process:
    """One SM's tracks: numbers of threads, and ends of the slices open on each."""

    slots: Slots = field(default_factory=Slots)
    threads: dict[tuple[int, int, int], int] = field(default_factory=dict)
    open_ends: dict[int, list[int]] = field(default_factory=dict)


class _Tracks:
    """Numbers and names of processes and threads of the whole file."""

    def __init__(self, trace: Trace) -> None:
        self._several = len(trace.captures) > 1
        self._devices = len({launch.launch.device for launch in trace.launches}) > 1
        self._process_ids = [c.session.process_id for c in trace.captures]
        self._numbers: dict[tuple[int, int, int, str], int] = {}
        self._processes: dict[int, _Process] = {}
        self._new: list[Event] = []

    def process(self, launch: LaunchTrace, sm: int, unit: str) -> int:
        """Number of an SM's process."""
        key = (launch.capture, launch.launch.device, sm, unit)
        if key not in self._numbers:
            self._numbers[key] = number = len(self._numbers) + 1
            self._processes[number] = _Process()
            owner = f"process {self._process_ids[launch.capture]} " if self._several else ""
            owner += f"GPU {launch.launch.device} " if self._devices else ""
            place = "interpreter" if launch.kernel.target == "interpreter" else f"SM {sm}"
            self._name("process", number, 0, f"{owner}{place}{unit}", (launch.capture << 24) + (key[1] << 16) + sm)
        return self._numbers[key]

    def slots_of(self, launch: LaunchTrace, rows: I64, start_ns: I64, end_ns: I64) -> dict[int, int]:
        """Header row -> slot of that CTA on its SM."""
        unit = "" if launch.axis.ghz is not None else _CYCLES
        ctas, index = np.unique(rows, return_inverse=True)
        first, last = np.full(len(ctas), np.iinfo(np.int64).max), np.full(len(ctas), np.iinfo(np.int64).min)
        np.minimum.at(first, index, start_ns)
        np.maximum.at(last, index, end_ns)
        found = {}
        for i in np.argsort(first, kind="stable").tolist():
            row = int(ctas[i])
            process = self._processes[self.process(launch, int(launch.headers.sm[row]), unit)]
            found[row] = process.slots.take(int(first[i]), int(last[i]))
        return found

    def thread(self, process: int, slot: int, warp: int, start_ns: int, end_ns: int, is_mark: bool) -> int:
        """Number of the track on which a slice nests: its warp's, or one beside it."""
        lane = 0
        while True:
            number = self._thread(process, slot, warp, lane)
            ends = self._processes[process].open_ends.setdefault(number, [])
            while ends and ends[-1] <= start_ns:
                ends.pop()
            if is_mark:
                return number
            if not ends or end_ns <= ends[-1]:
                ends.append(end_ns)
                return number
            lane += 1

    def _thread(self, process: int, slot: int, warp: int, lane: int) -> int:
        threads = self._processes[process].threads
        key = (slot, warp, lane)
        if key not in threads:
            threads[key] = len(threads) + 1
            beside = f" +{lane}" if lane else ""
            order = (slot << 16) + (warp << 4) + min(lane, 15)
            self._name("thread", process, threads[key], f"slot {slot} warp {warp}{beside}", order)
        return threads[key]

    def new_names(self) -> list[Event]:
        """Names of processes and threads since the last call."""
        names, self._new = self._new, []
        return names

    def _name(self, what: str, process: int, thread: int, text: str, order: int) -> None:
        event = {"ph": "M", "pid": process, "tid": thread}
        self._new.append(event | {"name": f"{what}_name", "args": {"name": text}})
        self._new.append(event | {"name": f"{what}_sort_index", "args": {"sort_index": order}})
