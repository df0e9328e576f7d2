"""Lower the records of a module in the LLVM dialect, with all decisions taken from the module itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import ir

from kperfir.bridge.architectures import OLDEST_CUDA
from kperfir.bridge.refusal import read_back
from kperfir.bridge.request import (
    MODULE_ATTRIBUTE,
    SCOPES_ATTRIBUTE,
    SITES_ATTRIBUTE,
    Request,
    read_pieces,
    site_pieces,
)
from kperfir.bridge.text import generic_text
from kperfir.bridge.user_passes import UserPasses
from kperfir.errors import LoweringError
from kperfir.ir.attributes import get_text
from kperfir.ir.chunks import ChunkedKernel, read_kernel
from kperfir.ir.kperf import RecordScalarOp, StartInstrumentationOp, StopInstrumentationOp
from kperfir.ir.kperf_gpu import Counter
from kperfir.passes.addresses import trace_addresses
from kperfir.passes.scopes import read_scopes
from kperfir.passes.site_lines import give_lines
from kperfir.passes.to_gpu import to_gpu
from kperfir.passes.to_llvm import Frame, Target, to_llvm
from kperfir.records import ALIGNMENT_BYTES, Layout
from kperfir.targets.amd import Amd
from kperfir.targets.nvidia import Nvidia
from kperfir.windows import Windows

AMD_ARCHITECTURES = ("gfx942", "gfx950")

_TARGET = re.compile(r'ttg\.target = "(\w+):(\w+)"')


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


def lower_module(module: Any, user: UserPasses) -> tuple[Any, Layout]:
    """The module with its records lowered, and the layout they were lowered for.

    Sizes of shared and scratch memory are set on the module passed in as well,
    since Triton's stage reads them from there.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
        PassError: a user's pass failed on it.
    """
    gpu = lower_to_gpu(module, user)
    return lower_to_llvm(module, gpu, user), gpu.layout


def lower_to_gpu(module: Any, user: UserPasses) -> GpuKernel:
    """The kernel of a module in the LLVM dialect, its carriers lowered to `kperf_gpu`; the module stays as it is.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
        PassError: a user's pass failed on it.
    """
    kernel = read_kernel(generic_text(module))
    user.before_lowering(kernel, module.context)
    request = _request(kernel)
    if any(isinstance(op, RecordScalarOp) for op in kernel.body.ops):
        request = request.with_scalars()
    warps = kernel.integer("ttg.total-num-warps") or kernel.integer("ttg.num-warps")
    warp_size = kernel.integer("ttg.threads-per-warp")
    if not warps or not warp_size:
        raise LoweringError("The module does not say how many warps it has.")
    pieces = site_pieces(user.tables.table()) or read_pieces(get_text(kernel.attributes, SITES_ATTRIBUTE))
    layout = request.layout(warps, 1 + max((region for region, _ in pieces), default=0), warp_size)
    shared_bytes = kernel.integer("ttg.shared") or 0
    base_bytes = -(-shared_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    if request.addresses:
        find = _target(kernel).accesses
        scopes = read_scopes(get_text(kernel.attributes, SCOPES_ATTRIBUTE))
        user.findings.extend(trace_addresses(kernel, layout, request.chosen, scopes, user.tables, find))
        return GpuKernel(kernel, layout, base_bytes, warp_size)
    if any(isinstance(op, StartInstrumentationOp | StopInstrumentationOp) for op in kernel.body.ops):
        raise LoweringError("It bounds a trace of addresses, and the plan has none.", "Add addresses=... to the plan.")
    counter = Counter.TIME if request.metric == "time" else Counter.CLOCK
    iterations = Windows.parse(request.iterations)
    give_lines(kernel)
    to_gpu(kernel, layout, counter, request.counter_bits, request.chosen, pieces, iterations)
    return GpuKernel(kernel, layout, base_bytes, warp_size)


def lower_to_llvm(module: Any, gpu: GpuKernel, user: UserPasses) -> Any:
    """The module with `kperf_gpu` operations spelled out; sizes of memory are set on the module passed in.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
        PassError: a user's pass failed on it.
    """
    layout = gpu.layout
    frame = Frame(layout, gpu.kernel.scratch, gpu.base_bytes, gpu.warp_size)
    text = to_llvm(gpu.kernel, _target(gpu.kernel), frame)
    lowered = read_back(user.after_lowering(text, module.context), module.context)
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
    """How the module's target spells records; one whose registers and ids nobody looked up is refused."""
    found = _TARGET.search(kernel.attributes)
    vendor, arch = found.groups() if found else ("", "")
    if vendor == "cuda" and int(arch) >= OLDEST_CUDA:
        return Nvidia()
    if vendor == "hip" and arch in AMD_ARCHITECTURES:
        return Amd()
    known = f"cuda:{OLDEST_CUDA} and newer, {', '.join(f'hip:{name}' for name in AMD_ARCHITECTURES)}"
    raise LoweringError(f"kperfir has no lowering for target '{vendor}:{arch}'.", f"It knows {known}.")


def _set(module: Any, name: str, value: int) -> None:
    module.set_attr(name, ir.builder(module.context).get_int32_attr(value))
