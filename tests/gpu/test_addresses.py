"""Address traces on a GPU: every lane's address is the one that pointers and indices predict, and no result changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import kperfir as kp  # noqa: E402
import kperfir.language as kl  # noqa: E402

CTAS, WARPS, LANES, STRIDE = 50, 4, 32, 16
BLOCK = WARPS * LANES  # one element a thread: lane l of warp w has element 32 * w + l
COUNT = CTAS * BLOCK - 37  # the last lanes of the last CTA are masked off


@triton.jit
def coalesced(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with kl.scope("read"):
        value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value, mask=at < n)


@triton.jit
def strided(x, out, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n), mask=at < n)


@triton.jit
def gather(x, index, counts, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(index + at, mask=at < n, other=0)
    tl.store(out + at, tl.load(x + where, mask=at < n), mask=at < n)
    tl.atomic_add(counts + where, 1, mask=at < n)


@triton.jit
def vectors(x, out, turns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK * turns + tl.arange(0, BLOCK)
    for i in range(turns):
        tl.store(out + at + i * BLOCK, tl.load(x + at + i * BLOCK))


@triton.jit
def matmul(a, b, out, k, M: tl.constexpr, K: tl.constexpr):
    rows, inner = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), tl.float32)
    for i in range(0, k, K):
        left = tl.load(a + rows[:, None] * k + inner[None, :] + i)
        right = tl.load(b + (inner[:, None] + i) * M + rows[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * M + rows[None, :], total)


def elements() -> Any:
    """Element of each thread, shape (CTAs, warps, lanes); -1 where it is masked off."""
    all_of = np.arange(CTAS * BLOCK).reshape(CTAS, WARPS, LANES)
    return np.where(all_of < COUNT, all_of, -1)


def predicted(tensor: Any, indices: Any) -> Any:
    """Address of each lane's element of a tensor, 0 where it is -1."""
    return np.where(indices < 0, 0, tensor.data_ptr() + indices * tensor.element_size()).astype(np.uint64)


def traced(path: Path) -> dict[str, Any]:
    """Addresses of the kernel's operations in order, each of shape (CTAs, warps, lanes): one request a warp."""
    trace = kp.load(path)
    assert [p.code for p in trace.problems()] == []
    table = trace.addresses().to_pandas()
    assert (table["sm"] >= 0).all() and (table.groupby(["cta", "warp"])["order"].max() + 1).eq(
        table["operation"].nunique()
    ).all()
    found = {}
    for _, rows in table.groupby("operation"):
        rows = rows.sort_values(["cta", "warp"])
        assert list(zip(rows["cta"], rows["warp"], strict=True)) == [(c, w) for c in range(CTAS) for w in range(WARPS)]
        lanes = np.stack(rows["addresses"].to_list()).reshape(CTAS, WARPS, LANES)
        bits = (lanes != 0) * (np.uint64(1) << np.arange(LANES, dtype=np.uint64))
        assert (rows["active_lanes"].to_numpy() == bits.sum(axis=2, dtype=np.uint64).ravel()).all()
        found[f"{rows['kind'].iloc[0]} {rows['line'].iloc[0]}"] = lanes
    return found


def line(kernel: Any, behind: int) -> int:
    return int(kernel.fn.__code__.co_firstlineno) + behind


