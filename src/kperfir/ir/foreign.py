"""Operations, types and modules of other dialects, kept as opaque text.

Nothing of a foreign operation is interpreted beyond its name, its operands and
results, its regions and its successors; types, properties, attributes and
locations stay the text they were. That is what makes the round trip lossless:
xDSL reading `dense<0xFF800000>` as a number, for instance, would corrupt it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Attribute, Block, Data, Operation, OpResult, Region, SSAValue, SSAValues, TypeAttribute, Use
from xdsl.irdl import irdl_attr_definition, traits_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class TextType(Data[str], TypeAttribute):
    """A foreign type: its text."""

    name = "mlir.type"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data)


_types: dict[str, TextType] = {}


def text_type(text: str) -> TextType:
    """The type with this text; the same object for the same text."""
    found = _types.get(text)
    if found is None:
        found = _types[text] = TextType(text)
    return found


class ForeignOp(Operation):
    """One operation of another dialect.

    Attributes:
        opname: for example "tt.load".
        properties_text: text between the operand list and the regions, or the
            signature where there are no regions: ` <{...}>`, ` {...}` or empty.
        attributes_text: text behind the regions, before the signature.
        location_text: ` loc(...)` or empty.
        signature_text: ` : (types) -> types` as read; the printer writes it where it is empty.
        operands_text: the operands of a module that was read without values.
        result_names: left side as printed, ("%a:3",) or ("%a", "%b"); the printer
            invents names where there are none.
    """

    name = "mlir.foreign"
    traits = traits_def()
    __slots__ = (
        "attributes_text",
        "location_text",
        "operands_text",
        "opname",
        "properties_text",
        "result_names",
        "signature_text",
    )

    def __init__(
        self,
        opname: str,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties_text: str = "",
        location_text: str = "",
        *,
        regions: Sequence[Region] = (),
        successors: Sequence[Block] = (),
        result_names: tuple[str, ...] = (),
        attributes_text: str = "",
        signature_text: str = "",
        operands_text: str = "",
    ) -> None:
        # xDSL's own constructor took half the time of reading a module. This one sets the same
        # fields; tests/ir/test_foreign.py compares the two.
        self.opname = opname
        self.properties_text = properties_text
        self.attributes_text = attributes_text
        self.location_text = location_text
        self.signature_text = signature_text
        self.operands_text = operands_text
        self.result_names = result_names
        fill(self, operands, {})
        if result_types:
            self.results = SSAValues([OpResult(kind, self, i) for i, kind in enumerate(result_types)])
        if successors:
            self.successors = successors
        for region in regions:
            self.add_region(region)

    @property
    def has_operands(self) -> bool:
        """Also of one that was read without values."""
        return bool(self.operands_text or self._operands)

    @property
    def first_type_text(self) -> str:
        """Type of the first result, also of one that was read without values; empty where it has none."""
        if self.results:
            return str(getattr(self.results[0].type, "data", ""))
        return self.signature_text.rpartition(") -> ")[2].lstrip("(") if self.result_names else ""


def fill(op: Operation, operands: Sequence[SSAValue], properties: dict[str, Attribute]) -> None:
    """`Operation.__init__` for one without results, regions and successors."""
    if operands:
        op._operands = SSAValues(operands)
        op._operand_uses = tuple([Use(op, i) for i in range(len(operands))])
        for value, use in zip(operands, op._operand_uses):
            value.add_use(use)
    op.properties, op.attributes, op.location = properties, {}, UNKNOWN_LOC


def append(block: Block, op: Operation) -> None:
    """`block.add_op(op)` for an operation that was just made, without looking for cycles."""
    last = block._last_op
    op.parent, op._prev_op, block._last_op = block, last, op
    if last is None:
        block._first_op = op
    else:
        last._next_op = op


def put_before(new: Operation, op: Operation) -> None:
    """`insert_op_before` for an operation that was just made, without looking for cycles."""
    _put(new, op._prev_op, op, op)


def put_after(new: Operation, op: Operation) -> None:
    """`insert_op_after` for an operation that was just made, without looking for cycles."""
    _put(new, op, op._next_op, op)


def take_place(new: Operation, old: Operation) -> None:
    """Put an operation that was just made where one without results stands, which is not used any more.

    As `Rewriter.replace_op`, without looking for cycles and uses.
    """
    _put(new, old._prev_op, old._next_op, old)
    old.parent = old._prev_op = old._next_op = None
    if old.operands:
        old.operands = ()


def _put(new: Operation, before: Operation | None, after: Operation | None, beside: Operation) -> None:
    """Link an operation between two, in the block of one beside it."""
    block = beside.parent
    assert block is not None
    new.parent, new._prev_op, new._next_op = block, before, after
    if before is None:
        block._first_op = new
    else:
        before._next_op = new
    if after is None:
        block._last_op = new
    else:
        after._prev_op = new


@dataclass
class BlockText:
    """What a block's header line held: its label, its arguments, the comment of its predecessors."""

    label: str = ""
    arguments: str = ""
    comment: str = ""
    implicit: bool = False


@dataclass
class ForeignModule:
    """A module read from generic text.

    Attributes:
        prologue, epilogue: the lines of attribute and location aliases around it.
        root: the `builtin.module`.
        blocks: header text of each block that the text had.
        names: name of each value that the text had.
    """

    prologue: list[str]
    root: ForeignOp
    epilogue: list[str]
    blocks: dict[Block, BlockText] = field(default_factory=dict)
    names: dict[SSAValue, str] = field(default_factory=dict)

    def walk(self) -> Iterator[ForeignOp]:
        """Every foreign operation, outside in, in order."""
        return walk(self.root)

    def functions(self, opname: str = "tt.func") -> list[ForeignOp]:
        """The functions of the module, in order."""
        return [op for op in self.root.regions[0].block.ops if isinstance(op, ForeignOp) and op.opname == opname]


def walk(op: ForeignOp) -> Iterator[ForeignOp]:
    """The operation and every foreign one inside it, outside in, in order."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if not isinstance(inner, ForeignOp):
                    continue
                if inner.regions:
                    yield from walk(inner)
                else:
                    yield inner
