"""Which warps write records: the ones that have a ring and lie in the chosen windows. Both vendors decide so."""

from __future__ import annotations

from kperfir.passes.to_llvm import Frame
from kperfir.targets.text import constant, is_in
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
    bits = ["%kp_has_ring"]
    for name, windows in (("ctas", chosen.ctas), ("sms", chosen.sms), ("warps", chosen.warps)):
        if not windows.are_all:
            bits.append(f"%kp_in_{name}")
            lines += is_in(bits[-1], numbers[name], windows)
    for n, bit in enumerate(bits[1:]):
        lines.append(f"%kp_bits{n} = llvm.and {bits[0] if n == 0 else f'%kp_bits{n - 1}'}, {bit} : i1")
    last = f"%kp_bits{len(bits) - 2}" if len(bits) > 1 else bits[0]
    return [*lines, f"{WRITES} = llvm.and {last}, %kp_has_ring : i1"]
