"""A ring that does not lie in the block goes there before a return. Both vendors copy it so."""

from __future__ import annotations

from kperfir.passes.to_llvm import Frame
from kperfir.targets.text import constant
from kperfir.targets.writers import most_bytes

_COPY_BYTES = 16
_OUT_KIND = "!llvm.ptr<1>"


def copied(frame: Frame, n: int, kind: str, does: str, out: str) -> list[str]:
    """`for (i = lane * 16; i < min(written, ring); i += lanes * 16) out[i] = ring[i]`.

    All lanes of a warp copy its ring in shared memory; one on the stack its lane alone.

    Args:
        kind: type of a pointer into the ring. does: name of the bit of those that copy.
        out: name of the ring's place in the block.
    """
    lanes = 1 if frame.layout.place == "stack" else frame.warp_size
    loop, body, done = f"^kp_loop{n}", f"^kp_body{n}", f"^kp_done{n}"
    at = f"%kp_i{n}"
    return [
        most_bytes(frame, n),
        f"%kp_limit{n} = llvm.select {does}, %kp_most{n}, %kp_0 : i1, i32",
        constant(f"%kp_width{n}", _COPY_BYTES),
        constant(f"%kp_stride{n}", _COPY_BYTES * lanes),
        f"%kp_first{n} = llvm.mul %kp_lane, %kp_width{n} : i32",
        f"llvm.br {loop}(%kp_first{n} : i32)",
        f"{loop}({at}: i32):",
        f'%kp_more{n} = llvm.icmp "ult" {at}, %kp_limit{n} : i32',
        f"llvm.cond_br %kp_more{n}, {body}, {done}",
        f"{body}:",
        f"%kp_from{n} = llvm.getelementptr %kp_ring[{at}] : ({kind}, i32) -> {kind}, i8",
        f"%kp_to{n} = llvm.getelementptr {out}[{at}] : ({_OUT_KIND}, i32) -> {_OUT_KIND}, i8",
        f"%kp_value{n} = llvm.load %kp_from{n} {{alignment = 16 : i64}} : {kind} -> vector<4xi32>",
        f"llvm.store %kp_value{n}, %kp_to{n} {{alignment = 16 : i64}} : vector<4xi32>, {_OUT_KIND}",
        f"%kp_following{n} = llvm.add {at}, %kp_stride{n} : i32",
        f"llvm.br {loop}(%kp_following{n} : i32)",
        f"{done}:",
    ]
