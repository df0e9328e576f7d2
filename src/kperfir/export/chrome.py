"""Chrome's trace format, which Perfetto opens: a process an SM, a track a warp.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
CTAs that are resident on an SM at once get tracks of their own; one that starts after
another has ended takes its place. Launches lie one behind the other, in the order in
which they were enqueued, with a gap between them; times inside a launch are real.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kperfir.trace import LaunchTrace, Trace

MAX_EVENTS = 2_000_000
_GAP_NS = 1000.0
_TRACKS_PER_PLACE = 64


def write(trace: Trace, path: Path) -> None:
    """Plain JSON."""
    with path.open("w", encoding="utf-8") as out:
        _write(trace, out)


def write_compressed(trace: Trace, path: Path) -> None:
    """JSON, compressed by gzip."""
    with gzip.open(path, "wt", encoding="utf-8") as out:
        _write(trace, out)


def _write(trace: Trace, out: IO[str]) -> None:
    notes = {"producer": "kperfir", "times": "interpreter" if trace.is_interpreted else "gpu, raw"}
    out.write('{"displayTimeUnit":"ns","traceEvents":[')
    left_out = 0
    separator = ""
    for number, event in enumerate(_events(trace)):
        if number >= MAX_EVENTS:
            left_out += 1
            continue
        out.write(separator + json.dumps(event, separators=(",", ":")))
        separator = ",\n"
    if left_out:
        notes["left_out_events"] = str(left_out)
    out.write(f'],"otherData":{json.dumps(notes)}}}')


def _events(trace: Trace) -> Iterator[dict[str, Any]]:
    offset_ns = 0.0
    named: set[tuple[int, int]] = set()
    for launch in trace.launches:
        length_ns = 0.0
        for event in _launch(launch, offset_ns, named):
            length_ns = max(length_ns, event.get("ts", 0.0) * 1000 + event.get("dur", 0.0) * 1000 - offset_ns)
            yield event
        offset_ns += length_ns + _GAP_NS


def _launch(launch: LaunchTrace, offset_ns: float, named: set[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Spans of one launch; where no nanoseconds are known, cycles of each SM stand for them, and the names say so."""
    table = launch.table
    if not table.num_rows:
        return
    sm, cta, warp = (table[n].to_numpy() for n in ("sm", "cta", "warp"))
    known = table["start_ns"].null_count == 0
    start, end = (table[n].to_numpy() for n in (("start_ns", "end_ns") if known else ("start_clock", "end_clock")))
    if not known:
        first = {int(s): int(start[sm == s].min()) for s in np.unique(sm)}
        base = np.array([first[int(s)] for s in sm])
        start, end = start - base, end - base
    early = max(0.0, -float(start.min()))
    start, end = start + early, end + early
    places = _places(sm, cta, start, end)
    names, roles = table["region"].to_pylist(), table["role"].to_pylist()
    regions = {r.id: r for r in launch.kernel.table.regions}
    ids = table["region_id"].to_pylist()
    unit = "" if known else " (cycles, not ns)"
    for i in range(table.num_rows):
        process, thread = int(sm[i]), places[int(cta[i])] * _TRACKS_PER_PLACE + int(warp[i])
        if (process, -1) not in named:
            named.add((process, -1))
            yield _name("process_name", process, 0, f"SM {process}{unit}")
        if (process, thread) not in named:
            named.add((process, thread))
            yield _name("thread_name", process, thread, f"CTA slot {places[int(cta[i])]} warp {int(warp[i])}")
        event: dict[str, Any] = {
            "name": names[i],
            "cat": launch.kernel.name,
            "pid": process,
            "tid": thread,
            "ts": round((offset_ns + float(start[i])) / 1000, 6),
            "args": {"cta": int(cta[i]), "launch": launch.launch.number, "role": roles[i]},
        }
        region = regions[ids[i]]
        if region.file:
            event["args"]["source"] = f"{region.file}:{region.line}"
        if region.origin == "mark":
            yield event | {"ph": "i", "s": "t"}
        else:
            yield event | {"ph": "X", "dur": round(float(end[i] - start[i]) / 1000, 6)}


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}}


def _places(sm: np.ndarray, cta: np.ndarray, start: np.ndarray, end: np.ndarray) -> dict[int, int]:
    """Track group of every CTA: the lowest on its SM that is free when it starts."""
    spans: dict[int, tuple[int, float, float]] = {}
    for c, s, b, e in zip(cta.tolist(), sm.tolist(), start.tolist(), end.tolist(), strict=True):
        old = spans.get(c)
        spans[c] = (s, min(b, old[1]), max(e, old[2])) if old else (s, b, e)
    free: dict[int, list[float]] = {}
    places: dict[int, int] = {}
    for c, (s, b, e) in sorted(spans.items(), key=lambda item: item[1][1]):
        ends = free.setdefault(s, [])
        place = next((i for i, until in enumerate(ends) if until <= b), len(ends))
        if place == len(ends):
            ends.append(e)
        ends[place] = e
        places[c] = place
    return places
