"""Lower the records of a module in the LLVM dialect, with all decisions taken from the module itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import ir

from kperfir.bridge.request import MODULE_ATTRIBUTE, Request
from kperfir.bridge.text import generic_text, parse_text
from kperfir.errors import LoweringError
from kperfir.ir.attributes import get_text
from kperfir.ir.chunks import ChunkedKernel, read_kernel
from kperfir.ir.kperf_gpu import Counter
from kperfir.passes.to_gpu import to_gpu
from kperfir.passes.to_llvm import Frame, Target, to_llvm
from kperfir.records import ALIGNMENT_BYTES, Layout
from kperfir.targets.amd import Amd
from kperfir.targets.nvidia import Nvidia

_TARGET = re.compile(r'ttg\.target = "(\w+):')


@dataclass(frozen=True)
class GpuKernel:
    """A kernel whose records are `kperf_gpu` operations.

    Attributes:
        base_bytes: where the rings start in shared memory. warp_size: threads of a warp.
    """

    kernel: ChunkedKernel
    layout: Layout
    base_bytes: int
    warp_size: int


def lower_module(module: Any) -> tuple[Any, Layout]:
    """The module with its records lowered, and the layout they were lowered for.

    Sizes of shared and scratch memory are set on the module passed in as well,
    since Triton's stage reads them from there.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
    """
    gpu = lower_to_gpu(module)
    return lower_to_llvm(module, gpu), gpu.layout


def lower_to_gpu(module: Any) -> GpuKernel:
    """The kernel of a module in the LLVM dialect, its carriers lowered to `kperf_gpu`; the module stays as it is.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
    """
    kernel = read_kernel(generic_text(module))
    request = _request(kernel)
    warps = kernel.integer("ttg.total-num-warps") or kernel.integer("ttg.num-warps")
    warp_size = kernel.integer("ttg.threads-per-warp")
    if not warps or not warp_size:
        raise LoweringError("The module does not say how many warps it has.")
    layout = request.layout(warps)
    shared_bytes = kernel.integer("ttg.shared") or 0
    base_bytes = -(-shared_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    counter = Counter.TIME if request.metric == "time" else Counter.CLOCK
    to_gpu(kernel, layout, counter, request.chosen)
    return GpuKernel(kernel, layout, base_bytes, warp_size)


def lower_to_llvm(module: Any, gpu: GpuKernel) -> Any:
    """The module with `kperf_gpu` operations spelled out; sizes of memory are set on the module passed in.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
    """
    layout = gpu.layout
    frame = Frame(layout, gpu.kernel.scratch, gpu.base_bytes, gpu.warp_size)
    lowered = parse_text(to_llvm(gpu.kernel, _target(gpu.kernel), frame), module.context)
    if layout.place == "shared":
        _set(module, "ttg.shared", gpu.base_bytes + layout.warps * layout.ring_bytes)
    _set(module, "ttg.profile_scratch_memory_size", layout.cta_bytes)
    _set(module, "ttg.profile_scratch_memory_alignment", ALIGNMENT_BYTES)
    return lowered


def _request(kernel: ChunkedKernel) -> Request:
    text = get_text(kernel.attributes, MODULE_ATTRIBUTE)
    if text is None:
        raise LoweringError("The module does not say what to record.", "Run `kperfir doctor`.")
    return Request.from_json(text)


def _target(kernel: ChunkedKernel) -> Target:
    found = _TARGET.search(kernel.attributes)
    match found.group(1) if found else "":
        case "cuda":
            return Nvidia()
        case "hip":
            return Amd()
        case name:
            raise LoweringError(f"kperfir has no lowering for target '{name}'.", "It knows cuda and hip.")


def _set(module: Any, name: str, value: int) -> None:
    module.set_attr(name, ir.builder(module.context).get_int32_attr(value))
