"""Captures from an H200: counts follow from grid, warps and trip counts; all SMs meet on one axis."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kperfir.export import export
from kperfir.opened import load
from kperfir.trace import Trace

DATA = Path(__file__).parent.parent / "data"
CTAS = 64


@pytest.fixture(params=["softmax", "layernorm"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return load(DATA / f"{request.param}.kperf")


def _counts(trace: Trace) -> list[int]:
    (launch,) = trace.launches
    return np.bincount(launch.spans.region, minlength=len(launch.kernel.table.regions)).tolist()


def test_every_warp_wrote_every_region() -> None:
    """Softmax: 4 warps, kernel, load, two reductions and a store, no loop."""
    trace = load(DATA / "softmax.kperf")
    assert _counts(trace) == [CTAS * 4] * 5
    assert trace.problems() == ()


def test_a_ring_that_wrapped_keeps_the_end_of_every_warp() -> None:
    """Layer norm: 8 warps; five regions in turn, four times each, in the kernel's: 42 records, of which 32 are kept.

    The ten that are lost are the kernel's start, the first region, and one start of the second.
    """
    trace = load(DATA / "layernorm.kperf")
    (launch,) = trace.launches
    warps = CTAS * 8
    assert (launch.written, launch.kept) == (42 * warps, 32 * warps)
    assert _counts(trace) == [0, 0, 3 * warps, 4 * warps, 4 * warps, 4 * warps]
    assert (launch.cut, launch.unpaired) == ({0: warps, 2: warps}, {})
    (problem,) = trace.problems()
    assert (problem.code, problem.count) == ("overwritten", 10 * warps)
    assert f"'kernel' {warps}, 'load' {warps}" in problem.what
    ends = launch.headers.end_clock[launch.spans.row] - launch.spans.end
    assert np.abs(ends).max() < 20_000, "cycles: the kept tail lies before the CTA's end"


def test_the_axis(trace: Trace) -> None:
    """The pairs of clocks lie within a step of the timer; SM counters themselves differ by far more."""
    (launch,) = trace.launches
    axis = launch.axis
    assert (axis.frequency, axis.step_ns) == ("measured", 32)
    assert axis.ghz == pytest.approx(1.975, rel=0.01)
    assert axis.error_median_ns < axis.error_max_ns < 32
    assert np.ptp(launch.headers.start_clock) > 1_000_000


def test_spans_lie_in_the_kernels_of_their_warps() -> None:
    spans = load(DATA / "softmax.kperf").launches[0].spans
    outer, inner = np.flatnonzero(spans.depth == 0).tolist(), np.flatnonzero(spans.depth == 1).tolist()
    whole = {(spans.row[i], spans.warp[i]): (spans.start[i], spans.end[i]) for i in outer}
    assert len(inner) == 4 * len(outer) == 4 * len(whole)
    for i in inner:
        start, end = whole[spans.row[i], spans.warp[i]]
        assert start <= spans.start[i] <= spans.end[i] <= end


def test_a_process_an_sm_in_the_timeline(trace: Trace, tmp_path: Path) -> None:
    export(trace, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    sms = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sms == {f"SM {sm}" for sm in set(trace.events()["sm"].to_pylist())}
    assert sum(e["ph"] == "X" for e in events) == trace.events().num_rows
    assert max(e["ts"] for e in events if "ts" in e) < 50, "microseconds"
