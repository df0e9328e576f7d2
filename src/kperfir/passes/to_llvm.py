"""`kperf_gpu` -> lines of the LLVM dialect, spelled by a target."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from kperfir.errors import LoweringError
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
from kperfir.ir.scalar import Scalar
from kperfir.ir.store_address import Accessed, StoreAddressOp
from kperfir.ir.turn import Turn
from kperfir.passes.addresses import Untraced
from kperfir.records import Layout
from kperfir.windows import Chosen

_SHARED_SYMBOL = (
    "  llvm.mlir.global external @global_smem() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>"
)
_STORES = (CircularStoreOp, StoreCounterOp, StoreAddressOp)
_SUMS = (AggregateStartOp, AggregateEndOp, CountOp)
_DEFINED = re.compile(r"^\s*(%[\w$.#-]+) = |^\s*(\^\w+)|(%[\w$.#-]+): ")


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

    def store(self, frame: Frame, n: int, site: int, wraps: bool, turn: Turn, scalar: Scalar) -> list[str]:
        """Store `%kp_clock<n>`, the site's id and the version or the scalar, and advance."""
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
    """The whole module as text.

    Raises:
        LoweringError: two lines define one name.
    """
    lines = list(kernel.before)
    if frame.layout.place == "shared" and not kernel.has_shared_symbol:
        module = next(i for i, line in enumerate(lines) if line.startswith('"builtin.module"'))
        lines.insert(module + 1, _SHARED_SYMBOL)
    number = 0
    made: list[str] = []
    for op in kernel.body.ops:
        if isinstance(op, (ChunkOp, ReturnOp)):
            lines += op.lines if isinstance(op, ChunkOp) else [op.line]
            continue
        spelled = _spelled(op, kernel, target, frame, number)
        number += isinstance(op, (*_STORES, *_SUMS, FinalizeOp))
        made += spelled
        lines += spelled
    _check_defined_once(made)
    return "\n".join(lines + kernel.after)


def _spelled(op: Operation, kernel: ChunkedKernel, target: Target, frame: Frame, n: int) -> list[str]:
    """One operation of `kperf_gpu`, the n-th that the target numbers."""
    match op:
        case InitOp():
            return _placed(target.init(frame, op.chosen), kernel.frame_location)
        case ReadCounterOp():
            read = target.read_counter(n, op.counter.data, op.clock.type.width.data)
            return _placed(read, _location(kernel, op.next_op))
        case CircularStoreOp() | StoreCounterOp():
            wraps = isinstance(op, CircularStoreOp)
            return _carried(kernel, op, target.store(frame, n, op.site.value.data, wraps, op.turn, op.scalar))
        case AggregateStartOp() | AggregateEndOp() | CountOp():
            return _carried(kernel, op, _added(op, target, frame, n))
        case StoreAddressOp():
            spelled = target.store_address(frame, n, op.site.value.data, op.access)
            return _placed(spelled, location_of(_next_line(op)))
        case FinalizeOp():
            at_return = location_of(op.next_op.line) if isinstance(op.next_op, ReturnOp) else ""
            return _placed(target.finalize(frame, n), kernel.frame_location or at_return)
        case _:
            return []


def _carried(kernel: ChunkedKernel, op: Operation, lines: list[str]) -> list[str]:
    """Lines of a record, and the value that its carrier defined."""
    value, location, _ = kernel.carriers[op]
    return _placed([*lines, f"{value} = llvm.mlir.constant(0 : i32) : i32"], location)


def _added(op: AggregateStartOp | AggregateEndOp | CountOp, target: Target, frame: Frame, n: int) -> list[str]:
    region = op.region_id.value.data
    if isinstance(op, CountOp):
        return target.count(frame, n, region, op.turn)
    kind = op.clock.type
    assert isinstance(kind, IntegerType)
    bits = kind.width.data
    if isinstance(op, AggregateStartOp):
        return target.sum_start(n, region, bits)
    return target.sum_end(frame, n, region, bits, op.piece.value.data == 0, op.turn)


def _next_line(op: Operation) -> str:
    """The line in front of which it stands."""
    following = op.next_op
    while isinstance(following, StoreAddressOp):
        following = following.next_op
    return following.lines[0] if isinstance(following, ChunkOp) else ""


def _location(kernel: ChunkedKernel, store: object) -> str:
    return kernel.carriers[store][1] if isinstance(store, Operation) and store in kernel.carriers else ""


def _check_defined_once(lines: list[str]) -> None:
    """A target numbers its names by records, returns and regions, which must not meet."""
    counts = Counter(name for line in lines for found in _DEFINED.finditer(line) for name in found.groups() if name)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise LoweringError(f"The lowering of records defines {', '.join(twice)} twice.", "Please report the kernel.")


def _placed(lines: list[str], location: str) -> list[str]:
    suffix = f" {location}" if location else ""
    return [f"  {line}" if line.startswith("^") else f"    {line}{suffix}" for line in lines]
