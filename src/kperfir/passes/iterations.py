"""Numbers of iterations: computed in a loop where a record asks for them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from kperfir.fidelity import FRAME_LINE, SITE_FILE
from kperfir.ir.foreign import ForeignOp, TextType, text_type

# not the loop's, whose tags would make them operations of its scopes
_LOCATION = f' loc("{SITE_FILE}":{FRAME_LINE}:1)'
_TO_32_BITS = {"i64": "trunci", "index": "index_cast"}
_NO_OVERFLOW = " <{overflowFlags = #arith.overflow<none>}>"
_FLAGS = {"subi": _NO_OVERFLOW, "trunci": _NO_OVERFLOW}


class IterationNumbers:
    """How often the body of a counted loop was entered before, from 0, in 32 bits.

    A pipelined loop counts its own turns: what a stage does in one belongs to a later
    or earlier iteration of the source.

    Args:
        count_left: whether the number of turns that follow is asked for as well.
        of_outermost: whether it is the outermost loop of a kernel or partition whose turns are counted.
    """

    def __init__(self, count_left: bool = False, of_outermost: bool = False) -> None:
        self.of_outermost = of_outermost
        self._count_left = count_left
        self._known: dict[ForeignOp, tuple[SSAValue, ...]] = {}

    def of(self, loop: ForeignOp) -> tuple[SSAValue, ...]:
        """The number inside this loop's body, and how many turns follow if asked; none where it does not count.

        That is `scf.while`, whose end nobody knows before.
        """
        if loop.opname != "scf.for":
            return ()
        if loop not in self._known:
            self._known[loop] = self._computed(loop)
        return self._known[loop]

    def _computed(self, loop: ForeignOp) -> tuple[SSAValue, ...]:
        """At the start of the body `(variable - lower) / step`, and `(upper - variable - 1) / step`."""
        body = loop.regions[0].blocks[0]
        variable, (lower, upper, step) = body.args[0], loop.operands[:3]
        lines = _Lines(loop)
        found = [lines.narrow(lines.op("divsi", lines.op("subi", variable, lower), step))]
        if self._count_left:
            since = lines.op("subi", lines.op("subi", upper, variable), lines.one())
            found.append(lines.narrow(lines.op("divsi", since, step)))
        first = body.first_op
        assert first is not None
        body.insert_ops_before(lines.ops, first)
        return tuple(found)


class _Lines:
    """Arithmetic on numbers of one loop."""

    def __init__(self, loop: ForeignOp) -> None:
        kind = loop.regions[0].blocks[0].args[0].type
        assert isinstance(kind, TextType)
        self.kind = kind
        self.ops: list[ForeignOp] = []

    def op(self, name: str, left: SSAValue, right: SSAValue) -> SSAValue:
        return self._add(ForeignOp(f"arith.{name}", [left, right], [self.kind], _FLAGS.get(name, ""), _LOCATION))

    def one(self) -> SSAValue:
        value = f" <{{value = 1 : {self.kind.data}}}>"
        return self._add(ForeignOp("arith.constant", [], [self.kind], value, _LOCATION))

    def narrow(self, value: SSAValue) -> SSAValue:
        """The same in 32 bits."""
        cast = _TO_32_BITS.get(self.kind.data)
        if cast is None:
            return value
        return self._add(ForeignOp(f"arith.{cast}", [value], [text_type("i32")], _FLAGS.get(cast, ""), _LOCATION))

    def _add(self, op: ForeignOp) -> SSAValue:
        self.ops.append(op)
        return op.results[0]
