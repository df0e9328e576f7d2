"""Dialect `kperf`: what to record, for any target.

    kperf.record start "load" site 3
    kperf.record end "load" site 4 version %turn : i32
    kperf.record mark "here" site 5 version %turn, %left : i32, i32
    kperf.record_scalar value "tiles" site 6 carries %tile if %happens : i32, i32
    kperf.record_scalar start "copy" site 7 carries %id if %happens : i32, i32

stands where a kernel is to write one record. The table of sites beside the
module (`kperfir.records.Table`) says which region a site belongs to.

    kperf.start_instrumentation "addresses" kinds "load+store"
    kperf.stop_instrumentation "addresses"

bound an analysis of what stands between them, in the order of the text, that is made
when the kernel is in the LLVM dialect. Without a stop it goes on to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import get_args

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Dialect, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from kperfir.ir.foreign import fill
from kperfir.records import AccessKind

ADDRESSES = "addresses"


class RecordKind(StrEnum):
    """Which moment of a region a record stands for."""

    START = "start"
    END = "end"
    MARK = "mark"
    VALUE = "value"


@irdl_attr_definition
class RecordKindAttr(EnumAttribute[RecordKind], SpacedOpaqueSyntaxAttribute):
    """A record's kind."""

    name = "kperf.kind"


@cache
def _kind(text: str) -> RecordKindAttr:
    return RecordKindAttr(RecordKind(text))


@lru_cache(1024)
def _name(text: str) -> StringAttr:
    return StringAttr(text)


@lru_cache(1024)
def _number(site: int) -> IntegerAttr:
    return IntegerAttr(site, i32)


class Record(IRDLOperation):
    """What both kinds of records have."""

    kind = prop_def(RecordKindAttr)
    region_name = prop_def(StringAttr)
    site = prop_def(IntegerAttr)

    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        if not self.region_name.data:
            raise VerifyException("a record needs the name of its region")
        if self.site.type != i32 or self.site.value.data < 0:
            raise VerifyException("a site is a 32-bit number that is not negative")


def _told(kind: str, region_name: str, site: int) -> dict[str, Attribute]:
    return {"kind": _kind(kind), "region_name": _name(region_name), "site": _number(site)}


def _verify_version(version: Sequence[SSAValue]) -> None:
    if len(version) > 2 or any(of.type != i32 for of in version):
        raise VerifyException("a version is the number of a turn, and the number of turns that follow, of 32 bits")


@irdl_op_definition
class RecordOp(Record):
    """Write one record: the site's id, the clock, and a version of 32 bits where there is one.

    The version is the number of the turn of the loop around it. Behind it may stand how many turns
    follow, which is not written, and decides with it whether the record is.

    It has a memory effect, so that no pass moves or removes it.
    """

    name = "kperf.record"

    version = var_operand_def()

    assembly_format = "$kind $region_name `site` $site (`version` $version^ `:` type($version))? attr-dict"

    def __init__(self, kind: str, region_name: str, site: int, version: Sequence[SSAValue] = ()) -> None:
        # there is nothing for the declarative constructor to sort
        fill(self, version, _told(kind, region_name, site))

    def verify_(self) -> None:
        super().verify_()
        if self.kind.data not in (RecordKind.START, RecordKind.END, RecordKind.MARK):
            raise VerifyException(f"a record of kind {self.kind.data} carries a scalar")
        _verify_version(self.version)


@irdl_op_definition
class RecordScalarOp(Record):
    """Write one record that carries a scalar of 32 bits, unless `happens` is 0.

    One of kind start or end is of an event, whose id it carries; they may stand in different blocks and warps.
    The turn of the loop decides whether it is written, as above, and is not in it: the scalar has its place.
    """

    name = "kperf.record_scalar"

    scalar = operand_def()
    happens = operand_def()
    version = var_operand_def()

    assembly_format = (
        "$kind $region_name `site` $site `carries` $scalar `if` $happens `:` type($scalar) `,` type($happens)"
        " (`version` $version^ `:` type($version))? attr-dict"
    )

    def __init__(self, kind: str, region_name: str, site: int, operands: Sequence[SSAValue] = ()) -> None:
        # operands: scalar, happens and version; none in the LLVM dialect, where they are names beside the operation
        fill(self, operands, _told(kind, region_name, site))

    def verify_(self) -> None:
        super().verify_()
        if self.kind.data == RecordKind.MARK:
            raise VerifyException(f"a record of kind {self.kind.data} carries no scalar")
        if self.scalar.type != i32 or self.happens.type != i32:
            raise VerifyException("what a record carries has 32 bits, and so has the number that says whether it does")
        _verify_version(self.version)


class _Instrumentation(IRDLOperation):
    analysis = prop_def(StringAttr)

    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        if self.analysis.data != ADDRESSES:
            raise VerifyException(f'there is no instrumentation "{self.analysis.data}", but "{ADDRESSES}"')


@irdl_op_definition
class StartInstrumentationOp(_Instrumentation):
    """From here on the accesses of these kinds to global memory write their addresses."""

    name = "kperf.start_instrumentation"

    kinds = prop_def(StringAttr)

    assembly_format = "$analysis `kinds` $kinds attr-dict"

    def __init__(self, kinds: tuple[str, ...]) -> None:
        super().__init__(properties={"analysis": StringAttr(ADDRESSES), "kinds": StringAttr("+".join(kinds))})

    @property
    def chosen(self) -> tuple[str, ...]:
        """Its kinds, of `kperfir.records.AccessKind`."""
        return tuple(self.kinds.data.split("+"))

    def verify_(self) -> None:
        super().verify_()
        for kind in self.chosen:
            if kind not in get_args(AccessKind):
                raise VerifyException(f'"{kind}" is no kind of memory access')


@irdl_op_definition
class StopInstrumentationOp(_Instrumentation):
    """What follows is not instrumented any more."""

    name = "kperf.stop_instrumentation"

    assembly_format = "$analysis attr-dict"

    def __init__(self) -> None:
        super().__init__(properties={"analysis": StringAttr(ADDRESSES)})


KPerf = Dialect("kperf", [RecordOp, RecordScalarOp, StartInstrumentationOp, StopInstrumentationOp], [RecordKindAttr])
