"""A graph that one thread captures survives what recording does in another."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import kperfir as kp  # noqa: E402


@triton.jit
def add_one(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + 1)


@pytest.mark.parametrize("mode", ["global", "thread_local"])
def test_the_first_recorded_launch_while_another_thread_captures(mode: str, tmp_path: Path) -> None:
    """It compiles and loads a twin, makes a stream, pins memory and allocates: nothing of it may end in the graph."""
    x = torch.randn(2048, device="cuda")
    captured, launched = torch.zeros_like(x), torch.zeros_like(x)
    add_one[(8,)](x, captured, 256)
    graph, stream, failures = torch.cuda.CUDAGraph(), torch.cuda.Stream(), []
    torch.cuda.synchronize()

    def launch() -> None:
        try:
            with torch.cuda.stream(stream):
                add_one[(8,)](x, launched, 256)
        except BaseException as error:
            failures.append(error)

    with kp.record(tmp_path / "x.kperf", first=9):
        with torch.cuda.graph(graph, capture_error_mode=mode):
            add_one[(8,)](x, captured, 256)
            thread = threading.Thread(target=launch)
            thread.start()
            thread.join()
        captured.zero_()
        graph.replay()
        torch.cuda.synchronize()
    assert not failures
    assert torch.equal(captured, x + 1) and torch.equal(launched, x + 1)
    (capture,) = kp.load(tmp_path / "x.kperf").captures
    assert capture.tally == {"add_one": {"graph-capture": 1, "recorded": 1}}
    assert [p.code for p in capture.problems] == []
