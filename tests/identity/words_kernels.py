"""Every word of the in-kernel language, in a kernel, in what it calls, in loops and branches."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

import kperfir.language as kl


@triton.jit
def normalised(row):
    with kl.scope("normalise"):
        top = tl.max(row, 0)
        with kl.scope("exponential"):
            row = tl.exp(row - top)
    return row / tl.sum(row, 0)


@triton.jit(noinline=True)
def called(value):
    with kl.scope("called"):
        value = tl.sqrt(value)
    return value


@triton.jit
def rows(x, out, n, flag, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n * BLOCK + tl.arange(0, BLOCK)
    kl.mark("start")
    kl.value("half", n / 2)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        kl.value("turn", i * 3)
        kl.enter("load")
        row = tl.load(x + at + i * BLOCK)
        kl.exit("load")
        kl.begin("row", i + 7)
        kl.end("row", i)
        with kl.scope("work"):
            total += normalised(row)
            kl.mark("added")
    if flag > 0:
        with kl.scope("twice"):
            total = total * 2 + tl.load(x)
    for _ in tl.static_range(2):
        with kl.scope("unrolled"):
            total += tl.load(out + at)
    left = n
    while left > 1:
        with kl.scope("outer"), kl.scope("inner"):
            total += tl.load(x + at + left)
        left = left // 2
    if flag > 9:
        kl.mark("early")
        return
    with kl.scope("store"):
        tl.store(out + at, total * called(tl.sum(total, 0)))


@gluon.jit
def scaled(value, scale):
    with kl.scope("scaled"):
        value = value * scale
    return value


@gluon.jit
def gluon_rows(x, out, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.program_id(0) * n * BLOCK + gl.arange(0, BLOCK, layout)
    kl.mark("start")
    for i in range(n):
        kl.value("turn", i * 3)
        kl.enter("load")
        value = gl.load(x + at + i * BLOCK)
        kl.exit("load")
        kl.begin("row", i + 7)
        kl.end("row", i)
        gl.store(out + at + i * BLOCK, scaled(value, 1.5))


def words_cases() -> dict[str, tuple[ASTSource, dict[str, Any]]]:
    """Name -> source and options."""
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    divisible = {(0,): [["tt.divisibility", 16]]}
    triton_rows = ASTSource(rows, signature | {"flag": "i32"}, {(4,): 1024}, divisible)
    return {
        "words": (triton_rows, {"num_warps": 4}),
        "gluon words": (GluonASTSource(gluon_rows, signature, {(3,): 512}, divisible), {"num_warps": 4}),
    }
