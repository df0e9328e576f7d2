"""Gluon kernels on a GPU: bit for bit with and without records, every warp's regions counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from gluon_kernels import BK, BM, BN, STAGES, TILE, persistent_matmul, specialised_matmul, staged_scale  # noqa: E402
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor  # noqa: E402

import kperfir as kp  # noqa: E402

ITERATIONS = 8
CTAS = 4
WHOLE: dict[str, Any] = {"first": 1, "every": 0, "buffer": "global", "slots": 1024}


def consumer(n: int) -> dict[tuple[str, str], int]:
    """Waits for a slot and for its dot, once each an iteration; writes its tile behind the loop."""
    scopes = {("scope", "full"): n, ("scope", "mma"): n, ("scope", "epilogue"): 1}
    return scopes | {("rule", "wait"): 2 * n, ("rule", "dot.issue"): n}


def producer(n: int) -> dict[tuple[str, str], int]:
    """Waits for an empty slot, expects its bytes and starts three copies, each on a line of its own."""
    return {("scope", "empty"): n, ("scope", "copy"): n, ("rule", "wait"): n, ("rule", "load.issue"): 4 * n}


def matmul(seed: int) -> Callable[[], torch.Tensor]:
    torch.manual_seed(seed)
    m, n, k = 4 * BM, 2 * BN, ITERATIONS * BK
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.float16) for rows in (m, n))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    tensors = ((a, [BM, BK]), (b, [BN, BK]), (c, [BM, BN]))
    descriptors = [TensorDescriptor.from_tensor(x, block, TILE) for x, block in tensors]

    def launch() -> torch.Tensor:
        c.zero_()
        specialised_matmul[(2, 2)](*descriptors, k, BM, BN, BK, STAGES, num_warps=4)
        return c

    torch.testing.assert_close(launch(), a @ b.T, rtol=1e-2, atol=1e-1)
    return launch


TILES_A_CTA = 4


def persistent(seed: int) -> Callable[[], torch.Tensor]:
    """4 x 4 tiles for `CTAS` CTAs."""
    torch.manual_seed(seed)
    m, n, k = 4 * BM, 4 * BN, ITERATIONS * BK
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.float16) for rows in (m, n))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    tensors = ((a, [BM, BK]), (b, [BN, BK]), (c, [BM, BN]))
    descriptors = [TensorDescriptor.from_tensor(x, block, TILE) for x, block in tensors]

    def launch() -> torch.Tensor:
        c.zero_()
        persistent_matmul[(CTAS,)](*descriptors, CTAS * TILES_A_CTA, 4, k, BM, BN, BK, STAGES, num_warps=4)
        return c

    torch.testing.assert_close(launch(), a @ b.T, rtol=1e-2, atol=1e-1)
    return launch


@pytest.mark.parametrize(("iterations", "tiles"), [("all", [0, 1, 2, 3]), ("1-2", [1, 2]), ("0+last-1", [0, 3])])
def test_windows_of_tiles_cover_the_same_in_producer_and_consumer(
    iterations: str, tiles: list[int], tmp_path: Path
) -> None:
    """Both have a loop over k inside, and the consumer writes each tile behind it.

    Triton pads partitions to a warp group, so the producer's warp is one of four behind the consumer's.
    """
    launch = persistent(0)
    plain = launch().clone()
    plan = {"regions": "none", "version": "tile", "iterations": iterations, "buffer": "global", "slots": 1024}
    with kp.record(tmp_path / "x.kperf", **plan):
        assert torch.equal(plain, launch())
    rows = kp.load(tmp_path / "x.kperf").events().to_pylist()
    found = Counter((e["cta"], min(e["warp"], 4), e["region"], e["iteration"]) for e in rows)
    assert len({e["warp"] for e in rows}) == 5
    consumed = {"full": ITERATIONS, "mma": ITERATIONS, "epilogue": 1}
    expected = Counter(
        {
            (cta, warp, name, tile): count
            for cta in range(CTAS)
            for tile in tiles
            for warps, counts in ((range(4), consumed), ((4,), {"empty": ITERATIONS}))
            for warp in warps
            for name, count in counts.items()
        }
    )
    assert found == expected


def scale(seed: int) -> Callable[[], torch.Tensor]:
    torch.manual_seed(seed)
    x = torch.randn(CTAS * ITERATIONS * 512, device="cuda")
    out = torch.empty_like(x)

    def launch() -> torch.Tensor:
        out.zero_()
        staged_scale[(CTAS,)](x, out, ITERATIONS, 1.5, BLOCK=512, num_warps=4)
        return out

    torch.testing.assert_close(launch(), x * 1.5)
    return launch


@pytest.mark.parametrize("plan", [{"buffer": "global", "slots": 1024}, {}, {"regions": "none"}], ids=str)
@pytest.mark.parametrize("make", [matmul, scale])
def test_results_are_the_same_bit_for_bit(make: Callable[..., Any], plan: dict[str, Any], tmp_path: Path) -> None:
    for seed in range(3):
        launch = make(seed)
        plain = launch().clone()
        assert torch.equal(plain, launch()), "this kernel is not deterministic"
        with kp.record(tmp_path / f"{seed}.kperf", first=1, every=0, **plan):
            recorded = launch().clone()
        trace = kp.load(tmp_path / f"{seed}.kperf")
        assert len(trace.launches) == 1 and "not-recorded" not in {p.code for p in trace.problems()}
        assert torch.equal(plain, recorded)


def test_every_warp_of_a_specialised_kernel_writes_its_own_regions(tmp_path: Path) -> None:
    launch = matmul(0)
    with kp.record(tmp_path / "x.kperf", **WHOLE):
        launch()
    (recorded,) = kp.load(tmp_path / "x.kperf").launches
    default = consumer(ITERATIONS) | {("kernel", "kernel"): 1}
    second = consumer(ITERATIONS) | {("kernel", "partition 0"): 1}
    third = producer(ITERATIONS) | {("kernel", "partition 1"): 1}
    for found in by_warp(recorded):
        assert [counts for counts in found if counts] == [default] * 4 + [second] * 4 + [third]


def test_counts_of_a_kernel_with_asynchronous_copies(tmp_path: Path) -> None:
    launch = scale(0)
    with kp.record(tmp_path / "x.kperf", **WHOLE):
        launch()
    (recorded,) = kp.load(tmp_path / "x.kperf").launches
    n = ITERATIONS
    expected = {("kernel", "kernel"): 1, ("scope", "arrive"): n, ("rule", "wait"): n}
    expected |= {("rule", "load.issue"): 2 * n, ("rule", "store"): n}
    assert by_warp(recorded) == [[expected] * 4] * CTAS


def by_warp(launch: Any) -> list[list[dict[tuple[str, str], int]]]:
    """How often each region occurs, for every CTA and warp."""
    regions = {r.id: (r.origin, r.name) for r in launch.kernel.table.regions}
    found = [[Counter() for _ in row] for row in launch.written_by_warp]
    spans = launch.spans
    for row, warp, region in zip(spans.row.tolist(), spans.warp.tolist(), spans.region.tolist()):
        found[row][warp][regions[region]] += 1
    return [[dict(counts) for counts in row] for row in found]
