"""Kernels that are compiled for every target: what schedulers do to them differs most."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def softmax(out, x, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        value = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * columns + at, value / tl.sum(value, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, out, weight, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        total += tl.load(x + row + start + tl.arange(0, BLOCK))
    mean = tl.sum(total, axis=0) / columns
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + row + at, (tl.load(x + row + at) - mean) * tl.load(weight + at) * eps)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns, depth = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_at, b_at = a + rows[:, None] * K + depth[None, :], b + depth[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def persistent_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        rows, columns = tile // across * BM + tl.arange(0, BM), tile % across * BN + tl.arange(0, BN)
        depth = tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            left = tl.load(a + rows[:, None] * K + k * BK + depth[None, :])
            right = tl.load(b + (k * BK + depth)[:, None] * N + columns[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def tma_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        total = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, scale, context, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows, dims, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    queries = tl.load(q + rows[:, None] * D + dims[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    norm = tl.zeros([BM], tl.float32)
    total = tl.zeros([BM, D], tl.float32)
    for start in range(0, context, BN):
        scores = tl.dot(queries, tl.load(k + (start + cols)[None, :] * D + dims[:, None])) * scale
        new = tl.maximum(top, tl.max(scores, 1))
        weights = tl.math.exp2(scores - new[:, None])
        keep = tl.math.exp2(top - new)
        norm = norm * keep + tl.sum(weights, 1)
        values = tl.load(v + (start + cols)[:, None] * D + dims[None, :])
        total = tl.dot(weights.to(tl.float16), values, total * keep[:, None])
        top = new
    tl.store(out + rows[:, None] * D + dims[None, :], (total / norm[:, None]).to(tl.float16))


@triton.jit
def attention_backward_keys(
    q, k, v, do, dk, dv, top, delta, scale, context, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    """Gradients of keys and values: a block of keys against all queries. Scores are in powers of two."""
    cols, dims = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    block = cols[:, None] * D + dims[None, :]
    keys, values = tl.load(k + block), tl.load(v + block)
    dkeys, dvalues = tl.zeros([BN, D], tl.float32), tl.zeros([BN, D], tl.float32)
    for start in range(0, context, BM):
        rows = start + tl.arange(0, BM)
        queries = tl.load(q + rows[:, None] * D + dims[None, :])
        grads = tl.load(do + rows[:, None] * D + dims[None, :])
        weights = tl.math.exp2(tl.dot(keys, tl.trans(queries)) * scale - tl.load(top + rows)[None, :])
        dvalues = tl.dot(weights.to(tl.float16), grads, dvalues)
        dscores = weights * (tl.dot(values, tl.trans(grads)) - tl.load(delta + rows)[None, :])
        dkeys = tl.dot(dscores.to(tl.float16), queries, dkeys)
    tl.store(dk + block, (dkeys * scale).to(tl.float16))
    tl.store(dv + block, dvalues.to(tl.float16))


@triton.jit
def attention_backward_queries(
    q, k, v, do, dq, top, delta, scale, context, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    """Gradient of queries: a block of queries against all keys."""
    rows, dims = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    block = rows[:, None] * D + dims[None, :]
    queries, grads = tl.load(q + block), tl.load(do + block)
    highest, correction = tl.load(top + rows)[:, None], tl.load(delta + rows)[:, None]
    dqueries = tl.zeros([BM, D], tl.float32)
    for start in range(0, context, BN):
        cols = start + tl.arange(0, BN)
        keys = tl.load(k + cols[:, None] * D + dims[None, :])
        values = tl.load(v + cols[:, None] * D + dims[None, :])
        weights = tl.math.exp2(tl.dot(queries, tl.trans(keys)) * scale - highest)
        dscores = weights * (tl.dot(grads, tl.trans(values)) - correction)
        dqueries = tl.dot(dscores.to(tl.float16), keys, dqueries)
    tl.store(dq + block, (dqueries * scale).to(tl.float16))


def cases(backend: str) -> dict[str, tuple[ASTSource, dict[str, Any]]]:
    """Name -> source and options, for "cuda" or "hip"."""
    tiles = {"BM": 128, "BN": 128, "BK": 64}
    operands = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    stages = 3 if backend == "cuda" else 2
    found = {
        "vector_add": (_source(vector_add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, BLOCK=1024), {}),
        "softmax": (_source(softmax, {"out": "*fp32", "x": "*fp32", "rows": "i32", "columns": "i32"}, BLOCK=1024), {}),
        "layer_norm": (
            _source(
                layer_norm,
                {"x": "*fp32", "out": "*fp32", "weight": "*fp32", "columns": "i32", "eps": "fp32"},
                BLOCK=1024,
            ),
            {},
        ),
        "matmul-1": (_source(matmul, operands, **tiles), {"num_warps": 8, "num_stages": 1}),
        "matmul-3": (_source(matmul, operands, **tiles), {"num_warps": 8, "num_stages": stages}),
        "persistent_matmul": (_source(persistent_matmul, operands, **tiles), {"num_warps": 8, "num_stages": stages}),
        "attention": (
            _source(
                attention,
                {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "scale": "fp32", "context": "i32"},
                BM=128,
                BN=64,
                D=64,
            ),
            {"num_warps": 4, "num_stages": stages},
        ),
    }
    half = {name: "*fp16" for name in ("q", "k", "v", "do", "dq", "dk", "dv")}
    backward = half | {"top": "*fp32", "delta": "*fp32", "scale": "fp32", "context": "i32"}
    for fn, rows, columns in ((attention_backward_keys, 64, 128), (attention_backward_queries, 128, 64)):
        options = {"num_warps": 8, "num_stages": stages}
        found[fn.fn.__name__] = (_source(fn, backward, BM=rows, BN=columns, D=64), options)
    if backend == "cuda":
        tile, whole = "tensordesc<fp16[128, 64]>", "tensordesc<fp16[128, 128]>"
        found["tma_matmul"] = (
            _source(tma_matmul, {"a": tile, "b": tile, "c": whole, "K": "i32"}, **tiles),
            {"num_warps": 8, "num_stages": 3},
        )
    return found


def _source(fn: Any, signature: dict[str, str], **constants: int) -> ASTSource:
    names = fn.arg_names
    full = {name: "constexpr" if name in constants else signature[name] for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    divisible = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(names)
        if full[name].startswith("*") or (full[name] == "i32")
    }
    return ASTSource(fn, full, values, divisible)
