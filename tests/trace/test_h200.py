"""Captures from an H200: counts follow from grid, warps and trip counts; all SMs meet on one axis."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kperfir.export import export
from kperfir.trace import Trace, load

DATA = Path(__file__).parent.parent / "data"
CTAS = 64


@pytest.fixture(params=["softmax", "layernorm"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return load(DATA / f"{request.param}.kperf")


def test_every_warp_wrote_every_region(trace: Trace) -> None:
    """Softmax: 4 warps, no loop. Layer norm: 8 warps, loops of 4 iterations."""
    (launch,) = trace.launches
    warps, iterations = {"softmax": (4, 1), "layernorm": (8, 4)}[launch.kernel.name]
    counts = np.bincount(launch.spans.region)
    assert counts.tolist() == [CTAS * warps] + [CTAS * warps * iterations] * (len(counts) - 1)
    assert len(counts) == len(launch.kernel.table.regions) == {"softmax": 5, "layernorm": 6}[launch.kernel.name]
    assert trace.problems() == ()


def test_the_axis(trace: Trace) -> None:
    """The pairs of clocks lie within a step of the timer; SM counters themselves differ by far more."""
    (launch,) = trace.launches
    axis = launch.axis
    assert (axis.frequency, axis.step_ns) == ("measured", 32)
    assert axis.ghz == pytest.approx(1.975, rel=0.01)
    assert axis.error_median_ns < axis.error_max_ns < 32
    assert np.ptp(launch.headers.start_clock) > 1_000_000


def test_spans_lie_in_the_kernels_of_their_warps(trace: Trace) -> None:
    spans = trace.launches[0].spans
    whole = {
        (r, w): (s, e) for r, w, d, s, e in zip(spans.row, spans.warp, spans.depth, spans.start, spans.end) if not d
    }
    inner = np.flatnonzero(spans.depth > 0)
    for i in inner.tolist():
        start, end = whole[spans.row[i], spans.warp[i]]
        assert start <= spans.start[i] <= spans.end[i] <= end
    assert len(inner) + len(whole) == len(spans.row)


def test_a_process_an_sm_in_the_timeline(trace: Trace, tmp_path: Path) -> None:
    export(trace, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    sms = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sms == {f"SM {sm}" for sm in set(trace.events()["sm"].to_pylist())}
    assert sum(e["ph"] == "X" for e in events) == trace.events().num_rows
    assert max(e["ts"] for e in events if "ts" in e) < 50, "microseconds"
