"""Dialect `kperf_gpu`: how a GPU records, before a target spells it out.

    %ring  = kperf_gpu.local_alloc 16384 : !kperf_gpu.buffer<"shared">
    %out   = kperf_gpu.global_scratch_alloc 16528 : !kperf_gpu.buffer<"global">
    %index = kperf_gpu.init %ring, %out slots 256 record_bytes 8 : ...
    %clock = kperf_gpu.read_counter "clock" : i32
    kperf_gpu.circular_store %clock, %index site 3 : i32
    kperf_gpu.finalize %index

In the place of `local_alloc`, `kperf_gpu.stack_alloc 512` gives each thread a buffer.
`store_counter` is the same store where nothing is overwritten. Where sums are kept
instead of records, these stand in the place of stores:

    kperf_gpu.aggregate_start %clock, %index region 1 : i32
    kperf_gpu.aggregate_end %clock, %index region 1 piece 0 : i32
    kperf_gpu.count %index region 2

Where addresses are traced, one of these stands before each access:

    kperf_gpu.store_address %index site 3 kind "load" width_bytes 16 pointer "%x" offset_bytes 0
"""

from __future__ import annotations

from enum import StrEnum

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr, i32, i64
from xdsl.ir import (
    Attribute,
    Dialect,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from kperfir.errors import PlanError
from kperfir.ir.gpu_types import BufferType, IndexType, Memory
from kperfir.ir.kperf_gpu_memory import GlobalScratchAllocOp, LocalAllocOp, StackAllocOp
from kperfir.ir.scalar import NO_SCALAR, Scalar
from kperfir.ir.store_address import StoreAddressOp
from kperfir.ir.turn import NO_TURN, Turn
from kperfir.records import ADDRESS_BYTES, NARROW_RECORD_BYTES, WIDE_RECORD_BYTES, Layout
from kperfir.windows import ALL, Chosen, Windows


@irdl_op_definition
class InitOp(IRDLOperation):
    """Start recording: write the block's header, point every warp at its ring.

    `ring` is where records go; `scratch` is the block that leaves the kernel. Of each
    `warp_step` warps the first has a ring; with `sums` an entry a region stands in its
    place, and with `lanes` records hold an address of each lane. Windows of numbers
    (`kperfir.windows`) say which CTAs, SMs and warps write into theirs; without one all do.
    """

    name = "kperf_gpu.init"

    ring = operand_def(BufferType)
    scratch = operand_def(BufferType)
    slots = prop_def(IntegerAttr)
    record_bytes = prop_def(IntegerAttr)
    sums = opt_prop_def(UnitAttr)
    lanes = opt_prop_def(IntegerAttr)
    warp_step = opt_prop_def(IntegerAttr)
    ctas = opt_prop_def(StringAttr)
    sms = opt_prop_def(StringAttr)
    warps = opt_prop_def(StringAttr)
    index = result_def(IndexType)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$ring `,` $scratch `slots` $slots `record_bytes` $record_bytes (`sums` $sums^)? (`lanes` $lanes^)?"
        " (`warp_step` $warp_step^)?"
        " (`ctas` $ctas^)? (`sms` $sms^)? (`warps` $warps^)? attr-dict"
        " `:` type($ring) `,` type($scratch) `->` type($index)"
    )

    def __init__(self, ring: SSAValue, scratch: SSAValue, layout: Layout, chosen: Chosen) -> None:
        properties: dict[str, Attribute] = {
            "slots": IntegerAttr(layout.slots, i32),
            "record_bytes": IntegerAttr(layout.record_bytes, i32),
        }
        if layout.holds_sums:
            properties["sums"] = UnitAttr()
        if layout.lanes:
            properties["lanes"] = IntegerAttr(layout.lanes, i32)
        if layout.warp_step != 1:
            properties["warp_step"] = IntegerAttr(layout.warp_step, i32)
        for name, windows in (("ctas", chosen.ctas), ("sms", chosen.sms), ("warps", chosen.warps)):
            if not windows.are_all:
                properties[name] = StringAttr(str(windows))
        super().__init__(operands=[ring, scratch], properties=properties, result_types=[IndexType()])

    @property
    def chosen(self) -> Chosen:
        """Which CTAs, SMs and warps write."""
        texts = (self.ctas, self.sms, self.warps)
        return Chosen(*(ALL if text is None else Windows.parse(text.data) for text in texts))

    def verify_(self) -> None:
        slots, record_bytes = self.slots.value.data, self.record_bytes.value.data
        if self.lanes is not None and record_bytes != self.lanes.value.data * ADDRESS_BYTES:
            raise VerifyException(f"a record of addresses has {ADDRESS_BYTES} bytes a lane")
        if self.lanes is None and record_bytes not in (NARROW_RECORD_BYTES, WIDE_RECORD_BYTES):
            raise VerifyException("a record has 8 or 16 bytes, sums of a region have 16")
        if slots < 1 or (self.sums is None and (slots < 2 or slots & (slots - 1))):
            raise VerifyException(f"a ring has a power of two of slots, from 2 on, not {slots}")
        if self.warp_step is not None and self.warp_step.value.data < 1:
            raise VerifyException("of each so many warps the first records, from 1 on")
        try:
            chosen = self.chosen
        except PlanError as error:
            raise VerifyException(error.what) from None
        if any(windows.ask_for_last for windows in (chosen.ctas, chosen.sms, chosen.warps)):
            raise VerifyException("which CTAs, SMs and warps are the last is not known")
        scratch = self.scratch.type
        if not isinstance(scratch, BufferType) or scratch.memory.data != Memory.GLOBAL:
            raise VerifyException("the scratch block lies in global memory")
        ring = self.ring.type
        if self.sums is not None and isinstance(ring, BufferType) and ring.memory.data == Memory.STACK:
            raise VerifyException("sums are not kept on the stack")


