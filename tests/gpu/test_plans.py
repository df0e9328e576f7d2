"""Granularity, metric and windows on a GPU: exactly the records that grid and plan predict, no other bit changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import kperfir as kp  # noqa: E402
from kperfir.plan import Plan  # noqa: E402

CTAS, WARPS, TURNS = 300, 8, 5


@triton.jit
def add_often(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for i in range(n):
        value += tl.load(x + at + i)
    tl.store(out + at, value)


RECORDS_A_WARP = 2 + 2 * TURNS  # the kernel and a load in its loop
KNOBS: dict[str, dict[str, Any]] = {
    "clock64": {"metric": "clock64"},
    "time": {"metric": "time"},
    "each second": {"granularity": 2},
    "each third": {"granularity": 3},
    "warp group": {"granularity": "warp-group"},
    "cta": {"granularity": "cta"},
    "ctas": {"ctas": "0-7+0-:100"},
    "one cta": {"ctas": "299"},
    "sms": {"sms": "0-10+50-:7"},
    "warps": {"warps": "1-2+7"},
    "none": {"warps": "none"},
    "all of it": {"granularity": 2, "metric": "time", "ctas": "100-", "sms": "0-:2", "warps": "0-5"},
}


def inputs() -> Any:
    return torch.randn(CTAS * 1024 + 4096, device="cuda")


def writers_of(plan: Plan) -> list[int]:
    step = plan.warps_per_writer or WARPS
    return [w for w in range(WARPS) if w % step == 0 and w in plan.warps]


@pytest.mark.parametrize("buffer", ["shared", "global", "stack", "host"])
@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS.keys())
def test_exactly_what_the_plan_says_is_recorded(knobs: dict[str, Any], buffer: str, tmp_path: Path) -> None:
    x = inputs()
    plain, recorded = torch.zeros_like(x), torch.zeros_like(x)
    add_often[(CTAS,)](x, plain, TURNS, 1024, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", buffer=buffer, slots=32, **knobs):
        add_often[(CTAS,)](x, recorded, TURNS, 1024, num_warps=WARPS)
    assert torch.equal(plain, recorded)
    trace = kp.load(tmp_path / "x.kperf")
    (launch,) = trace.launches
    plan = Plan.parse(trace.captures[0].session.plan)
    assert (launch.missing_ctas, launch.unfinished_ctas) == (0, 0)
    assert launch.unpaired == {} and launch.kept == launch.written
    step, warps = launch.kernel.layout.warp_step, writers_of(plan)
    chosen = {
        (cta, warp)
        for cta, sm in zip(launch.headers.cta.tolist(), launch.headers.sm.tolist(), strict=True)
        for warp in warps
        if cta in plan.ctas and sm in plan.sms
    }
    found = {
        (int(launch.headers.cta[row]), int(ring) * step): int(launch.written_by_warp[row, ring])
        for row, ring in np.argwhere(launch.written_by_warp)
    }
    assert found == {who: RECORDS_A_WARP for who in chosen}
    events = trace.events().to_pandas()
    assert set(zip(events["cta"], events["warp"], strict=True)) == chosen
    assert len(events) == len(chosen) * (1 + TURNS)
    if knobs != KNOBS["none"]:
        assert chosen, "this test has something to see"


@pytest.mark.parametrize("buffer", ["shared", "global", "stack", "host"])
def test_a_ring_that_came_round_keeps_the_newest(buffer: str, tmp_path: Path) -> None:
    """12 records in 8 slots: the last three loads are whole, the end of one before them and of the kernel are not."""
    x = inputs()
    out = torch.zeros_like(x)
    with kp.record(tmp_path / "x.kperf", buffer=buffer, slots=8):
        add_often[(CTAS,)](x, out, TURNS, 1024, num_warps=WARPS)
    trace = kp.load(tmp_path / "x.kperf")
    (launch,) = trace.launches
    assert launch.kernel.layout.place == buffer
    assert (launch.written, launch.kept) == (CTAS * WARPS * RECORDS_A_WARP, CTAS * WARPS * 8)
    events = trace.events().to_pandas()
    assert (events.groupby(["cta", "warp"]).size() == 3).all() and len(events) == CTAS * WARPS * 3
    assert set(events["region"]) == {"load"} and sum(launch.cut.values()) == CTAS * WARPS * 2
    assert launch.unpaired == {} and launch.unknown_sites == 0


def test_metrics_agree(tmp_path: Path) -> None:
    """The same kernel by three metrics: spans of kernels agree in nanoseconds, 64-bit clocks lie in their headers."""
    x = inputs()
    out = torch.zeros_like(x)
    medians = {}
    for metric in ("clock32", "clock64", "time"):
        path = tmp_path / f"{metric}.kperf"
        with kp.record(path, metric=metric, first=20, every=0):
            for _ in range(20):
                add_often[(CTAS,)](x, out, 2000, 1024, num_warps=WARPS)
        trace = kp.load(path)
        assert [p.code for p in trace.problems() if p.code != "overwritten"] == []
        events = trace.events().to_pandas()
        loads = events[(events["region"] == "load")]
        medians[metric] = (loads["duration_ns"].mean(), len(loads))
        launch = trace.launches[-1]
        rows = launch.spans.row
        assert (launch.spans.start >= launch.headers.start_clock[rows] - (1 << 20)).all()
        assert (launch.spans.end <= launch.headers.end_clock[rows] + (1 << 20)).all()
    ns = [mean for mean, _ in medians.values()]
    assert max(ns) < 1.5 * min(ns), medians


SUMS: dict[str, dict[str, Any]] = {
    "every warp": {},
    "64 bits": {"metric": "clock64"},
    "time": {"metric": "time", "granularity": "warp-group"},
    "chosen": {"ctas": "0-:3", "warps": "0-1"},
}


@pytest.mark.parametrize("buffer", ["auto", "global"])
@pytest.mark.parametrize("knobs", SUMS.values(), ids=SUMS.keys())
def test_sums_count_exactly_and_agree_with_records(buffer: str, knobs: dict[str, Any], tmp_path: Path) -> None:
    x = inputs()
    plain, summed = torch.zeros_like(x), torch.zeros_like(x)
    add_often[(CTAS,)](x, plain, TURNS, 1024, num_warps=WARPS)
    with kp.record(tmp_path / "s.kperf", strategy="aggregate", buffer=buffer, **knobs):
        add_often[(CTAS,)](x, summed, TURNS, 1024, num_warps=WARPS)
    assert torch.equal(plain, summed)
    trace = kp.load(tmp_path / "s.kperf")
    assert [p.code for p in trace.problems()] == []
    (launch,) = trace.launches
    plan, step = Plan.parse(trace.captures[0].session.plan), launch.kernel.layout.warp_step
    regions = {r.name: r.id for r in launch.kernel.table.regions}
    for row, cta in enumerate(launch.headers.cta.tolist()):
        for ring in range(launch.kernel.layout.warps):
            writes = cta in plan.ctas and ring * step in plan.warps
            assert launch.sums.count[row, ring, regions["kernel"]] == writes
            assert launch.sums.count[row, ring, regions["load"]] == (TURNS if writes else 0)
    assert launch.kernel.layout.place == ("shared" if buffer == "auto" else "global")
    sums = launch.sums
    some = sums.count > 0
    assert (sums.least <= sums.greatest).all()
    assert knobs.get("metric") == "time" or (sums.least[some] > 0).all(), "but the global timer goes in steps"
    assert (sums.total >= sums.least * sums.count).all() and (sums.total <= sums.greatest * sums.count).all()
    whole = sums.total[:, :, regions["kernel"]]
    length = (launch.headers.end_clock - launch.headers.start_clock)[:, None]
    assert (whole <= length + 1000).all() and (whole[some[:, :, regions["kernel"]]] > 0).all()
    assert "added up" in str(trace.summary())


@pytest.mark.parametrize("buffer", ["shared", "global"])
@pytest.mark.parametrize("iterations", ["all", "0-1", "1-:2", "none", "last-2", "0+last-1", "last-99"])
@pytest.mark.parametrize("version", ["none", "iteration"])
def test_turns_of_loops(version: str, iterations: str, buffer: str, tmp_path: Path) -> None:
    x = inputs()
    plain, recorded = torch.zeros_like(x), torch.zeros_like(x)
    add_often[(CTAS,)](x, plain, TURNS, 1024, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", buffer=buffer, slots=32, version=version, iterations=iterations):
        add_often[(CTAS,)](x, recorded, TURNS, 1024, num_warps=WARPS)
    assert torch.equal(plain, recorded)
    trace = kp.load(tmp_path / "x.kperf")
    (launch,) = trace.launches
    windows = Plan.make("auto", iterations=iterations).iterations
    turns = [t for t in range(TURNS) if windows.hold(t, TURNS - 1 - t)]
    assert (launch.written_by_warp == 2 + 2 * len(turns)).all() and launch.unpaired == {}
    events = trace.events().to_pandas()
    assert (events[events["region"] == "kernel"].groupby(["cta", "warp"]).size() == 1).all()
    loads = events[events["region"] == "load"].sort_values(["cta", "warp", "start_clock"])
    assert len(loads) == CTAS * WARPS * len(turns)
    if version == "iteration":
        assert loads["iteration"].tolist() == turns * (CTAS * WARPS)
        assert events[events["region"] == "kernel"]["iteration"].isna().all()
    elif iterations == "all":
        assert events["iteration"].isna().all()


@pytest.mark.parametrize("iterations", ["0-:2", "0+last-2"])
def test_sums_of_chosen_turns(iterations: str, tmp_path: Path) -> None:
    x = inputs()
    out = torch.zeros_like(x)
    with kp.record(tmp_path / "x.kperf", strategy="aggregate", iterations=iterations):
        add_often[(CTAS,)](x, out, TURNS, 1024, num_warps=WARPS)
    (kernel,) = kp.load(tmp_path / "x.kperf").summary().kernels
    assert {r.name: r.count for r in kernel.regions} == {"kernel": CTAS * WARPS, "load": CTAS * WARPS * 3}


@pytest.mark.parametrize("slots", [0, 8])
def test_flushed_records_are_the_first(slots: int, tmp_path: Path) -> None:
    x = inputs()
    plain, recorded = torch.zeros_like(x), torch.zeros_like(x)
    add_often[(CTAS,)](x, plain, TURNS, 1024, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", strategy="flush", slots=slots):
        add_often[(CTAS,)](x, recorded, TURNS, 1024, num_warps=WARPS)
    assert torch.equal(plain, recorded)
    trace = kp.load(tmp_path / "x.kperf")
    (launch,) = trace.launches
    assert (launch.written_by_warp == RECORDS_A_WARP).all() and launch.unpaired == {}
    kept = min(slots or 1024, RECORDS_A_WARP)
    assert launch.kept == kept * CTAS * WARPS
    events = trace.events().to_pandas()
    loads = (kept - 1) // 2
    assert (events[events["region"] == "load"].groupby(["cta", "warp"]).size() == min(loads, TURNS)).all()
    assert len(events[events["region"] == "kernel"]) == (CTAS * WARPS if kept == RECORDS_A_WARP else 0)
    assert ("dropped" in {p.code for p in trace.problems()}) == (kept < RECORDS_A_WARP)
