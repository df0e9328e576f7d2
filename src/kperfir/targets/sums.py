"""What both vendors do where a kernel adds up what its regions took: starts in registers, entries in global memory."""

from __future__ import annotations

from kperfir.records import SUMS_BYTES
from kperfir.targets.text import constant

_GLOBAL = "!llvm.ptr<1>"


def starts(regions: int, stack: str) -> list[str]:
    """At entry: a place for the start of each region; LLVM makes it a register."""
    lines = [constant("%kp_0_long", 0, "i64")]
    for region in range(regions):
        lines += [
            f"%kp_from{region} = llvm.alloca %kp_1 x i64 : (i32) -> {stack}",
            f"llvm.store %kp_0_long, %kp_from{region} : i64, {stack}",
        ]
    return lines


def keep_start(n: int, region: int, bits: int, stack: str) -> list[str]:
    """Keep `%kp_clock<n>` as the start of a region."""
    return [*_long(n, bits), f"llvm.store %kp_long{n}, %kp_from{region} : i64, {stack}"]


def taken(n: int, region: int, bits: int, stack: str) -> list[str]:
    """Define `%kp_taken<n>`: 64 bits since the start; a clock of 32 bits may have come round once."""
    lines = [
        *_long(n, bits),
        f"%kp_began{n} = llvm.load %kp_from{region} : {stack} -> i64",
        f"%kp_since{n} = llvm.sub %kp_long{n}, %kp_began{n} : i64",
        constant(f"%kp_turn{n}", (1 << 32) - 1 if bits == 32 else -1, "i64"),
    ]
    return [*lines, f"%kp_taken{n} = llvm.and %kp_since{n}, %kp_turn{n} : i64"]


def entry_of(name: str, region: int) -> str:
    """Address of the warp's sums of a region."""
    return f"{name} = llvm.getelementptr %kp_ring[{region * SUMS_BYTES}] : ({_GLOBAL}) -> {_GLOBAL}, i8"


def _long(n: int, bits: int) -> list[str]:
    if bits == 32:
        return [f"%kp_long{n} = llvm.zext %kp_clock{n} : i32 to i64"]
    return [constant(f"%kp_nothing{n}", 0, "i64"), f"%kp_long{n} = llvm.or %kp_clock{n}, %kp_nothing{n} : i64"]
