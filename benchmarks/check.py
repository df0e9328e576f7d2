"""On a GPU: results with and without records bit for bit, counts against a reference, wrapped rings.

    python benchmarks/check.py OUTPUT.json

A failure in one kernel does not stop the others.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch
from runs import Run, describe, runs

import kperfir as kp

SEEDS = (0, 1, 2)


def main(output: Path) -> None:
    result: dict[str, Any] = describe() | {"kernels": {}}
    for seed in SEEDS:
        for run in runs(seed, small=True):
            entry = result["kernels"].setdefault(run.name, {"identical": [], "errors": []})
            try:
                _check(run, entry, seed)
            except Exception:
                entry["errors"].append(traceback.format_exc()[-1500:])
            output.write_text(json.dumps(result, indent=1))


def _check(run: Run, entry: dict[str, Any], seed: int) -> None:
    plain = run.launch().clone()
    again = run.launch().clone()
    entry["deterministic"] = bool(torch.equal(plain, again))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.kperf"
        with kp.record(path, slots=512, buffer="global", first=1, every=0):
            recorded = run.launch().clone()
        entry["identical"].append(bool(torch.equal(plain, recorded)))
        if seed:
            return
        trace = kp.load(path)
        entry["summary"] = str(trace.summary()).splitlines()
        entry["problems"] = [p.code for p in trace.problems()]
        entry["counts"] = _counts(trace, run)
        wrapped = Path(folder) / "w.kperf"
        with kp.record(wrapped, slots=4, buffer="global", first=1, every=0):
            run.launch()
        entry["wrap"] = _wrap(trace, kp.load(wrapped))
        keep = os.environ.get("KEEP_CAPTURES")
        if keep and run.name in ("softmax", "layernorm"):
            with kp.record(Path(keep, f"{run.name}.kperf"), slots=32, buffer="global", first=1, every=0):
                run.launch()
        shared = Path(folder) / "s.kperf"
        with kp.record(shared, first=1, every=0):
            again = run.launch().clone()
        entry["identical"].append(bool(torch.equal(plain, again)))
        entry["auto_buffer"] = [k.place_reason for k in kp.load(shared).summary().kernels]
        entry["auto_problems"] = [p.code for p in kp.load(shared).problems()]


def _counts(trace: kp.Trace, run: Run) -> dict[str, Any]:  # type: ignore[name-defined]
    """Events per region, per CTA and warp: every warp must have the same."""
    table = trace.events()
    keys = zip(table["region"].to_pylist(), table["cta"].to_pylist(), table["warp"].to_pylist())
    per_warp = Counter(keys)
    by_region: dict[str, set[int]] = {}
    for (region, _, _), count in per_warp.items():
        by_region.setdefault(region, set()).add(count)
    warps = {(c, w) for _, c, w in per_warp}
    return {
        "per_warp": {r: sorted(c) for r, c in by_region.items()},
        "warps_seen": len(warps),
        "warps_expected": run.ctas * run.warps,
        "iterations": run.iterations,
        "stages": run.stages,
    }


def _wrap(whole: Any, wrapped: Any) -> dict[str, Any]:
    a, b = whole.launches[0], wrapped.launches[0]
    return {
        "written": [a.written, b.written],
        "kept": b.kept,
        "problems": sorted({p.code for p in wrapped.problems()}),
        "tail": _is_tail(whole, wrapped),
    }


def _is_tail(whole: Any, wrapped: Any) -> bool:
    """Whether each warp's kept records are the last it wrote."""

    def sites(trace: Any) -> dict[tuple[int, int], list[int]]:
        records = trace.launches[0]._records
        found: dict[tuple[int, int], list[int]] = {}
        for row, warp, site in zip(records.row.tolist(), records.warp.tolist(), records.site.tolist()):
            found.setdefault((row, warp), []).append(site)
        return found

    everything, kept = sites(whole), sites(wrapped)
    return bool(kept) and all(everything[warp][-len(tail) :] == tail for warp, tail in kept.items())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
