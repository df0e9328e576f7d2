"""A kernel that does not end: what it has written is read while it runs."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import kperfir as kp  # noqa: E402
import kperfir.language as kl  # noqa: E402
from kperfir.analysis.standing import standing  # noqa: E402

CTAS, WARPS, BLOCK = 8, 4, 512
SPINS = 20_000_000  # of several hundred cycles: it ends by itself after some seconds
UNFINISHED = "It had not finished 0.5 s after it was launched."


@triton.jit
def wait_for_flag(flag, out, turns, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for i in range(turns):
        with kl.scope("before"):
            tl.store(out + at, at + i)
    with kl.scope("spin"):
        n = 0
        while (n < limit) & (tl.load(flag, volatile=True) == 0):
            n += 1
        tl.store(out + at, at + n)
    with kl.scope("after"):
        tl.store(out + tl.num_programs(0) * BLOCK + at, at)


def launch(path: Path, turns: int, look: Any, **knobs: Any) -> Any:
    """Launch, look at the capture while the kernel spins, release it, and return the whole trace."""
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.zeros(2 * CTAS * BLOCK, dtype=torch.int32, device="cuda")
    beside = torch.cuda.Stream()
    with torch.cuda.stream(beside):
        flag.fill_(1)  # what releases the kernel is loaded before it runs
    beside.synchronize()
    wait_for_flag[(CTAS,)](flag, out, turns, SPINS, BLOCK, num_warps=WARPS)
    flag.zero_()
    torch.cuda.synchronize()
    plan = {"regions": "kernel", "buffer": "host", "hang_timeout_s": 0.5} | knobs
    with kp.record(path, **plan):
        wait_for_flag[(CTAS,)](flag, out, turns, SPINS, BLOCK, num_warps=WARPS)
        until = time.monotonic() + 4
        while time.monotonic() < until and not kp.load(path).launches:
            time.sleep(0.05)
        looked = kp.load(path)
        look(looked)
        with torch.cuda.stream(beside):
            flag.fill_(1)
        beside.synchronize()
        torch.cuda.synchronize()
    assert (out[CTAS * BLOCK :] == torch.arange(CTAS * BLOCK, device="cuda", dtype=torch.int32)).all()
    return kp.load(path)


def test_where_the_warps_of_a_spinning_kernel_stand(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(trace: Any) -> None:
        (launch,) = trace.launches
        seen.append(launch)
        assert launch.launch.unfinished == UNFINISHED
        stands = standing(launch)
        assert [(s.cta, s.warp) for s in stands] == [(cta, warp) for cta in range(CTAS) for warp in range(WARPS)]
        places = Counter((s.regions, s.last_kind, s.last_region) for s in stands)
        assert places == {(("kernel", "spin"), "start", "spin"): CTAS * WARPS}
        assert launch.written == CTAS * WARPS * (1 + 2 * 3 + 1)
        table = str(trace.summary()).split("where its warps stood")[1].splitlines()
        assert table[2].split()[2:9] == ["0", "0-7", "0-3", "kernel", ">", "spin", "start"]

    trace = launch(tmp_path / "x.kperf", 3, look)
    assert seen, "it was looked at while it ran"
    (whole,) = trace.launches
    assert not whole.launch.unfinished and len(whole.standing.row) == 0
    assert whole.written == whole.kept == CTAS * WARPS * (2 + 2 * 3 + 2 + 2)
    assert Counter(e["region"] for e in trace.events().to_pylist()) == {
        "kernel": CTAS * WARPS,
        "before": CTAS * WARPS * 3,
        "spin": CTAS * WARPS,
        "after": CTAS * WARPS,
    }
    assert "never finished" not in str(trace.summary())


@pytest.mark.parametrize("metric", ["clock64", "time"])
def test_a_ring_that_came_round(tmp_path: Path, metric: str) -> None:
    """1 + 2 * 50 + 1 records, in 16 slots."""

    def look(trace: Any) -> None:
        (launch,) = trace.launches
        stands = standing(launch)
        assert Counter((s.regions, s.last_kind, s.last_region) for s in stands) == {
            (("kernel", "spin"), "start", "spin"): CTAS * WARPS
        }
        assert launch.kept == CTAS * WARPS * 16
        spans = Counter(e["region"] for e in trace.events().to_pylist())
        assert spans == {"before": CTAS * WARPS * 7}, "the end of an eighth is left, without its start"

    trace = launch(tmp_path / "x.kperf", 50, look, slots=16, metric=metric)
    (whole,) = trace.launches
    assert whole.written == CTAS * WARPS * (2 + 2 * 50 + 2 + 2) and whole.kept == CTAS * WARPS * 16


def test_a_kernel_that_ends_is_as_in_global_memory(tmp_path: Path) -> None:
    """Count by count; and the end times of its header are those of its last warps."""
    flag = torch.ones(1, dtype=torch.int32, device="cuda")
    out = torch.zeros(2 * CTAS * BLOCK, dtype=torch.int32, device="cuda")
    found = {}
    for buffer in ("global", "host"):
        path = tmp_path / f"{buffer}.kperf"
        with kp.record(path, regions="kernel", buffer=buffer, metric="clock64"):
            wait_for_flag[(CTAS,)](flag, out, 5, SPINS, BLOCK, num_warps=WARPS)
            torch.cuda.synchronize()
        trace = kp.load(path)
        (launch,) = trace.launches
        events = trace.events().to_pylist()
        found[buffer] = (launch.written, Counter((e["cta"], e["warp"], e["region"]) for e in events))
        print([str(p) for p in trace.problems()])
        # ptxas may move what a scope here holds; where the records lie changes nothing of that
        assert {p.code for p in trace.problems()} <= {"unknown-frequency", "fidelity"}
        assert launch.headers.finished.all()
        ends = {int(c): int(e) for c, e in zip(launch.headers.cta, launch.headers.end_clock, strict=True)}
        assert all(ends[e["cta"]] >= e["end_clock"] for e in events)
    assert found["host"] == found["global"]
