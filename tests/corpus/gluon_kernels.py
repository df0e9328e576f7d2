"""Gluon kernels: warp-specialised matmuls for sm_90, one of them persistent, and asynchronous copies for sm_80."""

from __future__ import annotations

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

import kperfir.language as kl

# renamed after Triton 3.6
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
copy = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared

BM, BN, BK, STAGES = 64, 128, 64, 3
TILE = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)


@gluon.jit
def _load(a_desc, b_desc, a_tiles, b_tiles, ready, empty, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """The producer: one warp keeps all slots filled."""
    STAGES: gl.constexpr = ready.shape[0]
    row, column = gl.program_id(0) * 2 * BM, gl.program_id(1) * BN
    for i in range(gl.cdiv(K, BK)):
        slot, phase = i % STAGES, i // STAGES & 1
        with kl.scope("empty"):
            mbarrier.wait(empty.index(slot), phase ^ 1)
        full = ready.index(slot)
        mbarrier.expect(full, 3 * BM * BK * 2 + (BN - BM) * BK * 2)
        with kl.scope("copy"):
            tma_load(a_desc, [row, i * BK], full, a_tiles.index(2 * slot))
            tma_load(a_desc, [row + BM, i * BK], full, a_tiles.index(2 * slot + 1))
            tma_load(b_desc, [column, i * BK], full, b_tiles.index(slot))


@gluon.jit
def _multiply(
    c_desc,
    c_tiles,
    a_tiles,
    b_tiles,
    ready,
    empty,
    K,
    WHO: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
):
    """A consumer: one warp group computes BM rows."""
    STAGES: gl.constexpr = ready.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    total = gl.zeros((BM, BN), gl.float32, layout)
    for i in range(gl.cdiv(K, BK)):
        slot, phase = i % STAGES, i // STAGES & 1
        with kl.scope("full"):
            mbarrier.wait(ready.index(slot), phase)
        with kl.scope("mma"):
            total = warpgroup_mma(
                a_tiles.index(2 * slot + WHO), b_tiles.index(slot).permute((1, 0)), total, is_async=True
            )
            total = warpgroup_mma_wait(0, deps=[total])
        mbarrier.arrive(empty.index(slot), count=1)
    with kl.scope("epilogue"):
        tile = c_tiles.index(WHO)
        tile.store(total.to(gl.float16))
        fence_async_shared()
        row = gl.program_id(0) * 2 * BM + WHO * BM
        tma_store(c_desc, [row, gl.program_id(1) * BN], tile)
        tma.store_wait(pendings=0)


@gluon.jit
def specialised_matmul(
    a_desc, b_desc, c_desc, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, S: gl.constexpr
):
    """C = A B^T: two consumer warp groups of BM rows each, and a producer warp."""
    a_tiles = gl.allocate_shared_memory(gl.float16, [2 * S, BM, BK], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(gl.float16, [S, BN, BK], b_desc.layout)
    c_tiles = gl.allocate_shared_memory(gl.float16, [2, BM, BN], c_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(S):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    gl.warp_specialize(
        [
            (_multiply, (c_desc, c_tiles, a_tiles, b_tiles, ready, empty, K, 0, BM, BN, BK)),
            (_multiply, (c_desc, c_tiles, a_tiles, b_tiles, ready, empty, K, 1, BM, BN, BK)),
            (_load, (a_desc, b_desc, a_tiles, b_tiles, ready, empty, K, BM, BN, BK)),
        ],
        [4, 1],
        [168, 24],
    )


@gluon.jit
def _load_tiles(
    a_desc,
    b_desc,
    a_tiles,
    b_tiles,
    ready,
    empty,
    tiles,
    columns,
    K,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
):
    """The producer, tile by tile."""
    STAGES: gl.constexpr = ready.shape[0]
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row, column = tile // columns * BM, tile % columns * BN
        for i in range(gl.cdiv(K, BK)):
            slot, phase = step % STAGES, step // STAGES & 1
            with kl.scope("empty"):
                mbarrier.wait(empty.index(slot), phase ^ 1)
            full = ready.index(slot)
            mbarrier.expect(full, (BM + BN) * BK * 2)
            tma_load(a_desc, [row, i * BK], full, a_tiles.index(slot))
            tma_load(b_desc, [column, i * BK], full, b_tiles.index(slot))
            step += 1


@gluon.jit
def _multiply_tiles(
    c_desc,
    c_tile,
    a_tiles,
    b_tiles,
    ready,
    empty,
    tiles,
    columns,
    K,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
):
    """The consumer, tile by tile."""
    STAGES: gl.constexpr = ready.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        total = gl.zeros((BM, BN), gl.float32, layout)
        for _ in range(gl.cdiv(K, BK)):
            slot, phase = step % STAGES, step // STAGES & 1
            with kl.scope("full"):
                mbarrier.wait(ready.index(slot), phase)
            with kl.scope("mma"):
                b = b_tiles.index(slot).permute((1, 0))
                total = warpgroup_mma(a_tiles.index(slot), b, total, is_async=True)
                total = warpgroup_mma_wait(0, deps=[total])
            mbarrier.arrive(empty.index(slot), count=1)
            step += 1
        with kl.scope("epilogue"):
            c_tile.store(total.to(gl.float16))
            fence_async_shared()
            tma_store(c_desc, [tile // columns * BM, tile % columns * BN], c_tile)
            tma.store_wait(pendings=0)


@gluon.jit
def persistent_matmul(
    a_desc, b_desc, c_desc, tiles, columns, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, S: gl.constexpr
):
    """C = A B^T: each CTA takes every so many tiles; a consumer warp group and a producer warp."""
    a_tiles = gl.allocate_shared_memory(gl.float16, [S, BM, BK], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(gl.float16, [S, BN, BK], b_desc.layout)
    c_tile = gl.allocate_shared_memory(gl.float16, [BM, BN], c_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(S):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (_multiply_tiles, (c_desc, c_tile, a_tiles, b_tiles, ready, empty, tiles, columns, K, BM, BN, BK)),
            (_load_tiles, (a_desc, b_desc, a_tiles, b_tiles, ready, empty, tiles, columns, K, BM, BN, BK)),
        ],
        [1],
        [24],
    )


@gluon.jit
def staged_scale(x, out, n, scale, BLOCK: gl.constexpr):
    """Rows go through shared memory, the next one on its way while this one is scaled."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    tiles = gl.allocate_shared_memory(gl.float32, [2, BLOCK], shared)
    at = gl.program_id(0) * n * BLOCK + gl.arange(0, BLOCK, layout)
    copy(tiles.index(0), x + at)
    async_copy.commit_group()
    for i in range(n):
        copy(tiles.index((i + 1) % 2), x + at + (i + 1) * BLOCK, mask=i + 1 < n)
        async_copy.commit_group()
        with kl.scope("arrive"):
            async_copy.wait_group(1)
        value = tiles.index(i % 2).load(layout)
        gl.store(out + at + i * BLOCK, value * scale)


def gluon_cases(arch: int) -> dict[str, tuple[GluonASTSource, dict[str, Any]]]:
    """Name -> source and options, for a compute capability."""
    found: dict[str, tuple[GluonASTSource, dict[str, Any]]] = {}
    if arch == 90:
        rows, columns, out = (f"tensordesc<fp16[{m}, {n}],{TILE!r}>" for m, n in ((BM, BK), (BN, BK), (BM, BN)))
        signature = {"a_desc": rows, "b_desc": columns, "c_desc": out, "K": "i32"}
        constants = {"BM": BM, "BN": BN, "BK": BK, "S": STAGES}
        found["gluon_specialised"] = (_source(specialised_matmul, signature, constants), {"num_warps": 4})
        signature = signature | {"tiles": "i32", "columns": "i32"}
        found["gluon_persistent"] = (_source(persistent_matmul, signature, constants), {"num_warps": 4})
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "scale": "fp32"}
    found["gluon_async_copy"] = (_source(staged_scale, signature, {"BLOCK": 512}), {"num_warps": 4})
    return found


def _source(fn: Any, signature: dict[str, str], constants: dict[str, int]) -> GluonASTSource:
    names = fn.arg_names
    values = {(names.index(name),): value for name, value in constants.items()}
    divisible = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in ("x", "out", "K")}
    return GluonASTSource(fn, {name: signature.get(name, "constexpr") for name in names}, values, divisible)
