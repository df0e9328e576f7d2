"""What reading, passes and printing add to a compile of flash attention for sm_90. No GPU is needed.

    python benchmarks/compile_time.py OUTPUT.json

One process; builds take turns, each with an empty cache; the best of REPEATS counts. "added"
is the time inside kperfir's own steps of the instrumented build, including Triton's parser
and printer where they call them. The instrumented build is a compile of its own beside
the plain one: how long the whole of it takes is "build".
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import triton
from describe import machine
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kperfir.bridge import stages
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.replaced import replaced
from kperfir.bridge.request import Request

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from kernels import attention

REPEATS = 5
TARGET = GPUTarget("cuda", 90, 32)
OPTIONS = {"num_warps": 8, "num_stages": 3}
REQUESTS = {"scopes": Request(()), "auto": Request(("auto",))}
STEPS = {"_tag": "ttir", "_place": "ttgir", "lower_module": "llvm", "_told": "llvm"}
LIMITS = {"ttir and ttgir": 0.05, "all levels": 0.25}


def main(output: Path) -> None:
    _plain(), [_instrumented(request) for request in REQUESTS.values()]
    plain: list[float] = []
    builds: dict[str, list[dict[str, float]]] = {name: [] for name in REQUESTS}
    for _ in range(REPEATS):
        plain.append(_plain())
        for name, request in REQUESTS.items():
            builds[name].append(_instrumented(request))
    result: dict[str, Any] = machine() | {"plain_seconds": plain, "instrumented_seconds": builds}
    result["shares_of_a_plain_compile"] = {name: _shares(min(plain), runs) for name, runs in builds.items()}
    result["limits"] = LIMITS
    result["holds"] = {
        name: {level: shares[level] <= limit for level, limit in LIMITS.items()}
        for name, shares in result["shares_of_a_plain_compile"].items()
    }
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: result[key] for key in ("triton", "shares_of_a_plain_compile", "holds")}, indent=1))


def _source() -> ASTSource:
    signature = {name: "*fp16" for name in ("q_ptr", "k_ptr", "v_ptr", "o_ptr")} | {"scale": "fp32"}
    constants = {"CTX": 4096, "BM": 128, "BN": 64, "D": 64}
    names = attention.arg_names
    values = {(names.index(name),): value for name, value in constants.items()}
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    return ASTSource(attention, signature | dict.fromkeys(constants, "constexpr"), values, divisible)


def _plain() -> float:
    with tempfile.TemporaryDirectory() as cache, replaced(triton.knobs.cache, "dir", cache):
        begin = time.perf_counter()
        triton.compile(_source(), target=TARGET, options=OPTIONS)
        return time.perf_counter() - begin


def _instrumented(request: Request) -> dict[str, float]:
    spent: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as cache, replaced(triton.knobs.cache, "dir", cache), ExitStack() as stack:
        for name, level in STEPS.items():
            stack.enter_context(replaced(stages, name, _clocked(getattr(stages, name), level, spent)))
        begin = time.perf_counter()
        compile_instrumented(_source(), TARGET, OPTIONS, request)
        build = time.perf_counter() - begin
    assert spent.keys() == set(STEPS.values())
    return dict(spent) | {"build": build}


def _clocked(step: Callable[..., Any], level: str, spent: dict[str, float]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        begin = time.perf_counter()
        try:
            return step(*arguments)
        finally:
            spent[level] += time.perf_counter() - begin

    return run


def _shares(plain: float, runs: list[dict[str, float]]) -> dict[str, float]:
    def best(levels: tuple[str, ...]) -> float:
        return min(sum(run[level] for level in levels) for run in runs) / plain

    every = ("ttir", "ttgir", "llvm")
    return {
        **{level: best((level,)) for level in every},
        "ttir and ttgir": best(("ttir", "ttgir")),
        "all levels": best(every),
        "whole instrumented build": best(("build",)),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
