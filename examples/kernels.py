"""A pipelined matmul and a flash-attention forward, with scopes. An ordinary Triton program."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch
import triton
import triton.language as tl

import kperfir.language as kl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    rows, columns, depth = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_at = a_ptr + rows[:, None] * K + depth[None, :]
    b_at = b_ptr + depth[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        with kl.scope("load"):
            a = tl.load(a_at)
            b = tl.load(b_at)
        with kl.scope("mma"):
            total = tl.dot(a, b, total)
        a_at += BK
        b_at += BK * N
    with kl.scope("epilogue"):
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, CTX: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * CTX * D
    rows, dims, cols = block * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(q_ptr + base + rows[:, None] * D + dims[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    norm = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, CTX, BN):
        with kl.scope("scores"):
            k = tl.load(k_ptr + base + (start + cols)[None, :] * D + dims[:, None])
            s = tl.dot(q, k) * scale
        with kl.scope("softmax"):
            new = tl.maximum(top, tl.max(s, 1))
            p = tl.math.exp2(s - new[:, None])
            keep = tl.math.exp2(top - new)
            norm = norm * keep + tl.sum(p, 1)
        with kl.scope("values"):
            v = tl.load(v_ptr + base + (start + cols)[:, None] * D + dims[None, :])
            acc = tl.dot(p.to(tl.float16), v, acc * keep[:, None])
        top = new
    tl.store(o_ptr + base + rows[:, None] * D + dims[None, :], (acc / norm[:, None]).to(tl.float16))


def main() -> None:
    gpu = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
    device, size, heads = ("cuda", 2048, 16) if gpu else ("cpu", 128, 1)
    tile, depth = (128, 64) if gpu else (64, 32)
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device=device, dtype=torch.float16) for _ in range(2))
    c = torch.empty(size, size, device=device, dtype=torch.float16)
    for _ in range(3):
        matmul[(size // tile, size // tile)](a, b, c, size, size, size, tile, tile, depth, num_warps=8, num_stages=3)
    q, k, v = (torch.randn(heads, size, 64, device=device, dtype=torch.float16) for _ in range(3))
    o = torch.empty_like(q)
    for _ in range(3):
        attention[(size // tile, heads)](q, k, v, o, 0.18, size, tile, depth, 64, num_warps=8, num_stages=3)
    error = (c.float() - a.float() @ b.float()).abs().max().item()
    print(f"{'GPU' if gpu else 'interpreter'}: matmul and attention done, largest error of the matmul {error:.3f}")


if __name__ == "__main__":
    main()
