"""What each knob of a plan costs: kernel-only slow-down, as in `slowdown.py`, of two kernels with regions="auto".

python benchmarks/knobs.py OUTPUT.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from describe import gpu
from runs import runs
from slowdown import GROUP, REPETITIONS, measure

KERNELS = ("matmul-3", "attention")
KNOBS: dict[str, dict[str, Any]] = {
    "default": {},
    "global": {"buffer": "global", "slots": 256},
    "flush": {"strategy": "flush"},
    "aggregate": {"strategy": "aggregate"},
    "aggregate in global memory": {"strategy": "aggregate", "buffer": "global"},
    "clock64": {"metric": "clock64"},
    "time": {"metric": "time"},
    "version": {"version": "iteration"},
    "iterations": {"iterations": "0-7"},
    "warp-group": {"granularity": "warp-group"},
    "cta": {"granularity": "cta"},
    "every eighth cta": {"ctas": "0-:8"},
    "aggregate by cta": {"strategy": "aggregate", "granularity": "cta"},
}


def main(output: Path) -> None:
    result: dict[str, Any] = gpu() | {"repetitions": REPETITIONS, "group": GROUP, "kernels": {}}
    for run in runs(0):
        if run.name not in KERNELS:
            continue
        for name, knobs in KNOBS.items():
            result["kernels"][f"{run.name}/{name}"] = found = measure(run, "auto", **knobs)
            output.write_text(json.dumps(result, indent=1))
            print(run.name, name, found.get("ratio"), found.get("ratio_range"), found.get("place"), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
