"""A warp-specialised Gluon kernel: bit for bit with and without records, which warps write, slow-down.

python benchmarks/gluon.py OUTPUT.json [folder of a module `fa3_gluon` with `make_launcher`]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import torch
from describe import gpu
from runs import Run
from slowdown import measure

import kperfir as kp

VARIANTS = ("B", "C1")


def main(output: Path, folder: str) -> None:
    sys.path.insert(0, folder)
    import fa3_gluon

    result: dict[str, Any] = gpu()
    for variant in VARIANTS:
        entry: dict[str, Any] = {"identical": []}
        for seed in range(3):
            torch.manual_seed(seed)
            q, k, v = (torch.randn(4, 16, 4096, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            o = torch.empty_like(q)
            launcher = fa3_gluon.make_launcher(q, k, v, o, variant)

            def launch(launcher: Any = launcher, o: torch.Tensor = o) -> torch.Tensor:
                launcher()
                return o

            plain = launch().clone()
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "x.kperf"
                with kp.record(path, first=1, every=0, buffer="global", slots=16384):
                    recorded = launch().clone()
                entry["identical"].append(bool(torch.equal(plain, recorded)))
                if seed == 0:
                    entry |= _look(path)
            if seed == 0:
                entry["slowdown"] = measure(Run(variant, launch, (132,), 12, 0, 0), "auto")
        result[variant] = entry
        output.write_text(json.dumps(result, indent=1))
        print(variant, entry["identical"], entry["counts"], entry["problems"], entry["slowdown"]["ratio"], flush=True)


def _look(path: Path) -> dict[str, Any]:
    trace = kp.load(path)
    table = trace.events()
    one = table.filter(pc.equal(table["cta"], 0))
    counts = Counter(zip(one["warp"].to_pylist(), one["region"].to_pylist()))
    by_warp: dict[str, dict[str, int]] = {}
    for (warp, region), count in sorted(counts.items()):
        by_warp.setdefault(str(warp), {})[region] = count
    return {
        "counts": by_warp,
        "problems": [p.code for p in trace.problems()],
        "summary": str(trace.summary()).splitlines(),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ".")
