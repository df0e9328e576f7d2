"""Kernels that the checks and benchmarks on a GPU run, with inputs and an independent count of their records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
def softmax(out, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, values / tl.sum(values, axis=0), mask=inside)


@triton.jit
def layernorm(x, out, weight, bias, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * columns
    out += row * columns
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        total += tl.load(x + start + tl.arange(0, BLOCK))
    mean = tl.sum(total, axis=0) / columns
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        centred = tl.load(x + start + tl.arange(0, BLOCK)) - mean
        square += centred * centred
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / columns + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = (tl.load(x + at) - mean) * scale
        tl.store(out + at, value * tl.load(weight + at) + tl.load(bias + at))


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


@dataclass(frozen=True)
class Run:
    """A kernel ready to launch.

    Attributes:
        launch: runs it and returns its output.
        iterations: trip count of its main loop, 0 without one. warps: of a CTA.
    """

    name: str
    launch: Callable[[], torch.Tensor]
    grid: tuple[int, ...]
    warps: int
    iterations: int
    stages: int


def runs(seed: int, small: bool = False) -> list[Run]:
    """Every kernel with random inputs."""
    torch.manual_seed(seed)
    return [
        *(_matmul(stages, 512 if small else 4096) for stages in (1, 3, 4)),
        _attention(4 if small else 64, 512 if small else 4096),
        _layernorm(64 if small else 8192),
        _softmax(64 if small else 8192),
    ]


def _matmul(stages: int, size: int) -> Run:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    grid = (size // 128, size // 128)

    def launch() -> torch.Tensor:
        matmul[grid](a, b, c, size, size, size, 128, 128, 64, num_warps=8, num_stages=stages)
        return c

    return Run(f"matmul-{stages}", launch, grid, 8, size // 64, stages)


def _attention(heads: int, context: int) -> Run:
    q, k, v = (torch.randn(heads, context, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    o = torch.empty_like(q)
    grid = (context // 128, heads)

    def launch() -> torch.Tensor:
        attention[grid](q, k, v, o, 0.18, context, 128, 64, 64, num_warps=8, num_stages=3)
        return o

    return Run("attention", launch, grid, 8, context // 64, 3)


def _layernorm(rows: int) -> Run:
    columns = 4096
    x = torch.randn(rows, columns, device="cuda")
    out, weight, bias = torch.empty_like(x), torch.randn(columns, device="cuda"), torch.randn(columns, device="cuda")

    def launch() -> torch.Tensor:
        layernorm[(rows,)](x, out, weight, bias, columns, 1e-5, 1024, num_warps=8)
        return out

    return Run("layernorm", launch, (rows,), 8, columns // 1024, 1)


def _softmax(rows: int) -> Run:
    columns = 1000
    x = torch.randn(rows, columns, device="cuda")
    out = torch.empty_like(x)

    def launch() -> torch.Tensor:
        softmax[(rows,)](out, x, columns, 1024, num_warps=4)
        return out

    return Run("softmax", launch, (rows,), 4, 0, 1)


def describe() -> dict[str, Any]:
    """What a result was measured on."""
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "driver_clocks": _clocks(),
    }


def _clocks() -> str:
    import subprocess

    command = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.max.sm,power.limit,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
