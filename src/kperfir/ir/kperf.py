"""Dialect `kperf`: what to record, for any target.

    kperf.record start "load" site 3
    kperf.record end "load" site 4 version %turn : i32
    kperf.record mark "here" site 5 version %turn, %left : i32, i32

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
from xdsl.ir import Dialect, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, prop_def, traits_def, var_operand_def
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


@irdl_op_definition
class RecordOp(IRDLOperation):
    """Write one record: the site's id, the clock, and a version of 32 bits where there is one.

    The version is the number of the turn of the loop around it. Behind it may stand how many turns
    follow, which is not written, and decides with it whether the record is.

    It has a memory effect, so that no pass moves or removes it.
    """

    name = "kperf.record"

    kind = prop_def(RecordKindAttr)
    region_name = prop_def(StringAttr)
    site = prop_def(IntegerAttr)
    version = var_operand_def()

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$kind $region_name `site` $site (`version` $version^ `:` type($version))? attr-dict"

    def __init__(self, kind: str, region_name: str, site: int, version: Sequence[SSAValue] = ()) -> None:
        # there is nothing for the declarative constructor to sort
        fill(self, version, {"kind": _kind(kind), "region_name": _name(region_name), "site": _number(site)})

    def verify_(self) -> None:
        if not self.region_name.data:
            raise VerifyException("a record needs the name of its region")
        if self.site.type != i32 or self.site.value.data < 0:
            raise VerifyException("a site is a 32-bit number that is not negative")
        if len(self.version) > 2 or any(of.type != i32 for of in self.version):
            raise VerifyException("a version is the number of a turn, and the number of turns that follow, of 32 bits")


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


KPerf = Dialect("kperf", [RecordOp, StartInstrumentationOp, StopInstrumentationOp], [RecordKindAttr])
