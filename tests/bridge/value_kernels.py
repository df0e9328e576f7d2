"""Kernels whose records carry scalars."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import kperfir.language as kl


@triton.jit
def halved(x):
    half = x / 2
    kl.value("half", half)
    return half


@triton.jit
def rows(x, out, n, BLOCK: tl.constexpr):
    """Values of each type, in a scope, a helper, a loop that is pipelined, and behind it."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(n, num_stages=2):
        with kl.scope("load"):
            kl.value("turn", i)
            row = tl.load(x + at + i * BLOCK)
        total += halved(tl.max(row, 0)) + row
    kl.value("rows", (n + 1).to(tl.uint32))
    kl.value("block", BLOCK)
    tl.store(out + at, total)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The corpus' kernel, with the number of the turn."""
    rows, columns, depth = tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_at, b_at = a + rows[:, None] * K + depth[None, :], b + depth[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        kl.value("turn", k)
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def ends(n):
    kl.end("row", n)


@triton.jit
def events(x, out, n, BLOCK: tl.constexpr):
    """An event starts in one turn and ends in the next; the last behind the loop."""
    at = tl.arange(0, BLOCK)
    for i in range(n):
        if i > 0:
            ends(i - 1)
        kl.begin("row", i)
        tl.store(out + at, tl.load(x + at + i * BLOCK))
    ends(n - 1)


@gluon.jit
def produced(x, out, ready, n):
    for i in range(n):
        kl.begin("item", i)
        mbarrier.arrive(ready, count=1)


@gluon.jit
def consumed(x, out, ready, n):
    for i in range(n):
        mbarrier.wait(ready, i & 1)
        kl.end("item", i)


@gluon.jit
def gluon_events(x, out, n, BLOCK: gl.constexpr):
    """An event starts in one partition and ends in another."""
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    arguments = (x, out, ready, n)
    gl.warp_specialize([(consumed, arguments), (produced, arguments)], [4], [24])


@gluon.jit
def gluon_doubled(x):
    kl.value("doubled", x * 2)
    return x * 2


@gluon.jit
def gluon_rows(x, out, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.arange(0, BLOCK, layout)
    for i in range(n):
        with kl.scope("row"):
            kl.value("turn", i)
            value = gl.load(x + at + gluon_doubled(i) * BLOCK)
            gl.store(out + at, value)


SIGNATURE = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
DIVISIBLE: dict[Any, Any] = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}


def rows_source(kernel: Any = rows) -> ASTSource:
    return ASTSource(kernel, SIGNATURE, {(3,): 1024}, DIVISIBLE)


def gluon_source(kernel: Any = gluon_rows) -> GluonASTSource:
    return GluonASTSource(kernel, SIGNATURE, {(3,): 512}, DIVISIBLE)


def matmul_source() -> ASTSource:
    tiles = {"BM": 128, "BN": 128, "BK": 64}
    signature = dict.fromkeys("abc", "*fp16") | dict.fromkeys("MNK", "i32") | dict.fromkeys(tiles, "constexpr")
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    return ASTSource(matmul, signature, {(6,): 128, (7,): 128, (8,): 64}, divisible)
