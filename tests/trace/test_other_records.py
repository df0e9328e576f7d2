"""Captures of other metrics and granularities, made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import handmade
import pytest

from kperfir.capture.schema import Kernel
from kperfir.opened import load
from kperfir.records import Layout

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