class Counter(StrEnum):
    """What can be read."""

    CLOCK = "clock"
    TIME = "time"


@irdl_op_definition
class ReadCounterOp(IRDLOperation):
    """Read the SM's clock, its low 32 bits or all 64 by the result's type, or the global time in nanoseconds.

    It writes as far as other passes know: two reads are never one.
    """

    name = "kperf_gpu.read_counter"

    counter = prop_def(StringAttr)
    clock = result_def(IntegerType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$counter attr-dict `:` type($clock)"

    def __init__(self, counter: str = Counter.CLOCK, kind: Attribute = i32) -> None:
        super().__init__(properties={"counter": StringAttr(counter)}, result_types=[kind])

    def verify_(self) -> None:
        kind = self.clock.type
        if self.counter.data not in list(Counter):
            raise VerifyException(f"a counter is {' or '.join(Counter)}, not {self.counter.data}")
        if not isinstance(kind, IntegerType) or kind.width.data not in (32, 64):
            raise VerifyException("a clock has 32 or 64 bits")
        if self.counter.data == Counter.TIME and kind.width.data != 64:
            raise VerifyException("global time has 64 bits")


_TURN_FORMAT = "(`version` $version^)? (`left` $left^)? (`iterations` $iterations^)?"


class _Store(IRDLOperation):
    clock = operand_def(IntegerType)
    index = operand_def(IndexType)
    site = prop_def(IntegerAttr)
    version = opt_prop_def(StringAttr)
    left = opt_prop_def(StringAttr)
    iterations = opt_prop_def(StringAttr)
    carries = opt_prop_def(StringAttr)
    happens = opt_prop_def(StringAttr)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$clock `,` $index `site` $site " + _TURN_FORMAT + " (`carries` $carries^)? (`if` $happens^)? attr-dict"
        " `:` type($clock) `,` type($index)"
    )

    def __init__(
        self, clock: SSAValue, index: SSAValue, site: int, turn: Turn = NO_TURN, scalar: Scalar = NO_SCALAR
    ) -> None:
        properties: dict[str, Attribute] = {"site": IntegerAttr(site, i32)}
        if scalar.bits:
            properties |= {"carries": StringAttr(scalar.bits), "happens": StringAttr(scalar.happens)}
        super().__init__(operands=[clock, index], properties=properties | _versioned(turn))

    @property
    def scalar(self) -> Scalar:
        """What the record carries."""
        return Scalar(*("" if of is None else of.data for of in (self.carries, self.happens)))

    @property
    def turn(self) -> Turn:
        """Of the loop around it."""
        return _turn(self.version, self.left, self.iterations)

    def verify_(self) -> None:
        if self.site.value.data < 0:
            raise VerifyException("a site is not negative")
        if bool(self.scalar.bits) != bool(self.scalar.happens):
            raise VerifyException("a record that carries a scalar says whether it does, and no other does")
        if self.scalar.bits and self.clock.type != i64:
            raise VerifyException("a record that carries a scalar has 16 bytes, and a clock of 64 bits")
        _verify_turn(self.turn)


@irdl_op_definition
class StoreCounterOp(_Store):
    """Write one record and advance; one that finds no room is counted, and not written.

    `carries` names what it carries in the place of the version, `if` a number that is 0 where there is nothing.
    `version` names the number of the loop's turn in the text around, `left` that of the turns behind it; with
    `iterations` nothing is written in others.
    """

    name = "kperf_gpu.store_counter"


