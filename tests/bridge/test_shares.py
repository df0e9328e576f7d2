"""Fidelity of compiled kernels: clock reads are told in SASS, lines of the program stay, what is absent is said."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kperfir.bridge.shares as bridge_shares
import kperfir.language as kl
from kperfir.bridge.asm_lines import on_their_lines
from kperfir.bridge.binary import disassembled
from kperfir.bridge.build import Twin, compile_instrumented
from kperfir.bridge.request import Request
from kperfir.bridge.shares import shares_of, write_shares
from kperfir.capture.reader import read_capture
from kperfir.capture.schema import Session
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import BridgeError
from kperfir.fidelity import FIRST_SITE_LINE, Kept, doubt
from kperfir.targets.sass import read_sass

H100 = GPUTarget("cuda", 90, 32)
KEPT = (Kept("a", "scope", "k.py", 1, (0,), (("k.py", 2),)),)


@triton.jit
def whole(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        with kl.scope("copy"):
            tl.store(y + i * BLOCK + at, tl.load(x + i * BLOCK + at) + 1.0)


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with kl.scope("first"):
        a = tl.load(x + at)
    with kl.scope("again"):
        b = tl.load(x + at)
    with kl.scope("dead"):
        tl.load(x + n + at)
    tl.store(y + at, a + b)


@triton.jit
def computing(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    with kl.scope("squares"):
        a = a * a + 1.0
        a = a * a + 2.0
    tl.store(y + at, a + n)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def source(fn=whole):  # type: ignore[no-untyped-def]
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    return ASTSource(fn, signature, {(3,): 1024}, {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]})


def user_lines(ptx: str) -> set[tuple[str, str]]:
    """(file, line) of all instructions that are not kperfir's; of inline assembly the first."""
    ptx = on_their_lines(ptx)
    files = dict(re.findall(r'\.file\s+(\d+) "(.*?)"', ptx))
    found = {(files[file], line) for file, line in re.findall(r"\.loc\s+(\d+) (\d+) ", ptx)}
    return {(file, line) for file, line in found if file != "kperfir"}


@pytest.mark.parametrize("capability", [80, 90])
def test_every_clock_read_is_told_by_its_line_and_loads_and_stores_lie_between(capability: int) -> None:
    built = compile_instrumented(source(), GPUTarget("cuda", capability, 32), {}, Request(("load",)))
    code = read_sass(disassembled(built.kernel.asm["cubin"], with_lines=True))
    reads = [op.frames[0] for op in code.instructions if "SR_CLOCK" in op.operands and op.frames]
    sites = {line - FIRST_SITE_LINE for file, line in reads if file == "kperfir" and line >= FIRST_SITE_LINE}
    assert sites == {site.id for site in built.table.sites}
    found = shares_of(0, "cuda", built.kernel.asm["cubin"], built.fidelity, built.table)
    scope, rule = found.shares
    assert found.absent == "" and scope is not None and rule is not None
    assert scope.work == scope.work_between > rule.work > 0
    assert rule.own == rule.between == rule.work
    assert scope.own > scope.between >= scope.work_between  # addresses lie in front of the first load


def test_lines_of_the_program_stay_and_plain_builds_know_nothing_of_it() -> None:
    plain = triton.compile(source(), target=H100).asm["ptx"]
    built = compile_instrumented(source(), H100, {}, Request(())).kernel.asm["ptx"]
    assert "kperfir" not in plain and '"kperfir"' in built
    assert user_lines(built) == user_lines(plain)


def test_inline_assembly_stands_on_its_first_line_and_nothing_else_changes() -> None:
    inside = "// begin inline asm\n.loc 1 37 42\nmov.u32 a, 0;\n{second}ld.global b;\n// end inline asm\n.loc 1 38 1"
    counted, right = inside.format(second="\t.loc 1 38 42\n"), inside.format(second="")
    assert on_their_lines(f".loc 1 9 1\n.loc 1 37 42\n{counted}\n{counted}") == (
        f".loc 1 9 1\n.loc 1 37 42\n{right}\n{right}"
    )


def test_fates_of_a_compiled_kernel_are_kept_in_its_metadata() -> None:
    for _ in range(2):  # compiled, and from the cache
        built = compile_instrumented(source(twice), H100, {}, Request(()))
        loads = {k.name: f for k in built.fidelity for f in k.fates if f.name == "tt.load"}
        assert (loads["first"].kept, loads["first"].vanished) == (1, 0)
        assert (loads["again"].kept, loads["again"].merged, loads["again"].merged_with) == (0, 1, ("first",))
        assert (loads["dead"].kept, loads["dead"].merged, loads["dead"].vanished) == (0, 0, 1)
    assert [k.regions for k in built.fidelity] == [(0,), (), ()]


def test_what_is_absent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = triton.compile(source(), target=H100).asm["cubin"]
    built = compile_instrumented(source(), H100, {}, Request(()))
    assert "no line info" in shares_of(0, "cuda", plain, built.fidelity, built.table).absent
    assert "NVIDIA" in shares_of(0, "hip", b"", built.fidelity, built.table).absent

    def missing(*_: object, **__: object) -> str:
        raise BridgeError("There is no nvdisasm.", "Install it.")

    monkeypatch.setattr(bridge_shares, "disassembled", missing)
    found = shares_of(0, "cuda", plain, built.fidelity, built.table)
    assert (found.absent, found.shares) == ("There is no nvdisasm. Install it", ())


@pytest.mark.parametrize(("seconds", "words"), [(-1.0, "had taken 10 s"), (10.0, "failed with KeyError")])
def test_closing_ends_whatever_a_binary_is(
    seconds: float, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(bridge_shares, "shares_of", fail)
    monkeypatch.setattr(bridge_shares, "_MOST_SECONDS", seconds)
    kernel = SimpleNamespace(metadata=SimpleNamespace(target=H100), asm={"cubin": b""})
    with CaptureWriter(tmp_path / "x.kperf") as writer:
        writer.write(Session("gpu", "regions=auto"))
        write_shares(writer, [(0, Twin(None, fidelity=KEPT)), (1, Twin(kernel)), (2, Twin(kernel, fidelity=KEPT))])
    shares = read_capture(tmp_path / "x.kperf").shares
    assert list(shares) == [2] and words in shares[2].absent


def doubt_of(fn, name: str) -> tuple[str, str] | None:  # type: ignore[no-untyped-def]
    built = compile_instrumented(source(fn), H100, {}, Request(()))
    found = shares_of(0, "cuda", built.kernel.asm["cubin"], built.fidelity, built.table)
    (at,) = (i for i, kept in enumerate(built.fidelity) if kept.name == name)
    return doubt(built.fidelity[at], found.shares[at])


def test_a_scope_around_a_load_and_a_store_is_not_doubted_for_its_addresses() -> None:
    assert doubt_of(whole, "copy") is None


def test_arithmetic_that_stays_between_its_clocks_is_not_doubted() -> None:
    assert doubt_of(computing, "squares") is None
