"""Kernel-only slow-down: a plain kernel and its twin, launched in turn in one process.

    python benchmarks/slowdown.py OUTPUT.json

Every repetition times a group of launches of each by events, interleaved.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch
from describe import gpu
from runs import Run, runs

import kperfir as kp

REPETITIONS = 15
GROUP = 10


def main(output: Path) -> None:
    about = {"repetitions": REPETITIONS, "group": GROUP}
    result: dict[str, Any] = gpu() | about | {"kernels": {}}
    for run in runs(0):
        for regions in ("auto", "none"):
            name = f"{run.name}/{regions}"
            try:
                result["kernels"][name] = measure(run, regions)
            except Exception as error:
                result["kernels"][name] = {"error": repr(error)[:500]}
            output.write_text(json.dumps(result, indent=1))
            print(name, json.dumps({k: v for k, v in result["kernels"][name].items() if "us" not in k}), flush=True)


def measure(run: Run, regions: str, **knobs: Any) -> dict[str, Any]:
    """The kernels alone: scratch memory is one buffer made beforehand, so allocating, clearing and
    copying it are not in these times."""
    from kperfir.bridge import launch

    run.launch()
    taken: list[Any] = []
    build = launch.instrument

    def keep(*arguments: Any) -> Any:
        twin = build(*arguments)
        taken.append((arguments[0], twin))
        return twin

    launch.instrument = keep
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            kp.record(Path(folder) / "x.kperf", regions=regions, first=1, every=0, **knobs),
        ):
            run.launch()
            torch.cuda.synchronize()
    finally:
        launch.instrument = build
    plain, twin = taken[0]
    if twin.kernel is None:
        return {"not_recorded": [p.what for p in twin.problems]}
    scratch = torch.zeros(twin.layout.cta_bytes * run.ctas, dtype=torch.uint8, device="cuda")
    times: dict[str, list[float]] = {"plain_us": [], "recorded_us": []}
    for repetition in range(REPETITIONS + 2):
        for key in ("plain_us", "recorded_us"):
            us = _time(run, None if key == "plain_us" else (plain, twin, scratch))
            if repetition >= 2:
                times[key].append(us)
    ratio = [r / p for p, r in zip(times["plain_us"], times["recorded_us"])]
    return times | {
        "ratio": statistics.median(ratio),
        "ratio_range": [min(ratio), max(ratio)],
        "place": twin.place_reason,
        "slots": twin.layout.slots,
        "sites": len(twin.table.sites),
        "plain": vars(twin.plain),
        "with_records": vars(twin.instrumented),
    }


def _time(run: Run, recorded: Any) -> float:
    """Microseconds of one launch, over a group."""
    from triton.compiler import CompiledKernel

    from kperfir.bridge.allocator import giving, routed
    from kperfir.capture.device.drain import Buffer

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    original = CompiledKernel.__dict__["run"]
    if recorded:
        plain, twin, scratch = recorded
        twin_run = original.fget(twin.kernel)

        def swapped(kernel: Any) -> Any:
            run_ = original.fget(kernel)
            if kernel is not plain:
                return run_

            def call(x: int, y: int, z: int, stream: int, function: Any, packed: Any, *rest: Any) -> Any:
                with giving(Buffer(scratch.data_ptr(), scratch.numel())):
                    return twin_run(x, y, z, stream, twin.kernel.function, twin.kernel.packed_metadata, *rest)

            return call

        CompiledKernel.run = property(swapped)
    try:
        with routed():
            torch.cuda._sleep(2_000_000)
            begin.record()
            for _ in range(GROUP):
                run.launch()
            end.record()
            end.synchronize()
    finally:
        CompiledKernel.run = original
    return begin.elapsed_time(end) * 1000 / GROUP


if __name__ == "__main__":
    main(Path(sys.argv[1]))
