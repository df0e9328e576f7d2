"""What both vendors do where a kernel adds up what its regions took: starts in registers, entries in memory."""

from __future__ import annotations

from kperfir.passes.to_llvm import Frame
from kperfir.records import SUMS_BYTES
from kperfir.targets.text import constant


def starts(regions: int, stack: str) -> list[str]:
    """At entry: a place for the start of each region; LLVM makes it a register."""
    lines = []
    for region in range(regions):
        lines += [
            f"%kp_region_start{region} = llvm.alloca %kp_1 x i32 : (i32) -> {stack}",
            f"llvm.store %kp_0, %kp_region_start{region} : i32, {stack}",
        ]
    return lines


def keep_start(n: int, region: int, bits: int, stack: str) -> list[str]:
    """Keep `%kp_clock<n>` as the start of a region."""
    return [*_low(n, bits), f"llvm.store %kp_low{n}, %kp_region_start{region} : i32, {stack}"]


def taken(n: int, region: int, bits: int, stack: str) -> list[str]:
    """Define `%kp_taken<n>`: since the start, in 32 bits; the counter may have come round once."""
    return [
        *_low(n, bits),
        f"%kp_began{n} = llvm.load %kp_region_start{region} : {stack} -> i32",
        f"%kp_taken{n} = llvm.sub %kp_low{n}, %kp_began{n} : i32",
    ]


def entry_of(name: str, region: int, kind: str) -> str:
    """Address of the warp's sums of a region."""
    return f"{name} = llvm.getelementptr %kp_ring[{region * SUMS_BYTES}] : ({kind}) -> {kind}, i8"


def cleared_by_lanes(frame: Frame, kind: str) -> list[tuple[list[str], str, str]]:
    """The entries in shared memory, a lane each: lines that define address and whether it clears, and both names."""
    found = []
    for first in range(0, frame.layout.slots, frame.warp_size):
        name = f"%kp_clear{first}"
        lines = [
            constant(f"{name}_first", first),
            constant(f"{name}_count", frame.layout.slots),
            constant(f"{name}_bytes", SUMS_BYTES),
            f"{name}_entry = llvm.add %kp_lane, {name}_first : i32",
            f'{name}_is = llvm.icmp "ult" {name}_entry, {name}_count : i32',
            f"{name}_does = llvm.and {name}_is, %kp_writes : i1",
            f"{name}_offset = llvm.mul {name}_entry, {name}_bytes : i32",
            f"{name}_to = llvm.getelementptr %kp_ring[{name}_offset] : ({kind}, i32) -> {kind}, i8",
        ]
        found.append((lines, f"{name}_to", f"{name}_does"))
    return found


def _low(n: int, bits: int) -> list[str]:
    if bits == 64:
        return [f"%kp_low{n} = llvm.trunc %kp_clock{n} : i64 to i32"]
    return [f"%kp_low{n} = llvm.or %kp_clock{n}, %kp_0 : i32"]
