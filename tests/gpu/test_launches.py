"""Launches of all sorts: none waits, and each is recorded or counted with the reason."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
torch = pytest.importorskip("torch")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from cupti import driver_calls  # noqa: E402

import kperfir as kp  # noqa: E402


@triton.jit
def add_one(x, out, BLOCK: tl.constexpr):
    cta = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    at = cta * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + 1)


@triton.jit
def add_one_or_return(x, out, BLOCK: tl.constexpr):
    cta = tl.program_id(0)
    at = cta * BLOCK + tl.arange(0, BLOCK)
    if cta % 3 == 0:
        return
    if cta % 3 == 1:
        tl.store(out + at, tl.load(x + at) + 1)
        return
    tl.store(out + at, tl.load(x + at) + 2)


@triton.jit
def spin(x, n):
    value = tl.load(x + tl.program_id(0))
    for _ in range(n):
        value = value * 1.0001 + 0.5
    tl.store(x + tl.program_id(0), value)


def pair(ctas: int, block: int = 256) -> tuple[Any, Any]:
    x = torch.randn(ctas * block, device="cuda")
    return x, torch.zeros_like(x)


def counts(trace: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for capture in trace.captures:
        for outcomes in capture.tally.values():
            for outcome, count in outcomes.items():
                total[outcome] = total.get(outcome, 0) + count
    return total


def test_no_launch_calls_anything_that_waits(tmp_path: Path) -> None:
    """From the first, which compiles and loads, to those that are skipped; a busy stream shows waiting."""
    x, out = pair(64)
    busy = torch.zeros(16, device="cuda")
    spin[(16,)](busy, 10)
    torch.cuda.synchronize()
    with kp.record(tmp_path / "x.kperf", first=10, every=0), driver_calls() as calls:
        spin[(16,)](busy, 10_000_000)
        for _ in range(20):
            add_one[(64,)](x, out, 256)
    with driver_calls() as control:
        torch.cuda.synchronize()
    assert counts(kp.load(tmp_path / "x.kperf")) == {"recorded": 11, "sampled-out": 10}
    assert calls["cuLaunchKernelEx"] == 21
    waiting = ("Synchronize", "cuMemFree_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2", "cuEventQuery")
    assert {name: n for name, n in calls.items() if any(w in name for w in waiting)} == {}
    assert any("Synchronize" in name for name in control), f"this test would see a wait: {control}"


@pytest.mark.parametrize("grid", [(5,), (3, 4), (3, 2, 5)], ids=str)
def test_grids_of_each_dimension(grid: tuple[int, ...], tmp_path: Path) -> None:
    ctas = torch.Size(grid).numel()
    x, out = pair(ctas)
    with kp.record(tmp_path / "x.kperf"):
        add_one[grid](x, out, 256)
    assert torch.equal(out, x + 1)
    (launch,) = kp.load(tmp_path / "x.kperf").launches
    assert sorted(launch.headers.cta.tolist()) == list(range(ctas))
    assert (launch.missing_ctas, launch.unfinished_ctas) == (0, 0)
    events = launch.table.to_pandas()
    assert (events.groupby(["region", "cta", "warp"]).size() == 1).all()
    assert len(events) == 3 * 4 * ctas


def test_several_returns(tmp_path: Path) -> None:
    x, out = pair(10)
    with kp.record(tmp_path / "x.kperf"):
        add_one_or_return[(10,)](x, out, 256)
    (launch,) = kp.load(tmp_path / "x.kperf").launches
    assert launch.unfinished_ctas == 0 and launch.unpaired == {}
    events = launch.table.to_pandas()
    per_cta = {region: sorted(set(rows)) for region, rows in events.groupby("region")["cta"]}
    assert per_cta["kernel"] == list(range(10))
    assert per_cta["load"] == per_cta["store"] == [1, 2, 4, 5, 7, 8]
    add = torch.tensor([0, 1, 2], device="cuda")[torch.arange(10, device="cuda") % 3].repeat_interleave(256)
    assert torch.equal(out, torch.where(add > 0, x + add, torch.zeros_like(x)))


def test_more_than_2_gib_of_scratch(tmp_path: Path) -> None:
    """Triton 3.6.0 and 3.7.1 compute a CTA's offset in 32 bits; the last CTAs lie where that overflows."""
    ctas, slots = 10_000, 8192
    x, out = pair(ctas)
    with kp.record(tmp_path / "x.kperf", buffer="global", slots=slots, limit_bytes=1 << 33):
        add_one[(ctas,)](x, out, 256)
    assert torch.equal(out, x + 1)
    trace = kp.load(tmp_path / "x.kperf")
    (launch,) = trace.launches
    assert ctas * launch.kernel.layout.cta_bytes > 2 << 30
    assert sorted(launch.headers.cta.tolist()) == list(range(ctas))
    assert launch.kept == launch.written == 6 * 4 * ctas and launch.unpaired == {}


