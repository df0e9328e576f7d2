"""Numbers of iterations: computed in a loop where a record asks for them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from kperfir.ir.foreign import ForeignOp, TextType, text_type

_TO_32_BITS = {"i64": "arith.trunci", "index": "arith.index_cast"}
_NO_OVERFLOW = " <{overflowFlags = #arith.overflow<none>}>"


class IterationNumbers:
    """How often the body of a counted loop was entered before, from 0, in 32 bits.

    A pipelined loop counts its own turns: what a stage does in one belongs to a later
    or earlier iteration of the source.
    """

    def __init__(self) -> None:
        self._known: dict[ForeignOp, SSAValue] = {}

    def of(self, loop: ForeignOp) -> SSAValue | None:
        """The number inside this loop's body; None where the loop does not count (`scf.while`)."""
        if loop.opname != "scf.for":
            return None
        if loop not in self._known:
            self._known[loop] = _computed(loop)
        return self._known[loop]


def _computed(loop: ForeignOp) -> SSAValue:
    """`(induction variable - lower bound) / step` at the start of the body."""
    body = loop.regions[0].blocks[0]
    variable, lower, step = body.args[0], loop.operands[0], loop.operands[2]
    kind = variable.type
    assert isinstance(kind, TextType)
    location = loop.location_text
    since = ForeignOp("arith.subi", [variable, lower], [kind], _NO_OVERFLOW, location)
    number = ForeignOp("arith.divsi", [since.results[0], step], [kind], "", location)
    ops = [since, number]
    if kind.data in _TO_32_BITS:
        ops.append(ForeignOp(_TO_32_BITS[kind.data], [number.results[0]], [text_type("i32")], _cast(kind), location))
    first = body.first_op
    assert first is not None
    body.insert_ops_before(ops, first)
    return ops[-1].results[0]


def _cast(kind: TextType) -> str:
    return _NO_OVERFLOW if kind.data == "i64" else ""
