"""Kernels that the checks and benchmarks on a GPU run, with their inputs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from kernels import attention, matmul


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

    @property
    def ctas(self) -> int:
        """Programs of the grid."""
        return math.prod(self.grid)


def runs(seed: int, small: bool = False, depth: int = 0) -> list[Run]:
    """Every kernel with random inputs; `depth` sets the length of the main loop, 64 elements an iteration."""
    torch.manual_seed(seed)
    size = 512 if small else 4096
    return [
        *(_matmul(stages, size, depth or size) for stages in (1, 3, 4)),
        _attention(4 if small else 64, size, depth or size),
        _layernorm(64 if small else 8192, depth * 16 or 4096),
        _softmax(64 if small else 8192),
    ]


def _matmul(stages: int, size: int, depth: int) -> Run:
    a = torch.randn(size, depth, device="cuda", dtype=torch.float16)
    b = torch.randn(depth, size, device="cuda", dtype=torch.float16)
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    grid = (size // 128, size // 128)

    def launch() -> torch.Tensor:
        matmul[grid](a, b, c, size, size, depth, 128, 128, 64, num_warps=8, num_stages=stages)
        return c

    return Run(f"matmul-{stages}", launch, grid, 8, depth // 64, stages)


def _attention(heads: int, context: int, keys: int) -> Run:
    """The kernel knows one length, of queries and keys: with fewer keys the first queries of each head are computed."""
    q, k, v = (torch.randn(heads, context, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    o = torch.zeros_like(q)
    grid = (-(-keys // 128), heads)

    def launch() -> torch.Tensor:
        attention[grid](q, k, v, o, 0.18, keys, 128, 64, 64, num_warps=8, num_stages=3)
        return o

    return Run("attention", launch, grid, 8, keys // 64, 3)


def _layernorm(rows: int, columns: int) -> Run:
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
