"""Records that carry scalars, by hand-made bytes: values of each type, and events paired by their ids."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import handmade
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kperfir.capture.schema import Kernel
from kperfir.opened import OpenedTrace, load
from kperfir.records import Layout, Region, Site, Table
from kperfir.trace.async_pairs import event_partners

TABLE = Table(
    (
        Region(0, "count", origin="value", line=1, scalar="int32"),
        Region(1, "size", origin="value", line=2, scalar="uint32"),
        Region(2, "scale", origin="value", line=3, scalar="float32"),
        Region(3, "copy", origin="event", line=4, scalar="int32"),
    ),
    (
        Site(0, 0, "value"), Site(1, 1, "value"), Site(2, 2, "value"),
        Site(3, 3, "start"), Site(4, 3, "end"), Site(5, 3, "end"),
    ),
)  # fmt: skip
COUNT, SIZE, SCALE, BEGIN, END, END_ELSEWHERE = range(6)
LAYOUT = Layout(2, 8, "global", 16)


def word(site: int, value: float) -> int:
    """The first two words of a record: its site, and a scalar above."""
    form = "<f" if site == SCALE else "<I" if site == SIZE else "<i"
    return site | int.from_bytes(struct.pack(form, value), "little") << 32


def read(folder: Path, *ctas: list[list[tuple[int, float, int]]], layout: Layout = LAYOUT) -> OpenedTrace:
    """A trace of (site, scalar, clock) of each warp of each CTA."""
    kernel = Kernel(0, "add", "h", "cuda:90", layout, TABLE)
    blocks = [
        handmade.block(layout, cta, warps=[[(word(s, v), c) for s, v, c in warp] for warp in warps])
        for cta, warps in enumerate(ctas)
    ]
    return load(handmade.write(folder / "a", [(handmade.launch(0, len(ctas)), b"".join(blocks))], kernel))


def rows(trace: OpenedTrace, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[n] for n in names) for row in trace.events().to_pylist()]


def test_values_of_each_type(tmp_path: Path) -> None:
    warp = [(COUNT, -3, 1100), (SIZE, 2**32 - 1, 1200), (SCALE, 0.1, 1300), (SCALE, math.inf, 1400)]
    trace = read(tmp_path, [warp])
    single = float(np.float32(0.1))
    assert rows(trace, "region", "value", "start_clock", "duration_cycles", "pieces", "iteration") == [
        ("count", -3.0, 1100, 0, 0, None),
        ("size", 4294967295.0, 1200, 0, 0, None),
        ("scale", single, 1300, 0, 0, None),
        ("scale", math.inf, 1400, 0, 0, None),
    ]
    assert {p.code for p in trace.problems()} <= {"unknown-frequency"}  # the launch is short
    regions = trace.summary().kernels[0].regions
    assert [(r.values.scalar, r.values.least, r.values.greatest) for r in regions if r.values] == [
        ("int32", -3, -3),
        ("uint32", 4294967295, 4294967295),
        ("float32", single, math.inf),
    ]
    report = str(trace.summary())
    assert "4294967295" in report and "0.100000001" in report
    trace.export(tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    shown = [(e["ph"], e["args"]["value"]) for e in events if e["ph"] != "M"]
    assert shown == [("i", -3), ("i", 4294967295), ("i", single), ("i", "inf")]


def test_events_cross_warps_and_each_other(tmp_path: Path) -> None:
    first = [(BEGIN, 7, 1100), (BEGIN, 8, 1200), (END, 8, 1500)]
    second = [(END_ELSEWHERE, 7, 1400)]
    trace = read(tmp_path, [first, second], [[(BEGIN, 7, 1900)], [(END, 7, 1950)]])
    assert rows(trace, "region", "value", "cta", "warp", "end_warp", "duration_cycles") == [
        ("copy", 7, 0, 0, 1, 300),
        ("copy", 8, 0, 0, 0, 300),
        ("copy", 7, 1, 0, 1, 50),
    ]
    assert {p.code for p in trace.problems()} <= {"unknown-frequency"}  # the launch is short
    region = trace.summary().kernels[0].regions[3]
    assert (region.count, region.total, region.share, region.values) == (3, 650, None, None)
    trace.export(tmp_path / "x.json")
    events = [e for e in json.loads((tmp_path / "x.json").read_text())["traceEvents"] if e["ph"] != "M"]
    assert [e["ph"] for e in events] == ["b", "e"] * 3
    begins, ends = events[::2], events[1::2]
    assert [e["id"] for e in begins] == [e["id"] for e in ends] and len({e["id"] for e in begins}) == 3
    assert [e["args"]["value"] for e in begins] == [7, 8, 7]


def test_an_id_used_again_pairs_in_the_order_of_time(tmp_path: Path) -> None:
    warp = [(BEGIN, 0, 1100), (BEGIN, 0, 1200), (END, 0, 1300), (END, 0, 1500), (BEGIN, 0, 1600), (END, 0, 1650)]
    assert rows(read(tmp_path, [warp]), "start_clock", "end_clock") == [(1100, 1300), (1200, 1500), (1600, 1650)]


def test_events_without_partner_are_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, [[(END, 1, 1050), (BEGIN, 1, 1100)], [(BEGIN, 2, 1100), (END, 3, 1200)]])
    assert trace.events().num_rows == 0
    assert [(p.code, p.count) for p in trace.problems() if p.code != "unknown-frequency"] == [("unpaired", 4)]


def test_an_event_whose_start_another_warp_overwrote_is_cut(tmp_path: Path) -> None:
    many = [(BEGIN, n, 1100 + n) for n in range(9)]  # of nine the ring keeps eight
    trace = read(tmp_path, [many, [(END, n, 1200 + n) for n in range(8)]])
    assert [row[0] for row in rows(trace, "value")] == [1, 2, 3, 4, 5, 6, 7]
    codes = {p.code: p for p in trace.problems()}
    assert "unpaired" not in codes and "'copy' 2" in codes["overwritten"].what


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 9), st.booleans()), max_size=60))
def test_pairs_are_those_of_queues(records: list[tuple[int, int, int, bool]]) -> None:
    """Of each CTA and id a queue of starts: an end takes the oldest."""
    order = sorted(range(len(records)), key=lambda i: (records[i][2], not records[i][3]))
    waiting: dict[tuple[int, int], list[int]] = {}
    expected = set()
    for i in order:
        cta, number, _, opens = records[i]
        queue = waiting.setdefault((cta, number), [])
        if opens:
            queue.append(i)
        elif queue:
            expected.add((queue.pop(0), i))
    columns = [np.array([r[c] for r in records], np.int64) for c in range(3)]
    opening = np.array([r[3] for r in records], np.bool_)
    starts, ends = event_partners((columns[1], columns[0]), columns[2], opening)
    assert set(zip(starts.tolist(), ends.tolist(), strict=True)) == expected


@pytest.mark.parametrize("place", ["host"])
def test_an_event_that_is_open_when_its_launch_hangs_is_no_problem(place: Any, tmp_path: Path) -> None:
    layout = Layout(2, 8, place, 16)
    kernel = Kernel(0, "add", "h", "cuda:90", layout, TABLE)
    warps = [[(word(BEGIN, 5), 1100)], [(word(COUNT, 1), 1200)]]
    data = handmade.block(layout, warps=warps, state=1, hanging=(0, 1))
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1, unfinished="It hangs."), data)], kernel))
    assert "unpaired" not in [p.code for p in trace.problems()]
    assert [stand.regions for stand in trace.summary().standing] == [(), ()]
