"""`kperf_gpu` -> lines of the LLVM dialect, spelled by a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from kperfir.ir.chunks import ChunkedKernel, ChunkOp, ReturnOp, location_of
from kperfir.ir.kperf_gpu import (
    AggregateEndOp,
    AggregateStartOp,
    CircularStoreOp,
    CountOp,
    FinalizeOp,
    InitOp,
    ReadCounterOp,
    StoreCounterOp,
)
from kperfir.ir.store_address import Accessed, StoreAddressOp
from kperfir.passes.addresses import Untraced
from kperfir.records import Layout
from kperfir.windows import ALL, Chosen, Windows

_SHARED_SYMBOL = (
    "  llvm.mlir.global external @global_smem() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>"
)


@dataclass(frozen=True)
class Frame:
    """What a target needs to know about the kernel it writes into.

    Attributes:
        scratch: name of the profile-scratch argument.
        shared_base_bytes: where the rings start in shared memory.
        warp_size: threads of a warp.
    """

    layout: Layout
    scratch: str
    shared_base_bytes: int
    warp_size: int


@dataclass(frozen=True)
class Turn:
    """The turn of the loop around a record.

    Attributes:
        number: name of its number, 32 bits, in the text around; empty where there is none.
        iterations: turns in which the record is written.
    """

    number: str = ""
    iterations: Windows = ALL

    @property
    def always_writes(self) -> bool:
        """Whether the record is written whatever the turn."""
        return not self.number or self.iterations.are_all


class Target(Protocol):
    """The questions in which GPUs differ.

    Every answer is a list of LLVM-dialect lines without indentation and location;
    a line that starts with "^" opens a block. `n` makes names unique.
    """

    def init(self, frame: Frame, chosen: Chosen) -> list[str]:
        """At kernel entry: header, ring address, index, and whether the warp is one that writes."""
        ...

    def read_counter(self, n: int, counter: str, bits: int) -> list[str]:
        """Read "clock" (32 or 64 bits) or "time" (64) into `%kp_clock<n>`."""
        ...

    def store(self, frame: Frame, n: int, site: int, wraps: bool, turn: Turn) -> list[str]:
        """Store `%kp_clock<n>`, the site's id and the version, and advance."""
        ...

    def sum_start(self, n: int, region: int, bits: int) -> list[str]:
        """Keep `%kp_clock<n>` as the start of a region."""
        ...

    def sum_end(self, frame: Frame, n: int, region: int, bits: int, counts: bool, turn: Turn) -> list[str]:
        """Add `%kp_clock<n>` less the region's start to what the region has taken."""
        ...

    def count(self, frame: Frame, n: int, region: int, turn: Turn) -> list[str]:
        """Count a mark."""
        ...

    def accesses(self, line: str) -> list[Accessed | Untraced]:
        """The accesses to global memory that a line of the LLVM dialect makes."""
        ...

    def store_address(self, frame: Frame, n: int, site: int, access: Accessed) -> list[str]:
        """Store the site, and every lane's address, and advance."""
        ...

    def finalize(self, frame: Frame, n: int) -> list[str]:
        """Before a return: counts and end times to the header, the ring to scratch."""
        ...


def to_llvm(kernel: ChunkedKernel, target: Target, frame: Frame) -> str:
    """The whole module as text."""
    lines = list(kernel.before)
    if frame.layout.place == "shared" and not kernel.has_shared_symbol:
        module = next(i for i, line in enumerate(lines) if line.startswith('"builtin.module"'))
        lines.insert(module + 1, _SHARED_SYMBOL)
    number = 0
    for op in kernel.body.ops:
        match op:
            case ChunkOp():
                lines += op.lines
            case ReturnOp():
                lines.append(op.line)
            case InitOp():
                lines += _placed(target.init(frame, op.chosen), "")
            case ReadCounterOp():
                read = target.read_counter(number, op.counter.data, op.clock.type.width.data)
                lines += _placed(read, _location(kernel, op.next_op))
            case CircularStoreOp() | StoreCounterOp():
                value, location, _ = kernel.carriers[op]
                wraps = isinstance(op, CircularStoreOp)
                store = target.store(frame, number, op.site.value.data, wraps, _turn(op))
                lines += _placed([*store, f"{value} = llvm.mlir.constant(0 : i32) : i32"], location)
                number += 1
            case AggregateStartOp() | AggregateEndOp() | CountOp():
                value, location, _ = kernel.carriers[op]
                added = _added(op, target, frame, number)
                lines += _placed([*added, f"{value} = llvm.mlir.constant(0 : i32) : i32"], location)
                number += 1
            case StoreAddressOp():
                location = location_of(_next_line(op))
                lines += _placed(target.store_address(frame, number, op.site.value.data, op.access), location)
                number += 1
            case FinalizeOp():
                location = location_of(op.next_op.line) if isinstance(op.next_op, ReturnOp) else ""
                lines += _placed(target.finalize(frame, number), location)
                number += 1
            case _:
                pass
    return "\n".join(lines + kernel.after)


def _added(op: AggregateStartOp | AggregateEndOp | CountOp, target: Target, frame: Frame, n: int) -> list[str]:
    region = op.region_id.value.data
    if isinstance(op, CountOp):
        return target.count(frame, n, region, _turn(op))
    kind = op.clock.type
    assert isinstance(kind, IntegerType)
    bits = kind.width.data
    if isinstance(op, AggregateStartOp):
        return target.sum_start(n, region, bits)
    return target.sum_end(frame, n, region, bits, op.piece.value.data == 0, _turn(op))


def _turn(op: CircularStoreOp | StoreCounterOp | AggregateEndOp | CountOp) -> Turn:
    if op.version is None:
        return Turn()
    return Turn(op.version.data, ALL if op.iterations is None else Windows.parse(op.iterations.data))


def _next_line(op: Operation) -> str:
    """The line in front of which it stands."""
    following = op.next_op
    while isinstance(following, StoreAddressOp):
        following = following.next_op
    return following.lines[0] if isinstance(following, ChunkOp) else ""


def _location(kernel: ChunkedKernel, store: object) -> str:
    return kernel.carriers[store][1] if isinstance(store, Operation) and store in kernel.carriers else ""


def _placed(lines: list[str], location: str) -> list[str]:
    suffix = f" {location}" if location else ""
    return [f"  {line}" if line.startswith("^") else f"    {line}{suffix}" for line in lines]
