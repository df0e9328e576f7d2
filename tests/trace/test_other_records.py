"""Captures of other metrics and granularities, made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import handmade
import pytest

from kperfir.capture.schema import Kernel
from kperfir.opened import load
from kperfir.records import Layout, Place

CLOCKS = {"clocks": (7_000_000, 7_001_000), "times_ns": (50_000, 50_500)}


def test_records_of_global_time_are_nanoseconds(tmp_path: Path) -> None:
    """The header's clocks are cycles all the same; the share is of its times."""
    layout = Layout(1, 8, "global", 16)
    kernel = Kernel(0, "add", "h", "cuda:90", layout, handmade.TABLE, clock="ns")
    data = handmade.block(layout, sm=3, warps=[handmade.span(50_100, 50_350)], **CLOCKS)
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1), data)], kernel))
    (row,) = trace.events().to_pylist()
    assert (row["start_ns"], row["end_ns"], row["duration_ns"], row["duration_cycles"]) == (100, 350, 250, None)
    (summary,) = trace.summary().kernels
    assert summary.unit == "ns" and summary.regions[0].share == pytest.approx(0.5)
    assert "total ns" in str(trace.summary()) and not trace.is_interpreted
    assert [p.code for p in trace.problems()] == []


def codes(layout: Layout, took_cycles: int, folder: Path) -> list[str]:
    """Problems of a launch of one CTA that took so long."""
    kernel = Kernel(0, "add", "h", "cuda:90", layout, handmade.TABLE)
    warps = [] if layout.holds_addresses else [handmade.span(10, took_cycles - 10)]
    data = handmade.block(layout, clocks=(0, took_cycles), times_ns=(0, took_cycles), warps=warps)
    trace = load(handmade.write(folder / f"{took_cycles}", [(handmade.launch(0, 1), data)], kernel))
    return [p.code for p in trace.problems()]


@pytest.mark.parametrize(
    ("place", "record_bytes", "took_cycles"), [("global", 8, 1 << 30), ("global", 16, 1 << 29), ("host", 16, 1 << 29)]
)
def test_a_count_of_records_may_come_round_after_so_many_cycles(
    place: Place, record_bytes: int, took_cycles: int, tmp_path: Path
) -> None:
    """4 GiB of records of one warp, two instructions each."""
    layout = Layout(1, 8, place, record_bytes)
    assert codes(layout, took_cycles, tmp_path) == ["long-count"] and codes(layout, took_cycles - 1, tmp_path) == []


def test_a_count_of_accesses_has_room_for_more(tmp_path: Path) -> None:
    assert codes(Layout(1, 8, "global", 256, wraps=False, lanes=32), 1 << 30, tmp_path) == []


@pytest.mark.parametrize("step", [1, 2, 4])
def test_rings_of_each_so_many_warps(step: int, tmp_path: Path) -> None:
    layout = replace(handmade.LAYOUT, warp_step=step)
    kernel = Kernel(0, "add", "h", "cuda:90", layout, handmade.TABLE)
    data = handmade.block(layout, warps=[handmade.span(1100, 1900), handmade.span(1200, 1800)])
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1), data)], kernel))
    assert trace.events()["warp"].to_pylist() == [0, step]
    assert f"warp {step}" in trace_text(trace, tmp_path)


def trace_text(trace: object, folder: Path) -> str:
    trace.export(folder / "t.json")  # type: ignore[attr-defined]
    return (folder / "t.json").read_text()


def test_versions_are_iterations_of_the_sites_that_have_them(tmp_path: Path) -> None:
    layout = Layout(1, 8, "global", 16)
    sites = tuple(replace(site, versioned=site.region == 1) for site in handmade.TABLE.sites)
    kernel = Kernel(0, "add", "h", "cuda:90", layout, replace(handmade.TABLE, sites=sites))
    start, end = handmade.LOAD_START, handmade.LOAD_END
    words = [(0, 100), *((s | turn << 32, 200 + 10 * turn + s) for turn in (3, 4) for s in (start, end)), (1, 900)]
    data = handmade.block(layout, warps=[words], clocks=(50, 1000), times_ns=(50, 1000))
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1), data)], kernel))
    rows = [(row["region"], row["iteration"]) for row in trace.events().to_pylist()]
    assert rows == [("kernel", None), ("load", 3), ("load", 4)]


def test_narrow_records_have_no_version(tmp_path: Path) -> None:
    sites = tuple(replace(site, versioned=True) for site in handmade.TABLE.sites)
    kernel = Kernel(0, "add", "h", "cuda:90", handmade.LAYOUT, replace(handmade.TABLE, sites=sites))
    data = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)])
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1), data)], kernel))
    assert trace.events()["iteration"].to_pylist() == [None]


def test_records_that_found_no_slot_are_the_newest(tmp_path: Path) -> None:
    """The first eight of twenty are there; the kernel's end is not, so its span is left out."""
    layout = Layout(1, 8, "global", wraps=False)
    kernel = Kernel(0, "add", "h", "cuda:90", layout, handmade.TABLE)
    words = [(0, 100), *[w for i in range(9) for w in [(2, 1000 * i + 200), (3, 1000 * i + 700)]], (1, 99_000)]
    long_ring = Layout(1, 32, "global")
    whole = handmade.block(long_ring, warps=[words], clocks=(50, 100_000), times_ns=(50, 50_050))
    data = bytearray(handmade.block(layout, warps=[[]], clocks=(50, 100_000), times_ns=(50, 50_050)))
    data[64:68] = len(words).to_bytes(4, "little")
    data[layout.rings_offset_bytes :] = whole[long_ring.rings_offset_bytes :][: layout.ring_bytes]
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1), bytes(data))], kernel))
    (launch,) = trace.launches
    assert (launch.written, launch.kept, launch.unpaired, launch.cut) == (20, 8, {}, {0: 1, 1: 1})
    assert trace.events()["start_clock"].to_pylist() == [200, 1200, 2200]
    (problem,) = (p for p in trace.problems() if p.code == "dropped")
    assert "12 of 20 records found no slot: a warp has 8" in problem.what and "whose end" in problem.what
    assert problem.cure == "32 slots would keep all."
    region = trace.summary().kernels[0].regions[1]
    assert region.share == pytest.approx(1500 / (3200 - 50))
    assert "12 dropped" in str(trace.summary())
