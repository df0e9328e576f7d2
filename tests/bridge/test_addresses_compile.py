"""Kernels that trace their addresses, compiled: what is traced, and that the accesses stay as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kperfir.language as kl
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.pipeline import run
from kperfir.bridge.request import Request
from kperfir.errors import LoweringError
from kperfir.plan import Plan


@triton.jit
def coalesced(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with kl.scope("mine"):
        value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value, mask=at < n)


@triton.jit
def strided(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * n))


@triton.jit
def gather(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(out + at, mask=at < n, other=0).to(tl.int32)
    tl.atomic_add(out + where, tl.load(x + where), mask=at < n)


@triton.jit
def pipelined(x, out, n, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in range(0, n, BLOCK):
        a = tl.load(x + row[:, None] * n + row[None, :] + i)
        total = tl.dot(a, tl.load(x + (row[:, None] + i) * BLOCK + row[None, :]), total)
    tl.store(out + row[:, None] * BLOCK + row[None, :], total)


# instructions of each (line behind its decorator, kind, bytes, scope)
EXPECTED: dict[Any, dict[tuple[int, str, int, str], int]] = {
    coalesced: {(4, "load", 4, "mine"): 8, (5, "store", 4, ""): 8},
    strided: {(3, "load", 4, ""): 8, (3, "store", 16, ""): 2},
    gather: {(3, "load", 4, ""): 8, (4, "load", 4, ""): 8, (4, "atomic", 4, ""): 8},
}
OWN = re.compile(r"\{ \.reg \.pred p; \.reg \.b64 v, a;.*\}")
BLOCK = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
ACCESS = re.compile(r"\b(?:ld|st|atom|cp\.async)\.[\w.:]*global[\w.:]*")
NAMES = {kernel.fn.__name__: kernel for kernel in (*EXPECTED, pipelined)}


def build(kernel: Any, target: GPUTarget, addresses: str = "all", **knobs: Any) -> Any:
    size = 32 if kernel is pipelined else 1024
    types = {"x": "*fp16" if kernel is pipelined else "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in ((0, 1, 2) if kernel is pipelined else (0, 1))}
    source = ASTSource(kernel, types, {(3,): size}, aligned)
    request = Request.of(Plan.make("auto", addresses=addresses, **knobs))
    return compile_instrumented(source, target, {}, request), source


def shape(built: Any, first: int) -> dict[tuple[int, str, int, str], int]:
    return dict(Counter((a.line - first, a.kind, a.width_bytes, a.region) for a in built.table.accesses))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def first_line(kernel: Any) -> int:
    return int(kernel.fn.__code__.co_firstlineno)


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda k: k.fn.__name__)
def test_what_is_traced(kernel: Any, arch: int) -> None:
    target = GPUTarget("cuda", arch, 32)
    built, source = build(kernel, target)
    assert shape(built, first_line(kernel)) == EXPECTED[kernel]
    assert built.layout.holds_addresses and not built.table.sites and built.findings == ()
    ptx = built.kernel.asm["ptx"]
    own = OWN.findall(ptx)
    assert [int(re.search(r"st\.global\.b32 \[a\], (\d+)", text)[1]) for text in own] == list(  # type: ignore[index]
        range(len(built.table.accesses))
    ), "one store of each access, in order"
    # the kernel's own accesses: the same instructions in the same order, and no barrier more
    kernels_own = BLOCK.sub(lambda block: "" if OWN.search(block[0]) or "%clock64" in block[0] else block[0], ptx)
    plain = triton.compile(source, target=target, options={}).asm["ptx"]
    assert ACCESS.findall(kernels_own) == ACCESS.findall(plain)
    assert kernels_own.count("bar.sync") == plain.count("bar.sync")


@pytest.mark.parametrize("arch", [80, 90, 100])
def test_a_pipelined_load_is_an_async_copy(arch: int) -> None:
    built, _ = build(pipelined, GPUTarget("cuda", arch, 32))
    kinds = {(a.operation, a.kind, a.width_bytes) for a in built.table.accesses}
    assert {(kind, width) for _, kind, width in kinds} == {("async-copy", 16), ("store", 16)}
    assert len(kinds) == 3, "prologue and loop are of one operation"
    with pytest.raises(LoweringError, match=r"It has no load; trace async-copy\+store."):
        build(pipelined, GPUTarget("cuda", arch, 32), "load")


def test_knobs_of_who_writes() -> None:
    knobs = {"slots": 8, "granularity": 2, "ctas": "0-7", "sms": "3", "warps": "1"}
    built, _ = build(strided, GPUTarget("cuda", 90, 32), "store", **knobs)
    assert (built.layout.slots, built.layout.warps, built.layout.warp_step) == (8, 2, 2)
    assert {a.kind for a in built.table.accesses} == {"store"}
    assert len(OWN.findall(built.kernel.asm["ptx"])) == 2


_AMD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_addresses_compile import GPUTarget, LoweringError, build, coalesced
try:
    build(coalesced, GPUTarget("hip", sys.argv[2], 64))
except LoweringError as error:
    print(error)
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_amd_is_refused(arch: str) -> None:
    command = [sys.executable, "-c", _AMD, str(Path(__file__).parent), arch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "On AMD GPUs no addresses are traced" in done.stdout, done.stderr


def test_the_levels_of_opt() -> None:
    text = (Path(__file__).parents[1] / "data" / "ir" / "add_one.ttir").read_text()

    def level(emit: str, *passes: str) -> str:
        return run(text, "cuda:90", {}, "addresses=load+store", list(passes), emit, False)

    assert '"kperf.start_instrumentation"() <{analysis = "addresses", kinds = "load+store"}>' in level("kperf")
    gpu = level("kperf-gpu")
    assert gpu.count("kperf_gpu.store_address") >= 2 and "kperf_gpu.init" in gpu and "lanes 32 : i32" in gpu
    assert OWN.search(level("ptx"))
