"""Limits of NVIDIA's architectures, for a GPU that is not here.

From the table "Technical Specifications per Compute Capability" in NVIDIA's CUDA C++
Programming Guide; the system's 1 KiB of shared memory a CTA, from compute capability
8.0 on, is in the guide's sections on each of them and in its occupancy calculator.
"""

from __future__ import annotations

from kperfir.bridge.occupancy import DeviceLimits

OLDEST_CUDA = 80  # of those that records are lowered for
_KIB = 1024
_REGISTERS = 65536


def _limits(ctas: int, warps: int, shared_kib: int) -> DeviceLimits:
    """`shared_kib` is what an SM has; a CTA can have all but what the system reserves."""
    shared, reserved = shared_kib * _KIB, _KIB
    return DeviceLimits(shared - reserved, shared, reserved, _REGISTERS, warps, ctas)


ARCHITECTURES = {
    80: _limits(32, 64, 164),
    86: _limits(16, 48, 100),
    87: _limits(16, 48, 164),
    89: _limits(24, 48, 100),
    90: _limits(32, 64, 228),
    100: _limits(32, 64, 228),
    103: _limits(32, 64, 228),
    120: _limits(24, 48, 100),
}


def architecture_limits(backend: str, arch: int | str) -> DeviceLimits | None:
    """Limits of a target; None where kperfir has no table of it."""
    return ARCHITECTURES.get(int(arch)) if backend == "cuda" else None
