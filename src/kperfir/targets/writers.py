"""Which warps write records: the ones that have a ring and lie in the chosen windows. Both vendors decide so."""

from __future__ import annotations

from kperfir.ir.scalar import NO_SCALAR, Scalar
from kperfir.ir.turn import Turn
from kperfir.passes.to_llvm import Frame
from kperfir.records import WIDE_RECORD_BYTES
from kperfir.targets.text import assembly, constant, is_in
from kperfir.windows import Chosen

WRITES = "%kp_writes"
"""Bit, the same in a whole warp: it writes records."""


def are_all_writers(frame: Frame, chosen: Chosen) -> bool:
    """Whether every warp writes, so that nothing has to be decided."""
    return frame.layout.warp_step == 1 and chosen.is_everything


def all_write() -> list[str]:
    """Define `%kp_ring_number` and `%kp_writes` where every warp writes."""
    return ["%kp_ring_number = llvm.add %kp_warp, %kp_0 : i32", constant(WRITES, 1, "i1")]


def writers(frame: Frame, chosen: Chosen, numbers: dict[str, str]) -> list[str]:
    """Define `%kp_ring_number` and `%kp_writes`.

    Args:
        numbers: "ctas", "sms", "warps" -> name of the number of each, 32 bits.
    """
    lines = [
        constant("%kp_warp_step", frame.layout.warp_step),
        "%kp_ring_number = llvm.udiv %kp_warp, %kp_warp_step : i32",
        "%kp_warp_rest = llvm.urem %kp_warp, %kp_warp_step : i32",
        '%kp_has_ring = llvm.icmp "eq" %kp_warp_rest, %kp_0 : i32',
    ]
    so_far = "%kp_has_ring"
    for name, windows in (("ctas", chosen.ctas), ("sms", chosen.sms), ("warps", chosen.warps)):
        if not windows.are_all:
            inside, both = f"%kp_in_{name}", f"%kp_with_{name}"
            lines += [*is_in(inside, numbers[name], windows), f"{both} = llvm.and {so_far}, {inside} : i1"]
            so_far = both
    return [*lines, f"{WRITES} = llvm.and {so_far}, %kp_has_ring : i1"]


def in_turn(
    n: int, turn: Turn, writes: str, copy: tuple[str, str], scalar: Scalar = NO_SCALAR
) -> tuple[list[str], str]:
    """Define whether record `n` is written in this turn of its loop, and has what it carries there.

    Args:
        copy: instruction that copies a register, and its constraints. It hides the numbers from
            LLVM, which would peel turns off the loop for the sake of the question.

    Returns:
        the lines, and the name of that bit: `writes` where it always is.
    """
    lines, bit = [], _happens(n, turn, scalar)
    if not bit:
        return [], writes
    if not turn.always_writes:
        lines += _turn_lines(n, turn, copy)
    if scalar.happens:
        lines.append(f'%kp_given{n} = llvm.icmp "ne" {scalar.happens}, %kp_0 : i32')
    if not turn.always_writes and scalar.happens:
        lines.append(f"{bit} = llvm.and %kp_in_turn{n}, %kp_given{n} : i1")
    name = f"%kp_turn_writes{n}"
    return [*lines, f"{name} = llvm.and {writes}, {bit} : i1"], name


def _happens(n: int, turn: Turn, scalar: Scalar) -> str:
    """Name of the bit that says whether record `n` is written at all; empty where it always is."""
    if turn.always_writes:
        return f"%kp_given{n}" if scalar.happens else ""
    return f"%kp_happens{n}" if scalar.happens else f"%kp_in_turn{n}"


def _turn_lines(n: int, turn: Turn, copy: tuple[str, str]) -> list[str]:
    number, left = f"%kp_number{n}", f"%kp_left{n}"
    hidden = [assembly([copy[0]], copy[1], [(turn.number, "i32")], (number, "i32"))]
    if turn.iterations.ask_for_last:
        hidden.append(assembly([copy[0]], copy[1], [(turn.left, "i32")], (left, "i32")))
    return [*hidden, *is_in(f"%kp_in_turn{n}", number, turn.iterations, left)]


def step_of(n: int, turn: Turn, record_bytes: int, scalar: Scalar) -> list[str]:
    """Define `%kp_step<n>`: how far the index advances, which is nowhere where nothing is written."""
    bit = _happens(n, turn, scalar)
    if not bit:
        return [constant(f"%kp_step{n}", record_bytes)]
    return [
        constant(f"%kp_full_step{n}", record_bytes),
        f"%kp_step{n} = llvm.select {bit}, %kp_full_step{n}, %kp_0 : i1, i32",
    ]


def site_word(n: int, site: int, record_bytes: int, upper: str) -> list[str]:
    """Define `%kp_site<n>`: the record's first word, or its first two.

    Args:
        upper: name of what stands in the second, a version or a scalar; empty where there is neither.
    """
    name = f"%kp_site{n}"
    if record_bytes != WIDE_RECORD_BYTES:
        return [constant(name, site)]
    if not upper:
        return [constant(name, site, "i64")]
    return [
        constant(f"{name}_id", site, "i64"),
        constant(f"{name}_32", 32, "i64"),
        f"{name}_more = llvm.zext {upper} : i32 to i64",
        f"{name}_upper = llvm.shl {name}_more, {name}_32 : i64",
        f"{name} = llvm.or {name}_upper, {name}_id : i64",
    ]


def in_room(n: int, index: str, writes: str, wraps: bool) -> tuple[list[str], str]:
    """Define whether record `n` has a slot, where a ring does not wrap; lines and name of the bit as `in_turn`."""
    if wraps:
        return [], writes
    name = f"%kp_room_writes{n}"
    room = f'%kp_room{n} = llvm.icmp "ult" {index}, %kp_ring_bytes : i32'
    return [room, f"{name} = llvm.and {writes}, %kp_room{n} : i1"], name


def most_bytes(frame: Frame, n: int) -> str:
    """Define `%kp_most<n>`: bytes of a ring that hold anything at return `n`; all of it where it holds sums."""
    if frame.layout.holds_sums:
        return f"%kp_most{n} = llvm.or %kp_ring_bytes, %kp_0 : i32"
    return f"%kp_most{n} = llvm.intr.umin(%kp_written{n}, %kp_ring_bytes) : (i32, i32) -> i32"
