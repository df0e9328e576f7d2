"""Compiles every kernel of the corpus for one target, plain and with records; prints a JSON object a line.

    python compile_all.py cuda 90

It runs in a process of its own: some foreign targets abort theirs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from corpus_kernels import cases
from gluon_kernels import gluon_cases
from triton import knobs
from triton.backends.compiler import GPUTarget

from kperfir.bridge.binary import Usage, amd_usage, nvidia_usage
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.bridge.shares import shares_of
from kperfir.bridge.text import generic_text
from kperfir.fidelity import doubt
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module

COUNTED = (
    r"cp\.async\.c[ag]",
    r"cp\.async\.bulk\.tensor",
    r"wgmma\.mma_async",
    r"tcgen05\.mma",
    r"v_mfma",
    r"s_barrier",
)


def main(backend: str, arch: str) -> None:
    target = GPUTarget(backend, int(arch) if backend == "cuda" else arch, 32 if backend == "cuda" else 64)
    both = cases(backend) | (gluon_cases(int(arch)) if backend == "cuda" else {})
    for name, (source, options) in both.items():
        print(json.dumps({"name": name} | _case(source, target, options)), flush=True)


def _case(source: Any, target: GPUTarget, options: dict[str, Any]) -> dict[str, Any]:
    trips: list[bool] = []
    knobs.runtime.add_stages_inspection_hook = _checking(trips)
    try:
        plain = triton.compile(source, target=target, options=options)
    except Exception as error:
        return {"plain_error": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        knobs.runtime.add_stages_inspection_hook = None
    try:
        built = compile_instrumented(source, target, options, Request(("auto",)))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:500]}", "round_trips": trips}
    return {
        "round_trips": trips,
        "plain": _look(plain),
        "recorded": _look(built.kernel),
        "sites": len(built.table.sites),
        "doubts": _doubts(built) if target.backend == "cuda" else [],
        "cost": _cost(plain, built),
    }


def _cost(plain: Any, built: Any) -> dict[str, Any]:
    """What the records add to the code; `registers` are those of a thread, plain and with records."""
    before, after = _usage(plain), _usage(built.kernel)
    records = len(built.table.sites)
    return {
        "records": records,
        "instructions_per_record": round((after.instructions - before.instructions) / records, 2),
        "registers": [before.registers, after.registers],
    }


def _usage(kernel: Any) -> Usage:
    if "amdgcn" in kernel.asm:
        return amd_usage(kernel.asm["amdgcn"], kernel.asm["hsaco"])
    return nvidia_usage(kernel.asm["cubin"])


def _doubts(built: Any) -> list[str]:
    """Scopes and rules that are said to time something else than was marked."""
    found = shares_of(0, "cuda", built.kernel.asm["cubin"], built.fidelity, built.table)
    told = [doubt(kept, share) for kept, share in zip(built.fidelity, found.shares, strict=True)]
    return [found.absent] * bool(found.absent) + [what for what, _ in filter(None, told)]


def _checking(trips: list[bool]) -> Any:
    def hook(
        backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
    ):  # type: ignore[no-untyped-def]
        if stages is None:
            return "", ""
        for level in {"ttir", "ttgir"} & stages.keys():
            stages[level] = _checked(stages[level], trips)
        return None

    return hook


def _checked(stage: Any, trips: list[bool]) -> Any:
    def run(source: Any, metadata: Any) -> Any:
        module = stage(source, metadata)
        text = generic_text(module)
        trips.append(all(print_module(read_module(text, values)) == text for values in (True, False)))
        return module

    return run


def _look(kernel: Any) -> dict[str, Any]:
    text = kernel.asm.get("ptx") or kernel.asm["amdgcn"]
    counts = {pattern: len(re.findall(pattern, text)) for pattern in COUNTED}
    return {"counts": counts, "local_bytes": _local_bytes(kernel)}


def _local_bytes(kernel: Any) -> int:
    """Stack of a thread: LOCAL or STACK of a cubin, the private segment of an AMD kernel."""
    if "amdgcn" in kernel.asm:
        found = re.search(r"\.private_segment_fixed_size:\s*(\d+)", kernel.asm["amdgcn"])
        return int(found.group(1)) if found else 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(kernel.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        text = subprocess.run([str(tool), "-res-usage", str(path)], capture_output=True, text=True, check=True).stdout
    return max(int(n) for n in re.findall(r"(?:STACK|LOCAL):(\d+)", text))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
