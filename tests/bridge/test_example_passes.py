"""The example passes, compiled for sm_90: which operations they record, and that each site is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kperfir.bridge.build import Instrumented, compile_instrumented
from kperfir.bridge.request import Request
from kperfir.passes.registry import bind

EXAMPLES = Path(__file__).parents[2] / "examples" / "passes"
H100 = GPUTarget("cuda", 90, 32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "corpus"))


@triton.jit
def branching(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    if row >= n:
        return
    for i in range(n):
        if i % 3 == 0:
            tl.store(y + i * BLOCK + at, tl.load(x + i * BLOCK + at))
        else:
            tl.atomic_add(y + at, tl.load(x + at))
        if i % 5 == 0:
            tl.store(y + at, tl.load(x + at) * 2)


def recorded(name: str, spec: str, regions: tuple[str, ...] = ()) -> Instrumented:
    if name == "branching":
        signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        source, options = ASTSource(branching, signature, {(3,): 1024}, {}), {}
    else:
        from corpus_kernels import cases
        from gluon_kernels import gluon_cases

        source, options = (cases("cuda") | gluon_cases(90))[name]
    built = compile_instrumented(source, H100, options, Request(regions), bind(str(EXAMPLES / spec)))
    assert stored_sites(built.kernel.asm["ptx"]) == {site.id for site in built.table.sites} != set()
    return built


def stored_sites(ptx: str) -> set[int]:
    """Ids that the kernel's stores of records write."""
    values = {name: int(number) for name, number in re.findall(r"mov\.b32\s+(%r\d+), (\d+);", ptx)}
    return {values[name] for name in re.findall(r"st\.shared\.v2\.b32 \[%r\d+\], \{(%r\d+),", ptx)}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 40


@pytest.mark.parametrize("kernel", ["matmul-3", "attention"])
def test_stages_of_a_pipelined_loop(kernel: str) -> None:
    built = recorded(kernel, "stages.py")
    table = built.table
    assert built.kernel.asm["ptx"].count("%clock;") == len(table.sites)
    operations = {r.name: set(r.operations) for r in table.regions}
    assert operations.keys() == {"iteration", "stage 0", "stage 2"}
    assert {r.name: r.parent for r in table.regions} == {"iteration": None, "stage 0": 0, "stage 2": 0}
    assert "ttg.async_copy_global_to_local" in operations["stage 0"] - operations["stage 2"]
    assert {"ttg.async_wait", "ttng.warp_group_dot"} <= operations["stage 2"] - operations["stage 0"]
    assert all(r.origin == "pass" and r.line for r in table.regions)


def test_a_loop_that_is_not_pipelined_has_no_stages() -> None:
    built = recorded("matmul-1", "stages.py", ("kernel",))
    assert [r.name for r in built.table.regions] == ["kernel"]


def test_branches() -> None:
    built = recorded("branching", "branches.py")
    first = branching.fn.__code__.co_firstlineno  # the decorator's line
    lines = [first + i for i in (4, 7, 11)]
    early, both, then = (f", line {line}" for line in lines)
    marks = {r.name: r for r in built.table.regions}
    ways = {"if" + early, "then" + early, "else" + early, "if" + both, "then" + both, "else" + both}
    assert marks.keys() == ways | {"if" + then, "then" + then}
    assert all(r.origin == "mark" for r in marks.values())
    assert len(built.table.sites) == len(marks)
    # LLVM may read the clock once for both ways of a branch, in front of it
    assert len(marks) - 2 <= built.kernel.asm["ptx"].count("%clock;") <= len(marks)
    assert marks["if" + both].operations == ("scf.if",) and marks["if" + early].operations == ("cf.cond_br",)


@pytest.mark.parametrize(("barrier", "waits"), [("ready", 2), ("empty", 1)])
def test_waits_on_one_named_barrier(barrier: str, waits: int) -> None:
    """Two consumers wait on `ready`, the producer on `empty`; each in a partition of its own."""
    plain = {r.name for r in recorded("gluon_specialised", f"named_barrier.py={barrier}").table.regions}
    assert plain == {"full", "mma", "epilogue", "empty", "copy", f"{barrier}.wait"}
    table = recorded("gluon_specialised", f"named_barrier.py:NamedBarrier={barrier}", ("kernel",)).table
    found = [r for r in table.regions if r.origin == "pass"]
    assert [r.operations for r in found] == [("ttng.wait_barrier",)] * waits
    assert len({r.parent for r in found}) == waits
    assert sum(site.region in {r.id for r in found} for site in table.sites) == 2 * waits


def test_a_barrier_that_is_not_there_is_told_of() -> None:
    (finding,) = recorded("gluon_specialised", "named_barrier.py=full").findings
    assert "waits on: empty, ready" in finding.what
