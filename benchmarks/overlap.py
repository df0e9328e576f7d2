"""Two streams keep their overlap while launches are recorded, and no launch waits.

    python benchmarks/overlap.py OUTPUT.json

Each stream runs kernels of few CTAs; alone they take T, one behind the other 2 T. The
calls that launches make are those that torch's profiler lists.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from describe import gpu

import kperfir as kp


@triton.jit
def spin(x, n):
    value = tl.load(x + tl.program_id(0))
    for _ in range(n):
        value = value * 1.0001 + 0.5
    tl.store(x + tl.program_id(0), value)


def main(output: Path) -> None:
    x, y = (torch.zeros(16, device="cuda") for _ in range(2))
    streams = [torch.cuda.Stream() for _ in range(2)]

    def both(many: int = 10) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(many):
            for stream, data in zip(streams, (x, y)):
                with torch.cuda.stream(stream):
                    spin[(16,)](data, 200_000)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1000

    def one(many: int = 10) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(many):
            with torch.cuda.stream(streams[0]):
                spin[(16,)](x, 200_000)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1000

    one(), both()
    result = gpu() | {"plain_one_ms": [one() for _ in range(5)], "plain_both_ms": [both() for _ in range(5)]}
    with tempfile.TemporaryDirectory() as folder, kp.record(Path(folder) / "x.kperf", first=1000):
        both(1)
        result |= {"recorded_one_ms": [one() for _ in range(5)], "recorded_both_ms": [both() for _ in range(5)]}
        torch.cuda.synchronize()
        host = []
        for _ in range(20):
            begin = time.perf_counter()
            spin[(16,)](x, 2_000_000)
            host.append((time.perf_counter() - begin) * 1e6)
        result["host_us_while_the_gpu_is_busy"] = host
        from torch.profiler import ProfilerActivity, profile

        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(5):
                spin[(16,)](x, 2000)

        events = {e.key: e.count for e in profiler.key_averages()}
        result["driver_calls"] = {k: v for k, v in events.items() if k.startswith("cu")}

    result["overlap"] = {
        k: statistics.median(result[f"{k}_both_ms"]) / statistics.median(result[f"{k}_one_ms"])
        for k in ("plain", "recorded")
    }
    output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