@irdl_op_definition
class CircularStoreOp(_Store):
    """Write one record over the oldest and advance; all else as above."""

    name = "kperf_gpu.circular_store"


def _versioned(turn: Turn) -> dict[str, Attribute]:
    """Properties of an operation in a loop."""
    texts = {"version": turn.number, "left": turn.left}
    if not turn.always_writes:
        texts["iterations"] = str(turn.iterations)
    return {name: StringAttr(text) for name, text in texts.items() if text}


def _turn(version: StringAttr | None, left: StringAttr | None, iterations: StringAttr | None) -> Turn:
    number, follow = ("" if of is None else of.data for of in (version, left))
    return Turn(number, follow, ALL if iterations is None else Windows.parse(iterations.data))


def _verify_turn(turn: Turn) -> None:
    if turn.iterations.ask_for_last and not turn.left:
        raise VerifyException("which turns are the last is told by the number of those left")


class _Aggregate(IRDLOperation):
    clock = operand_def(IntegerType)
    index = operand_def(IndexType)
    region_id = prop_def(IntegerAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        if self.region_id.value.data < 0:
            raise VerifyException("the id of a region is not negative")


@irdl_op_definition
class AggregateStartOp(_Aggregate):
    """A region begins: its clock is kept in a register until it ends."""

    name = "kperf_gpu.aggregate_start"

    assembly_format = "$clock `,` $index `region` $region_id attr-dict `:` type($clock) `,` type($index)"

    def __init__(self, clock: SSAValue, index: SSAValue, region: int) -> None:
        super().__init__(operands=[clock, index], properties={"region_id": IntegerAttr(region, i32)})


@irdl_op_definition
class AggregateEndOp(_Aggregate):
    """A region ends: the time since its start goes into its sum, least and greatest; piece 0 counts."""

    name = "kperf_gpu.aggregate_end"

    piece = prop_def(IntegerAttr)
    version = opt_prop_def(StringAttr)
    left = opt_prop_def(StringAttr)
    iterations = opt_prop_def(StringAttr)

    assembly_format = (
        "$clock `,` $index `region` $region_id `piece` $piece " + _TURN_FORMAT + " attr-dict"
        " `:` type($clock) `,` type($index)"
    )

    def __init__(
        self,
        clock: SSAValue,
        index: SSAValue,
        region: int,
        piece: int,
        turn: Turn = NO_TURN,
    ) -> None:
        properties: dict[str, Attribute] = {"region_id": IntegerAttr(region, i32), "piece": IntegerAttr(piece, i32)}
        super().__init__(operands=[clock, index], properties=properties | _versioned(turn))

    @property
    def turn(self) -> Turn:
        """Of the loop around it."""
        return _turn(self.version, self.left, self.iterations)

    def verify_(self) -> None:
        super().verify_()
        _verify_turn(self.turn)


@irdl_op_definition
class CountOp(IRDLOperation):
    """A mark was passed: it counts, and has no time."""

    name = "kperf_gpu.count"

    index = operand_def(IndexType)
    region_id = prop_def(IntegerAttr)

    version = opt_prop_def(StringAttr)
    left = opt_prop_def(StringAttr)
    iterations = opt_prop_def(StringAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$index `region` $region_id " + _TURN_FORMAT + " attr-dict `:` type($index)"

    def __init__(self, index: SSAValue, region: int, turn: Turn = NO_TURN) -> None:
        properties: dict[str, Attribute] = {"region_id": IntegerAttr(region, i32)}
        super().__init__(operands=[index], properties=properties | _versioned(turn))

    @property
    def turn(self) -> Turn:
        """Of the loop around it."""
        return _turn(self.version, self.left, self.iterations)

    def verify_(self) -> None:
        if self.region_id.value.data < 0:
            raise VerifyException("the id of a region is not negative")
        _verify_turn(self.turn)


@irdl_op_definition
class FinalizeOp(IRDLOperation):
    """Before the kernel returns: counts and end times to the header, the ring to scratch."""

    name = "kperf_gpu.finalize"

    index = operand_def(IndexType)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$index attr-dict `:` type($index)"

    def __init__(self, index: SSAValue) -> None:
        super().__init__(operands=[index])


KPerfGPU = Dialect(
    "kperf_gpu",
    [
        LocalAllocOp,
        GlobalScratchAllocOp,
        StackAllocOp,
        InitOp,
        ReadCounterOp,
        StoreCounterOp,
        CircularStoreOp,
        AggregateStartOp,
        AggregateEndOp,
        CountOp,
        StoreAddressOp,
        FinalizeOp,
    ],
    [BufferType, IndexType],
)
