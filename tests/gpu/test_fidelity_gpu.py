"""A recording on a GPU brings both halves of fidelity along, and its clocks are those that SASS shows."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import kperfir as kp  # noqa: E402
import kperfir.language as kl  # noqa: E402


@triton.jit
def scopes(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with kl.scope("first"):
        a = tl.load(x + at)
    with kl.scope("again"):
        b = tl.load(x + at)
    with kl.scope("out"):
        tl.store(y + at, a + b)


def test_both_halves_travel_with_a_recording(tmp_path: Path) -> None:
    x, y = torch.ones(1024, device="cuda"), torch.empty(1024, device="cuda")
    with kp.record(tmp_path / "x.kperf", regions=None, first=2, every=0):
        for _ in range(3):
            scopes[(4,)](x, y, 1024, BLOCK=1024)
    trace = kp.load(tmp_path / "x.kperf")
    assert bool((y == 2).all())
    (found,) = trace.fidelity().kernels
    assert found.absent == ""
    first, again, out = found.scopes
    loads = {s.kept.name: next(f for f in s.kept.fates if f.works) for s in found.scopes}
    assert [(f.held, f.kept, f.merged, f.vanished) for f in loads.values()] == [
        (1, 1, 0, 0),
        (1, 0, 1, 0),
        (1, 1, 0, 0),
    ]
    assert loads["again"].merged_with == ("first",) and again.share is None
    for scope in (first, out):
        assert scope.share is not None and scope.share.work == scope.share.work_between > 0
    assert {r["region"]: 0 for r in trace.events().to_pylist()} == {"first": 0, "out": 0}
