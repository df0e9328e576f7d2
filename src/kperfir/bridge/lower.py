"""Lower the records of a module in the LLVM dialect, with all decisions taken from the module itself."""

from __future__ import annotations

import re
from typing import Any

from triton._C.libtriton import ir

from kperfir.bridge.request import MODULE_ATTRIBUTE, Request
from kperfir.bridge.text import generic_text, parse_text
from kperfir.bridge.user_passes import UserPasses
from kperfir.errors import LoweringError
from kperfir.ir.chunks import ChunkedKernel, read_kernel
from kperfir.ir.kperf_gpu import Counter
from kperfir.passes.to_gpu import to_gpu
from kperfir.passes.to_llvm import Frame, Target, to_llvm
from kperfir.records import ALIGNMENT_BYTES, Layout
from kperfir.targets.amd import Amd
from kperfir.targets.nvidia import Nvidia
from kperfir.windows import Windows

OLDEST_CUDA = 80
AMD_ARCHITECTURES = ("gfx942", "gfx950")

_ATTRIBUTE = re.compile(rf'{re.escape(MODULE_ATTRIBUTE)} = "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_TARGET = re.compile(r'ttg\.target = "(\w+):(\w+)"')


def lower_module(module: Any, user: UserPasses) -> tuple[Any, Layout]:
    """The module with its records lowered, and the layout they were lowered for.

    Sizes of shared and scratch memory are set on the module passed in as well,
    since Triton's stage reads them from there.

    Raises:
        IRError, LoweringError: the module cannot be lowered.
        PassError: a user's pass failed on it.
    """
    kernel = read_kernel(generic_text(module))
    user.before_lowering(kernel, module.context)
    request = _request(kernel)
    warps = kernel.integer("ttg.total-num-warps") or kernel.integer("ttg.num-warps")
    warp_size = kernel.integer("ttg.threads-per-warp")
    if not warps or not warp_size:
        raise LoweringError("The module does not say how many warps it has.")
    pieces = tuple((site.region, site.piece) for site in user.tables.table().sites)
    layout = request.layout(warps, 1 + max((region for region, _ in pieces), default=0))
    shared_bytes = kernel.integer("ttg.shared") or 0
    base_bytes = -(-shared_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    counter = Counter.TIME if request.metric == "time" else Counter.CLOCK
    iterations = Windows.parse(request.iterations)
    to_gpu(kernel, layout, counter, request.counter_bits, request.chosen, pieces, iterations)
    text = to_llvm(kernel, _target(kernel), Frame(layout, kernel.scratch, base_bytes, warp_size))
    lowered = parse_text(user.after_lowering(text, module.context), module.context)
    if layout.place == "shared":
        _set(module, "ttg.shared", base_bytes + layout.warps * layout.ring_bytes)
    _set(module, "ttg.profile_scratch_memory_size", layout.cta_bytes)
    _set(module, "ttg.profile_scratch_memory_alignment", ALIGNMENT_BYTES)
    return lowered, layout


def _request(kernel: ChunkedKernel) -> Request:
    found = _ATTRIBUTE.search(kernel.attributes)
    if found is None:
        raise LoweringError("The module does not say what to record.", "Run `kperfir doctor`.")
    return Request.from_json(_ESCAPED.sub(_unescape, found.group(1)))


def _unescape(match: re.Match[str]) -> str:
    """MLIR writes a quote as a backslash and two hexadecimal digits."""
    text = match.group(1)
    return chr(int(text, 16)) if len(text) == 2 else text


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