def units(addresses: Any, size: int) -> float:
    """Mean count of distinct units over requests with an active lane; no access of these kernels lies in two."""
    counts = [len({int(a) // size for a in row if a}) for row in addresses.reshape(-1, LANES)]
    return float(np.mean([count for count in counts if count]))


def test_a_coalesced_load(tmp_path: Path) -> None:
    x = torch.randn(CTAS * BLOCK, device="cuda")
    plain, recorded = torch.zeros_like(x), torch.zeros_like(x)
    coalesced[(CTAS,)](x, plain, COUNT, BLOCK, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", addresses="load+store"):
        coalesced[(CTAS,)](x, recorded, COUNT, BLOCK, num_warps=WARPS)
    assert torch.equal(plain, recorded)
    found = traced(tmp_path / "x.kperf")
    assert list(found) == [f"load {line(coalesced, 4)}", f"store {line(coalesced, 5)}"]
    for tensor, lanes in zip((x, recorded), found.values(), strict=True):
        assert (lanes == predicted(tensor, elements())).all()
    trace = kp.load(tmp_path / "x.kperf")
    (kernel,) = trace.summary().kernels
    for operation in kernel.memory:
        assert (operation.pattern, operation.stride_bytes, operation.lines) == ("constant", 4, 1)
        assert operation.sectors == operation.ideal_sectors == units(found[f"load {line(coalesced, 4)}"], 32)
        assert (operation.requests, operation.inactive, operation.width_bytes) == (CTAS * WARPS, 1, 4)
    assert [operation.region for operation in kernel.memory] == ["read", ""]
    assert kernel.written == kernel.kept == CTAS * WARPS * 2
    assert "4 B" in str(trace.summary())


def test_a_strided_load(tmp_path: Path) -> None:
    x = torch.randn(CTAS * BLOCK * STRIDE, device="cuda")
    plain, recorded = (torch.zeros(CTAS * BLOCK, device="cuda") for _ in range(2))
    strided[(CTAS,)](x, plain, COUNT, STRIDE, BLOCK, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", plan="addresses=load"):
        strided[(CTAS,)](x, recorded, COUNT, STRIDE, BLOCK, num_warps=WARPS)
    assert torch.equal(plain, recorded)
    (lanes,) = traced(tmp_path / "x.kperf").values()
    each = elements()
    assert (lanes == predicted(x, np.where(each < 0, -1, each * STRIDE))).all()
    (operation,) = kp.load(tmp_path / "x.kperf").summary().kernels[0].memory
    assert (operation.pattern, operation.stride_bytes) == ("constant", 4 * STRIDE)
    assert operation.sectors == units(lanes, 32) == operation.active_lanes
    assert operation.lines == units(lanes, 128)


def test_a_gather(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    index = random.integers(0, 1 << 20, CTAS * BLOCK)
    x = torch.randn(1 << 20, device="cuda")
    where = torch.from_numpy(index).cuda()
    plain, recorded = (torch.zeros(CTAS * BLOCK, device="cuda") for _ in range(2))
    counts = [torch.zeros(1 << 20, dtype=torch.int32, device="cuda") for _ in range(2)]
    gather[(CTAS,)](x, where, counts[0], plain, COUNT, BLOCK, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", addresses="all"):
        gather[(CTAS,)](x, where, counts[1], recorded, COUNT, BLOCK, num_warps=WARPS)
    assert torch.equal(plain, recorded) and torch.equal(*counts)
    each = elements()
    chosen = np.where(each < 0, -1, index[each])
    expected = {
        f"load {line(gather, 3)}": predicted(where, each),
        f"load {line(gather, 4)}": predicted(x, chosen),
        f"store {line(gather, 4)}": predicted(recorded, each),
        f"atomic {line(gather, 5)}": predicted(counts[1], chosen),
    }
    found = traced(tmp_path / "x.kperf")
    assert found.keys() == expected.keys()
    for name, lanes in found.items():
        assert (lanes == expected[name]).all(), name
    (kernel,) = kp.load(tmp_path / "x.kperf").summary().kernels
    memory = {f"{o.kind} {o.line}": o for o in kernel.memory}
    assert [o.pattern for o in kernel.memory] == ["constant", "gather", "constant", "gather"]
    assert list(memory) == list(expected)
    for name, operation in memory.items():
        assert operation.sectors == pytest.approx(units(expected[name], 32))
        assert operation.lines == pytest.approx(units(expected[name], 128))


def test_vectors_in_a_loop_and_a_bounded_sample(tmp_path: Path) -> None:
    """16 bytes a lane; a warp keeps its first 8 accesses, of which it has two a turn; CTAs and warps are chosen."""
    turns, size, slots = 10, WARPS * LANES * 4, 8
    x = torch.randn(CTAS * size * turns, device="cuda")
    plain, recorded = torch.zeros_like(x), torch.zeros_like(x)
    vectors[(CTAS,)](x, plain, turns, size, num_warps=WARPS)
    with kp.record(tmp_path / "x.kperf", addresses="load+store", slots=slots, ctas="0-:7", warps="1-2"):
        vectors[(CTAS,)](x, recorded, turns, size, num_warps=WARPS)
    assert torch.equal(plain, recorded)
    trace = kp.load(tmp_path / "x.kperf")
    chosen = [(cta, warp) for cta in range(0, CTAS, 7) for warp in (1, 2)]
    (launch,) = trace.launches
    assert (launch.written, launch.kept) == (len(chosen) * 2 * turns, len(chosen) * slots)
    assert [p.code for p in trace.problems()] == ["dropped"]
    rows = {(r["cta"], r["warp"], r["order"]): r for r in trace.addresses().to_pylist()}
    assert sorted(rows) == [(cta, warp, order) for cta, warp in chosen for order in range(slots)]
    for (cta, warp, order), row in rows.items():
        tensor, turn = (recorded if order % 2 else x), order // 2
        first = (cta * turns + turn) * size + warp * LANES * 4
        assert row["kind"] == ("store" if order % 2 else "load") and row["width_bytes"] == 16
        assert row["addresses"] == [tensor.data_ptr() + 4 * (first + 4 * lane) for lane in range(LANES)]


@pytest.mark.parametrize("k", [32, 256])
def test_async_copies_of_a_pipelined_loop(k: int, tmp_path: Path) -> None:
    """Every 16 bytes of both matrices are copied once: what the pipeline would load beyond the end is no access."""
    size, inner = 64, 32
    a = torch.randn(size, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, size, device="cuda", dtype=torch.float16)
    plain, recorded = (torch.zeros(size, size, device="cuda") for _ in range(2))
    matmul[(1,)](a, b, plain, k, size, inner, num_warps=4, num_stages=3)
    with kp.record(tmp_path / "x.kperf", addresses="async-copy", slots=256):
        matmul[(1,)](a, b, recorded, k, size, inner, num_warps=4, num_stages=3)
    assert torch.equal(plain, recorded)
    trace = kp.load(tmp_path / "x.kperf")
    assert [p.code for p in trace.problems()] == []
    table = trace.addresses()
    assert set(table["kind"].to_pylist()) == {"async-copy"} and set(table["width_bytes"].to_pylist()) == {16}
    copied = Counter(address for lanes in table["addresses"].to_pylist() for address in lanes if address)
    chunks = [t.data_ptr() + 16 * i for t in (a, b) for i in range(t.numel() * 2 // 16)]
    assert copied == Counter(chunks)
    # a warp copies whole rows of b, which lie together, and 64 bytes of each row of a
    patterns = {o.line: o.pattern for o in trace.summary().kernels[0].memory}
    assert patterns == {line(matmul, 5): "tiled" if k > inner else "constant", line(matmul, 6): "constant"}


def test_a_later_recording_of_times_is_as_ever(tmp_path: Path) -> None:
    """The twin that traces addresses and the one that records times are two."""
    x = torch.randn(CTAS * BLOCK, device="cuda")
    out = torch.zeros_like(x)
    with kp.record(tmp_path / "a.kperf", addresses="load"):
        coalesced[(CTAS,)](x, out, COUNT, BLOCK, num_warps=WARPS)
    with kp.record(tmp_path / "t.kperf"):
        coalesced[(CTAS,)](x, out, COUNT, BLOCK, num_warps=WARPS)
    assert kp.load(tmp_path / "a.kperf").events().num_rows == 0
    times = kp.load(tmp_path / "t.kperf")
    assert times.addresses().num_rows == 0 and times.events().num_rows > 0
