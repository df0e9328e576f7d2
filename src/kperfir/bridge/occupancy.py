"""How many CTAs fit on an SM, and what shared memory is left at that number.

The rules are those of NVIDIA's occupancy calculator: "CUDA C++ Programming Guide",
section "Technical Specifications per Compute Capability", and
https://docs.nvidia.com/cuda/cuda-occupancy-calculator: registers are handed out to
warps in units of 256, from the quarter of the SM's registers that belongs to the
warp's partition; shared memory to CTAs in units of 128 bytes plus what the system
reserves for each.
"""

from __future__ import annotations

from dataclasses import dataclass

REGISTER_UNIT = 256
SHARED_UNIT_BYTES = 128
PARTITIONS = 4
MIN_SLOTS = 32
MAX_SLOTS = 4096


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of one GPU, as its driver states them."""

    shared_per_block_bytes: int
    shared_per_sm_bytes: int
    reserved_per_block_bytes: int
    registers_per_sm: int
    warps_per_sm: int
    ctas_per_sm: int
    warp_size: int = 32


def ctas_per_sm(limits: DeviceLimits, warps: int, registers: int, shared_bytes: int) -> int:
    """CTAs that are resident on an SM at once; 0 where not even one fits.

    Args:
        warps: of a CTA. registers: of a thread. shared_bytes: of a CTA.
    """
    per_warp = _up(registers * limits.warp_size, REGISTER_UNIT)
    resident = limits.registers_per_sm // PARTITIONS // per_warp * PARTITIONS if registers else limits.warps_per_sm
    by_shared = limits.shared_per_sm_bytes // _up(shared_bytes + limits.reserved_per_block_bytes, SHARED_UNIT_BYTES)
    if shared_bytes > limits.shared_per_block_bytes:
        return 0
    return min(limits.ctas_per_sm, min(limits.warps_per_sm, resident) // warps, by_shared)


def ring_room(limits: DeviceLimits, warps: int, registers: int, shared_bytes: int, slot_bytes: int) -> tuple[int, str]:
    """Slots a warp's ring can have in shared memory while as many CTAs fit as before.

    Args:
        slot_bytes: one slot of every ring.

    Returns:
        a power of two, or 0 where fewer than 32 slots fit, and the reason in words.
    """
    ctas = ctas_per_sm(limits, warps, registers, shared_bytes)
    if not ctas:
        return 0, "the plain kernel itself does not fit on an SM"
    share = limits.shared_per_sm_bytes // ctas // SHARED_UNIT_BYTES * SHARED_UNIT_BYTES
    free = min(share - limits.reserved_per_block_bytes, limits.shared_per_block_bytes) - _up(shared_bytes, 16)
    slots = max(free, 0) // slot_bytes
    slots = 1 << (min(slots, MAX_SLOTS).bit_length() - 1) if slots else 0
    if slots < MIN_SLOTS:
        return (
            0,
            f"{max(free, 0)} bytes are free beside {ctas} CTAs an SM, too few at {slot_bytes} bytes a slot",
        )
    return slots, f"{free} bytes are free and {ctas} CTAs still fit on an SM"


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
