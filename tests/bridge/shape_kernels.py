"""Kernels with a scope of each shape."""

from __future__ import annotations

import triton
import triton.language as tl

import kperfir.language as kl


@triton.jit
def helper(x, y, at):
    with kl.scope("helper"):
        tl.store(y + at, tl.load(x + at) * 2)


@triton.jit(noinline=True)
def callee(x, y, n):
    with kl.scope("callee"):
        tl.store(y + n, tl.load(x + n))


@triton.jit
def calls_helpers(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with kl.scope("first"):
        helper(x, y, at)
    with kl.scope("second"):
        helper(x + 1, y + 1, at)


@triton.jit
def calls_without_inlining(x, y, n, BLOCK: tl.constexpr):
    with kl.scope("call"):
        callee(x, y, n)
        tl.store(y, 1.0)


@triton.jit
def same_name(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with kl.scope("a"):
        value = tl.load(x + at)
        with kl.scope("a"):
            tl.store(y + at, value)


@triton.jit
def returns_early(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with kl.scope("before"):
        value = tl.load(x + at)
    if n == 3:
        return
    with kl.scope("after"):
        tl.store(y + at, value)


@triton.jit
def returns_at_once(x, y, n, BLOCK: tl.constexpr):
    if tl.program_id(0) >= n:
        return
    at = tl.arange(0, BLOCK)
    with kl.scope("first"):
        value = tl.load(x + at)
    with kl.scope("second"):
        tl.store(y + at, value)


@triton.jit
def marked(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    kl.mark("before")
    for i in range(n):
        with kl.scope("turn"):
            tl.store(y + at + i, tl.load(x + at + i))


@triton.jit
def branches(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with kl.scope("outer"):
        if n == 3:
            with kl.scope("then"):
                tl.store(y + at, tl.load(x + at))
        else:
            with kl.scope("else"):
                tl.store(y + at, tl.load(x + at) + 1)
        while n > 0:
            with kl.scope("turn"):
                tl.store(y + at + n, tl.load(x + at + n))
            n -= 1


@triton.jit
def matmul(a, b, c, K, BLOCK: tl.constexpr, SPECIALISED: tl.constexpr):
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in tl.range(0, K, BLOCK, warp_specialize=SPECIALISED):
        with kl.scope("load"):
            left, right = a.load([0, k]), b.load([k, 0])
        with kl.scope("mma"):
            total = tl.dot(left, right, total)
    with kl.scope("store"):
        c.store([0, 0], total.to(tl.float16))
