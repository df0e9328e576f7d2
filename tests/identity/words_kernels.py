"""Every word of the in-kernel language, in a kernel, in what it calls, in loops and branches."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource

import kperfir.language as kl


@triton.jit
def normalised(row):
    with kl.scope("normalise"):
        top = tl.max(row, 0)
        with kl.scope("exponential"):
            row = tl.exp(row - top)
    return row / tl.sum(row, 0)


@triton.jit
def rows(x, out, n, flag, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n * BLOCK + tl.arange(0, BLOCK)
    kl.mark("start")
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        kl.enter("load")
        row = tl.load(x + at + i * BLOCK)
        kl.exit("load")
        with kl.scope("work"):
            total += normalised(row)
            kl.mark("added")
    if flag > 0:
        with kl.scope("twice"):
            total = total * 2 + tl.load(x)
    for _ in tl.static_range(2):
        with kl.scope("unrolled"):
            total += tl.load(out + at)
    with kl.scope("store"):
        tl.store(out + at, total)


def words_cases() -> dict[str, tuple[ASTSource, dict[str, Any]]]:
    """Name -> source and options."""
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "flag": "i32", "BLOCK": "constexpr"}
    return {"words": (ASTSource(rows, signature, {(4,): 1024}, {(0,): [["tt.divisibility", 16]]}), {"num_warps": 4})}
