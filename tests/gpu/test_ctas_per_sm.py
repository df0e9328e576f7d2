"""CTAs an SM as kperfir reckons them, against the driver's own answer."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from kperfir.bridge.limits import device_limits  # noqa: E402
from kperfir.bridge.occupancy import ctas_per_sm  # noqa: E402
from kperfir.capture.device.driver import Driver  # noqa: E402


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(out + at, tl.sort(value * value) + tl.cumsum(value))


def _of_driver(kernel: Any, warps: int) -> int:
    ctas = ctypes.c_int()
    status = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(ctas),
        ctypes.c_void_p(kernel.function),
        ctypes.c_int(32 * warps),
        ctypes.c_size_t(kernel.metadata.shared),
    )
    assert status == 0
    return ctas.value


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("block", [128, 1024])
@pytest.mark.parametrize("maxnreg", [None, 104])
def test_ctas_per_sm(warps: int, block: int, maxnreg: int | None) -> None:
    x = torch.randn(block, device="cuda")
    kernel = sort_rows[(1,)](x, torch.empty_like(x), block, num_warps=warps, maxnreg=maxnreg)
    limits = device_limits(Driver(), 0)
    assert ctas_per_sm(limits, warps, kernel.n_regs, kernel.metadata.shared) == _of_driver(kernel, warps)
