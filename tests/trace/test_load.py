"""Capture files -> events tables and problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import handmade
import pytest

from kperfir.capture.schema import Kernel
from kperfir.errors import CaptureError
from kperfir.opened import load
from kperfir.trace import EVENTS

SPAN = handmade.span(1100, 1900, (1200, 1300))
LONG = {"clocks": (1000, 2_001_000), "times_ns": (5000, 1_005_000)}  # 2 GHz


def _block(cta: int = 0, **more: object) -> bytes:
    return handmade.block(handmade.LAYOUT, **({"cta": cta, "sm": 3, "warps": [SPAN, SPAN]} | LONG | more))  # type: ignore[arg-type]


def test_events_of_a_launch(tmp_path: Path) -> None:
    marked = [SPAN[0], SPAN[1], (handmade.HERE, 1250), *SPAN[2:]]
    trace = load(handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), _block(warps=[marked, []]))]))
    table = trace.events()
    assert table.schema == EVENTS
    rows = table.select([n for n in EVENTS.names if not n.endswith("_ns")]).to_pylist()
    common = {"capture": 0, "launch": 0, "kernel": "add", "role": "sync", "cta": 0, "sm": 3, "warp": 0, "instance": 0}
    common |= {"ambiguous": False, "iteration": None, "value": None, "end_warp": 0}
    assert rows == [
        common | dict(region_id=0, region="kernel", depth=0, start_clock=1100, end_clock=1900, duration_cycles=800)
        | dict(busy_cycles=800, pieces=1),
        common | dict(region_id=1, region="load", depth=1, start_clock=1200, end_clock=1300, duration_cycles=100)
        | dict(busy_cycles=100, pieces=1),
        common | dict(region_id=2, region="here", depth=2, start_clock=1250, end_clock=1250, duration_cycles=0)
        | dict(busy_cycles=0, pieces=0),
    ]  # fmt: skip
    assert table["start_ns"].to_pylist() == pytest.approx([50, 100, 125])
    assert table["end_ns"].to_pylist() == pytest.approx([450, 150, 125])
    assert table["duration_ns"].to_pylist() == pytest.approx([400, 50, 0])
    assert trace.problems() == ()


def test_chunks_are_one_launch(tmp_path: Path) -> None:
    chunks = [(handmade.launch(0, 3), _block(0) + _block(1)), (handmade.launch(0, 3, first_cta=2), _block(2))]
    trace = load(handmade.write(tmp_path / "a.kperf", chunks))
    assert len(trace.launches) == 1
    assert sorted(set(trace.events()["cta"].to_pylist())) == [0, 1, 2]
    assert trace.problems() == ()


def test_interpreter_times_are_no_cycles(tmp_path: Path) -> None:
    layout = replace(handmade.LAYOUT, warps=1, record_bytes=16, place="host")
    kernel = Kernel(0, "add", "", "interpreter", layout, handmade.TABLE, clock="ns")
    data = handmade.block(layout, warps=[SPAN])
    path = handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), data)], kernel, "interpreter")
    trace = load(path)
    assert trace.is_interpreted
    assert trace.events()["duration_cycles"].null_count == 2
    assert trace.events()["duration_ns"].to_pylist() == [800.0, 100.0]
    assert trace.events()["start_ns"].to_pylist() == [100.0, 200.0]


def test_a_launch_too_short_for_a_frequency_has_no_nanoseconds(tmp_path: Path) -> None:
    data = _block(clocks=(1000, 2000), times_ns=(5000, 5032))
    trace = load(handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), data)]))
    assert trace.events()["duration_cycles"].to_pylist() == [800, 100] * 2
    assert trace.events()["start_ns"].null_count == trace.events()["duration_ns"].null_count == 4
    assert [p.code for p in trace.problems()] == ["unknown-frequency"]


def test_short_launches_take_the_frequency_of_long_ones_of_their_device(tmp_path: Path) -> None:
    short = _block(clocks=(1000, 2000), times_ns=(5000, 5512))
    launches = [(handmade.launch(0, 1), _block()), (handmade.launch(1, 1), short)]
    first, second = load(handmade.write(tmp_path / "a.kperf", launches)).launches
    assert (first.axis.frequency, second.axis.frequency) == ("measured", "combined")
    assert second.axis.ghz == pytest.approx(2, rel=1e-3)
    other = [launches[0], (handmade.launch(1, 1, device=1), short)]
    assert load(handmade.write(tmp_path / "b.kperf", other)).launches[1].axis.frequency == "unknown"


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    many = [(handmade.KERNEL_START, 1010), *([(2, 1020), (3, 1030)] * 4), (handmade.KERNEL_END, 1900)]
    blocks = _block(0, warps=[many, [(handmade.LOAD_START, 1100), (99, 1200)]]) + _block(1, state=1)
    trace = load(handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 4), blocks + b"rest")]))
    counts = {p.code: p.count for p in trace.problems()}
    assert counts.pop("unpaired") == 1
    assert counts == {"rest": 4, "missing-ctas": 2, "unfinished-ctas": 1, "overwritten": 2, "unknown-site": 1}
    said = {p.code: p.what for p in trace.problems()}
    assert "'load'" in said["unpaired"] and "'kernel' 1, 'load' 1" in said["overwritten"]
    assert trace.events().num_rows == 3


def test_processes_of_a_directory(tmp_path: Path) -> None:
    for name in ("1", "2"):
        handmade.write(tmp_path / f"{name}.kperf", [(handmade.launch(0, 1), _block())])
    (tmp_path / "3.kperf").write_bytes(b"no capture")
    trace = load(tmp_path)
    assert trace.events()["capture"].to_pylist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert len(trace.kernels) == 2
    assert [p.code for p in trace.problems()] == ["unreadable-capture"]


def test_no_launch(tmp_path: Path) -> None:
    trace = load(handmade.write(tmp_path / "a.kperf", []))
    assert (trace.launches, trace.events().num_rows, trace.events().schema) == ((), 0, EVENTS)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="There is no file"):
        load(tmp_path / "none")
