"""Values and events on a GPU: exactly those that the kernel computed, in every warp. Written without a GPU."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[1] / "bridge"))

import value_kernels as k  # noqa: E402

import kperfir as kp  # noqa: E402

TURNS, BLOCK, WARPS, CTAS = 5, 1024, 4, 3


def recorded(path: Path, kernel: Any, **options: Any) -> list[dict[str, Any]]:
    x = torch.rand((TURNS * 2, BLOCK), device="cuda")
    plain, out = torch.empty(BLOCK, device="cuda"), torch.empty(BLOCK, device="cuda")
    kernel[(CTAS,)](x, plain, TURNS, BLOCK, **options)
    with kp.record(path, regions="none"):
        kernel[(CTAS,)](x, out, TURNS, BLOCK, **options)
    assert torch.equal(plain, out)
    trace = kp.load(path)
    assert {p.code for p in trace.problems()} <= {"unknown-frequency", "fidelity", "occupancy"}
    rows: list[dict[str, Any]] = trace.events().to_pylist()
    halves = {(x[i].max() / 2).item() for i in range(TURNS)}
    assert {r["value"] for r in rows if r["region"] == "half"} in (set(), halves)
    return rows


def test_values_of_every_warp(tmp_path: Path) -> None:
    rows = recorded(tmp_path / "x.kperf", k.rows)
    of = Counter((r["region"], r["value"]) for r in rows if r["region"] in ("turn", "rows", "block"))
    once = CTAS * WARPS
    assert of == {**{("turn", i): once for i in range(TURNS)}, ("rows", TURNS + 1): once, ("block", BLOCK): once}
    assert sum(r["region"] == "half" for r in rows) == TURNS * once


def test_a_pipelined_loop_records_each_turn_once(tmp_path: Path) -> None:
    """Turns that a pipeliner adds or peels off carry a mask, and record nothing where they do not happen."""
    size = 128
    a = torch.randn((size, size * 3), device="cuda", dtype=torch.float16)
    b = torch.randn((size * 3, size), device="cuda", dtype=torch.float16)
    c = torch.empty((size, size), device="cuda", dtype=torch.float16)
    with kp.record(tmp_path / "x.kperf", regions="auto"):
        k.matmul[(1, 1)](a, b, c, size, size, size * 3, 128, 128, 64, num_warps=8, num_stages=3)
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)
    values = [r["value"] for r in kp.load(tmp_path / "x.kperf").events().to_pylist() if r["region"] == "turn"]
    assert Counter(values) == dict.fromkeys(range(6), 8)


def test_events_cross_turns(tmp_path: Path) -> None:
    rows = [r for r in recorded(tmp_path / "x.kperf", k.events) if r["region"] == "row"]
    assert Counter(r["value"] for r in rows) == dict.fromkeys(range(TURNS), CTAS * WARPS)


@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] < 9, reason="mbarriers")
def test_events_cross_partitions(tmp_path: Path) -> None:
    """Four warps of a partition start each id and four of another end it: as many events."""
    x = torch.rand(BLOCK, device="cuda")
    with kp.record(tmp_path / "x.kperf", regions="none"):
        k.gluon_events[(CTAS,)](x, x, 1, BLOCK, num_warps=4)
    rows = [r for r in kp.load(tmp_path / "x.kperf").events().to_pylist() if r["region"] == "item"]
    assert len(rows) == CTAS * WARPS
    assert all(r["warp"] != r["end_warp"] and r["duration_cycles"] >= 0 for r in rows)
