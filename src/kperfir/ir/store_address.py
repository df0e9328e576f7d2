"""`kperf_gpu.store_address`, and what it says of a memory access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, traits_def
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from kperfir.ir.gpu_types import IndexType
from kperfir.records import AccessKind


@dataclass(frozen=True)
class Accessed:
    """A memory access in the text of the LLVM dialect; names are those of its values.

    Attributes:
        width_bytes: what one lane reads or writes.
        instruction: as it is spelled there, such as "ld.global.v4.b32".
        pointer, offset_bytes: a lane's address is their sum.
        predicate: bit that lets a lane make the access, "!%name" one that keeps it from it; empty where all do.
        source_bytes: number of bytes read, 32 bits; a lane where it is 0 makes none. Empty where it is fixed.
    """

    kind: AccessKind
    width_bytes: int
    instruction: str
    pointer: str
    offset_bytes: int = 0
    predicate: str = ""
    source_bytes: str = ""


@irdl_op_definition
class StoreAddressOp(IRDLOperation):
    """Every lane of the warp writes the address of its next access, 0 where it makes none; advance by one record.

    The access stands behind it in the text around, where `pointer` names its address less
    `offset_bytes`. The lane makes it where the bit `predicate` is set ("!%name": is not
    set) and where the number `source_bytes` is not 0; without these it does.
    """

    name = "kperf_gpu.store_address"

    index = operand_def(IndexType)
    site = prop_def(IntegerAttr)
    kind = prop_def(StringAttr)
    width_bytes = prop_def(IntegerAttr)
    pointer = prop_def(StringAttr)
    offset_bytes = prop_def(IntegerAttr)
    predicate = opt_prop_def(StringAttr)
    source_bytes = opt_prop_def(StringAttr)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$index `site` $site `kind` $kind `width_bytes` $width_bytes `pointer` $pointer `offset_bytes` $offset_bytes"
        " (`predicate` $predicate^)? (`source_bytes` $source_bytes^)? attr-dict `:` type($index)"
    )

    def __init__(self, index: SSAValue, site: int, access: Accessed) -> None:
        properties: dict[str, Attribute] = {
            "site": IntegerAttr(site, i32),
            "kind": StringAttr(access.kind),
            "width_bytes": IntegerAttr(access.width_bytes, i32),
            "pointer": StringAttr(access.pointer),
            "offset_bytes": IntegerAttr(access.offset_bytes, i32),
        }
        for name, value in (("predicate", access.predicate), ("source_bytes", access.source_bytes)):
            if value:
                properties[name] = StringAttr(value)
        super().__init__(operands=[index], properties=properties)

    @property
    def access(self) -> Accessed:
        """What it was made of; the instruction is not kept."""
        predicate, source_bytes = ("" if text is None else text.data for text in (self.predicate, self.source_bytes))
        width_bytes, offset_bytes = self.width_bytes.value.data, self.offset_bytes.value.data
        kind: Any = self.kind.data
        return Accessed(kind, width_bytes, "", self.pointer.data, offset_bytes, predicate, source_bytes)

    def verify_(self) -> None:
        if self.site.value.data < 0:
            raise VerifyException("a site is not negative")
        if self.kind.data not in get_args(AccessKind):
            raise VerifyException(f'"{self.kind.data}" is no kind of memory access')
        if self.width_bytes.value.data < 1:
            raise VerifyException("an access has at least one byte")
        if not self.pointer.data.startswith("%"):
            raise VerifyException("an access needs the name of its pointer")
