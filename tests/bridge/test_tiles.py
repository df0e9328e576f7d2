"""A persistent warp-specialised kernel: turns of the loop over tiles, in every partition, whatever loops lie inside."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from triton.backends.compiler import GPUTarget

from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.plan import Plan

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))
from gluon_kernels import gluon_cases

_CARRIER = re.compile(r"KPERF<\d+ (\w+) (\w+)>.* (%[\w.#]+), %[\w.#]+ : i32, i32 -> i32")


def depths(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Scope -> how many loops its number is computed in."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    source, options = gluon_cases(90)["gluon_persistent"]
    request = Request.of(Plan.make(None, version=version, iterations="0-1+last-1"))
    built = compile_instrumented(source, GPUTarget("cuda", 90, 32), options, request)
    assert built.findings == () and all(site.versioned for site in built.table.sites)
    assert built.layout.record_bytes == 16
    found: dict[str, int] = {}
    loops: list[int] = []
    defined: dict[str, int] = {}
    for line in built.kernel.asm["ttgir"].splitlines():
        depth = len(line) - len(line.lstrip())
        while loops and depth <= loops[-1]:
            loops.pop()
        if carrier := _CARRIER.search(line):
            found.setdefault(carrier.group(2), defined[carrier.group(3)])
        elif name := re.match(r"\s*(%[\w.#]+) = arith\.divsi", line):
            defined[name.group(1)] = len(loops)
        elif " scf.for " in line:
            loops.append(depth)
    return found


def test_iterations_are_those_of_the_loop_around_a_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert depths("iteration", tmp_path, monkeypatch) == {"full": 2, "mma": 2, "epilogue": 1, "empty": 2}


def test_tiles_are_those_of_the_outermost_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert depths("tile", tmp_path, monkeypatch) == {"full": 1, "mma": 1, "epilogue": 1, "empty": 1}