def test_threads_and_their_streams(tmp_path: Path) -> None:
    """A thread that has made no call of its own has no context yet."""
    data = [pair(32) for _ in range(4)]
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work(x: Any, out: Any, stream: Any) -> None:
        try:
            with torch.cuda.stream(stream):
                for _ in range(5):
                    add_one[(32,)](x, out, 256)
        except BaseException as error:
            failures.append(error)

    with kp.record(tmp_path / "x.kperf", first=100):
        threads = [threading.Thread(target=work, args=(*d, torch.cuda.Stream())) for d in data]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
    assert not failures
    assert all(torch.equal(out, x + 1) for x, out in data)
    trace = kp.load(tmp_path / "x.kperf")
    assert counts(trace) == {"recorded": 20} and len({launch.launch.stream for launch in trace.launches}) == 4
    assert all(launch.unfinished_ctas == launch.missing_ctas == 0 for launch in trace.launches)


def test_a_graph_is_captured_plain_and_counted(tmp_path: Path) -> None:
    x, out = pair(8)
    add_one[(8,)](x, out, 256)
    graph = torch.cuda.CUDAGraph()
    with kp.record(tmp_path / "x.kperf", first=100):
        with torch.cuda.graph(graph):
            add_one[(8,)](x, out, 256)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
    assert torch.equal(out, x + 1)
    assert counts(kp.load(tmp_path / "x.kperf")) == {"graph-capture": 1}


def test_only_an_autotuners_winner_is_recorded(tmp_path: Path) -> None:
    configs = [triton.Config({"BLOCK": 256}, num_warps=w) for w in (2, 4, 8)]
    tuned = triton.autotune(configs, key=[])(add_one)
    x, out = pair(8)
    with kp.record(tmp_path / "x.kperf"):
        tuned[(8,)](x, out)
    trace = kp.load(tmp_path / "x.kperf")
    found = counts(trace)
    assert found["recorded"] == 1 and found["autotune-trial"] >= 3 and found.keys() == {"recorded", "autotune-trial"}
    assert torch.equal(out, x + 1)


def _fused(x: Any) -> Any:
    return torch.softmax(x * 2 + 1, dim=-1).sin()


@pytest.mark.parametrize("warm", [False, True], ids=["first call inside", "first call before"])
def test_kernels_of_torch_compile_are_recorded(warm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.config as config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    x = torch.randn(256, 1000, device="cuda")
    with config.patch(_static_switch(False) | {"compile_threads": 1}):
        compiled: Callable[[Any], Any] = torch.compile(_fused)
        if warm:
            compiled(x)
        with kp.record(tmp_path / "x.kperf"):
            y = compiled(x)
        assert torch.equal(y, compiled(x))
    assert counts(kp.load(tmp_path / "x.kperf")).get("recorded") == 1


@pytest.mark.parametrize("warm", [False, True], ids=["first call inside", "first call before"])
def test_the_static_launcher_is_reported(warm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.config as config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    x = torch.randn(256, 999, device="cuda")
    with config.patch(_static_switch(True) | {"compile_threads": 1}):
        compiled: Callable[[Any], Any] = torch.compile(_fused)
        if warm:
            compiled(x)
        with kp.record(tmp_path / "x.kperf"):
            compiled(x)
    trace = kp.load(tmp_path / "x.kperf")
    assert counts(trace).get("not-instrumented") == 1
    assert any("static launcher" in p.what for p in trace.problems() if p.code == "not-recorded")


def _static_switch(on: bool) -> dict[str, bool]:
    import torch._inductor.config as config

    return {name: on for name in ("use_static_cuda_launcher", "use_static_triton_launcher") if hasattr(config, name)}
