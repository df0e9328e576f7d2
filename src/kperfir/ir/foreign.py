"""Operations, types and modules of other dialects, kept as opaque text.

Nothing of a foreign operation is interpreted beyond its name, its operands and
results, its regions and its successors; types, properties, attributes and
locations stay the text they were. That is what makes the round trip lossless:
xDSL reading `dense<0xFF800000>` as a number, for instance, would corrupt it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Block, Data, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
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
        result_names: left side as printed, ("%a:3",) or ("%a", "%b").
    """

    name = "mlir.foreign"

    opname: str
    properties_text: str
    attributes_text: str
    location_text: str
    result_names: tuple[str, ...]

    @staticmethod
    def make(
        opname: str,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties_text: str = "",
        location: str = "",
        regions: Sequence[Region] = (),
        successors: Sequence[Block] = (),
        result_names: tuple[str, ...] = (),
        attributes_text: str = "",
    ) -> ForeignOp:
        """Build one; results are named by the printer unless names are given."""
        op = ForeignOp(operands=operands, result_types=result_types, regions=regions, successors=successors)
        op.opname = opname
        op.properties_text = properties_text
        op.attributes_text = attributes_text
        op.location_text = location
        op.result_names = result_names
        return op


@dataclass
class BlockText:
    """What a block's header line held: its label, argument names and locations, the comment of its predecessors."""

    label: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
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
        for op in self.root.walk():
            if isinstance(op, ForeignOp):
                yield op

    def functions(self, opname: str = "tt.func") -> list[ForeignOp]:
        """The functions of the module, in order."""
        return [op for op in self.root.regions[0].block.ops if isinstance(op, ForeignOp) and op.opname == opname]
