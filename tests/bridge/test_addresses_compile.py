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
from kperfir.bridge import measure
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


def without_own(ptx: str) -> str:
    """PTX without what traces, and without entry and returns."""
    return BLOCK.sub(lambda block: "" if OWN.search(block[0]) or "%clock64" in block[0] else block[0], ptx)


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
    kernels_own = without_own(ptx)
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


@triton.jit
def through_descriptors(x, out, n, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [n, n], [n, 1], [BLOCK, BLOCK])
    value = a.load([0, tl.program_id(0) * BLOCK])
    tl.store(out + tl.arange(0, BLOCK), tl.sum(value, 0))


def test_a_load_through_a_descriptor_is_told_of() -> None:
    source = ASTSource(
        through_descriptors,
        {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        {(3,): 64},
        {(i,): [["tt.divisibility", 16]] for i in range(3)},
    )
    built = compile_instrumented(source, GPUTarget("cuda", 90, 32), {}, Request.of(Plan.make("auto", addresses="all")))
    assert {a.kind for a in built.table.accesses} == {"store"}
    (finding,) = built.findings
    at = first_line(through_descriptors) + 3
    assert finding.code == "not-traced" and finding.where.endswith(f"test_addresses_compile.py:{at}")
    assert "names a descriptor and coordinates" in finding.what


_CORPUS = """
import sys
sys.path[:0] = sys.argv[2:]
from corpus_kernels import cases
from test_addresses_compile import GPUTarget, Plan, Request, all_accesses_and_own, compile_instrumented
arch = int(sys.argv[1])
request = Request.of(Plan.make("auto", addresses="all"))
for name, (source, options) in cases("cuda").items():
    if name != "tma_matmul" or arch < 90:
        built = compile_instrumented(source, GPUTarget("cuda", arch, 32), options, request)
        print(name, *all_accesses_and_own(built.kernel.asm["ptx"]), len(built.findings))
"""


def all_accesses_and_own(ptx: str) -> tuple[int, int]:
    """Accesses to global memory of the kernel, and those that kperfir traces."""
    return len(ACCESS.findall(without_own(ptx))), len(OWN.findall(ptx))


@pytest.mark.parametrize("arch", ["80", "90", "100"])
def test_no_access_of_the_corpus_is_missed(arch: str) -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-c", _CORPUS, arch, str(here), str(here.parent / "corpus")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) >= 9, done.stderr
    for name, accesses, traced, findings in lines:
        assert int(accesses) == int(traced) > 0 and findings == "0", name


_GLUON = """
import sys
sys.path[:0] = sys.argv[1:]
from gluon_kernels import gluon_cases
from test_addresses_compile import GPUTarget, LoweringError, Plan, Request, compile_instrumented
request = Request.of(Plan.make("auto", addresses="all"))
for name in ("gluon_async_copy", "gluon_specialised"):
    source, options = gluon_cases(90)[name]
    try:
        built = compile_instrumented(source, GPUTarget("cuda", 90, 32), options, request)
        print(sorted((a.operation, a.kind, a.width_bytes) for a in built.table.accesses))
    except LoweringError as error:
        print(error)
"""


def test_gluon_kernels() -> None:
    """Scopes that stand in them are taken out; a kernel of TMA copies alone stays plain, and says why."""
    here = Path(__file__).parent
    command = [sys.executable, "-c", _GLUON, str(here), str(here.parent / "corpus")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    copies, refused = done.stdout.splitlines()
    assert copies == str([(0, "async-copy", 16), (1, "async-copy", 16), (2, "store", 16)]), done.stderr
    assert refused.startswith("Nothing in it can be traced. A bulk copy (TMA) names a descriptor")


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


ADD_ONE = Path(__file__).parents[1] / "data" / "ir" / "add_one.ttir"
PLAN = "addresses=load+store;slots=16"


def level(emit: str, text: str = "", plan: str = PLAN) -> str:
    return run(text or ADD_ONE.read_text(), None if text else "cuda:90", {}, plan, [], emit, False)


def test_the_levels_of_opt() -> None:
    kperf, gpu = level("kperf"), level("kperf-gpu")
    assert '"kperf.start_instrumentation"() <{analysis = "addresses", kinds = "load+store"}>' in kperf
    assert gpu.count("kperf_gpu.store_address") == 2 and "slots 16 : i32 record_bytes 256 : i32 lanes 32 : i32" in gpu
    ptx = level("ptx")
    assert len(OWN.findall(ptx)) == 2
    assert level("ptx", kperf) == level("ptx", level("ttgir")) == ptx
    with pytest.raises(LoweringError, match="bounds a trace of addresses, and the plan has none"):
        level("ptx", kperf, "regions=auto")


def test_a_stop_in_the_text_bounds_the_trace() -> None:
    lines = level("kperf").split("\n")
    store = next(i for i, line in enumerate(lines) if '"tt.store"' in line)
    lines.insert(store, '    "kperf.stop_instrumentation"() <{analysis = "addresses"}> : () -> ()')
    gpu = level("kperf-gpu", "\n".join(lines))
    assert gpu.count("kperf_gpu.store_address") == gpu.count('kind "load"') == 1


def test_what_it_costs_is_inspected() -> None:
    shown = measure.run(ADD_ONE.read_text(), "cuda:90", {}, PLAN, {}, "")
    assert shown["sites"] == 2 and shown["place_reason"] == "global memory: addresses are written to it"
    assert shown["instrumented"]["instructions"] > shown["plain"]["instructions"]
