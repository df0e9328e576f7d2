"""Whatever goes wrong with a twin, there is a reason to read and the plain kernel is still there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kperfir.bridge import build, stages
from kperfir.bridge.build import Twin, instrument, settle
from kperfir.bridge.limits import DeviceLimits
from kperfir.bridge.request import Request
from kperfir.capture.schema import Resources
from kperfir.plan import Plan
from kperfir.targets.nvidia import Nvidia

LIMITS = DeviceLimits(232448, 233472, 1024, 65536, 64, 32)


@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@pytest.fixture(autouse=True)
def unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU to load onto."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.setattr(build, "_load", lambda kernel, limits: Resources())


def twin(buffer: str) -> Twin:
    source = ASTSource(copy, {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, {(2,): 1024}, {})
    plain = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return instrument(plain, Plan.make("auto", buffer=buffer), LIMITS)


def reason(found: Twin) -> str:
    assert found.kernel is None
    (problem,) = found.problems
    assert (problem.code, problem.where) == ("not-recorded", "copy")
    return problem.what


def test_without_a_failure_there_is_a_twin() -> None:
    assert twin("auto").kernel is not None


@pytest.mark.parametrize("buffer", ["auto", "shared", "global"])
def test_ptxas_fails(buffer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Nvidia.read_counter
    monkeypatch.setattr(Nvidia, "read_counter", lambda *a: [line.replace("%clock", "%stopwatch") for line in real(*a)])
    assert "ptxas" in reason(twin(buffer))


@pytest.mark.parametrize("step", ["_place", "lower_module", "placed", "carried"])
def test_a_stage_fails(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the stage is broken")

    monkeypatch.setattr(stages, step, fail)
    assert "the stage is broken" in reason(twin("auto"))


@pytest.mark.parametrize(("buffer", "place"), [("auto", "global"), ("shared", None)])
def test_the_build_with_rings_in_shared_memory_does_not_load(
    buffer: str, place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(kernel: Any, limits: DeviceLimits) -> Resources:
        if kernel.metadata.shared:
            raise RuntimeError("out of resource: shared memory")
        return Resources()

    monkeypatch.setattr(build, "_load", load)
    found = twin(buffer)
    if place is None:
        assert "out of resource" in reason(found)
    else:
        assert found.kernel is not None and found.layout.place == place
        assert "out of resource" in found.place_reason


def test_global_memory_after_shared_has_the_slots_that_global_memory_has() -> None:
    before = Resources(shared_bytes=108_000, registers=122, spills=0, warps=8, ctas_per_sm=2)
    plan, asked = Plan.make("auto"), []

    def made(request: Request) -> Any:
        asked.append((request.place, request.slots))
        return SimpleNamespace(resources=replace(before, ctas_per_sm=1 if request.place == "shared" else 2))

    _, why = settle(plan, before, LIMITS, made)
    (shared, few), (place, slots) = asked
    assert (shared, place, slots) == ("shared", "global", Request.of(plan).slots) and few != slots
    assert "only 1 of 2 CTAs" in why


def test_nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("device kernel image is invalid")

    monkeypatch.setattr(build, "_load", fail)
    assert "image is invalid" in reason(twin("auto"))
