"""How a user's pass places records, level by level.

At TTIR operations get the tags of scopes, because an operation that was inserted there
would change what Triton's passes do; the records follow when the kernel is scheduled. At
TTGIR and at the LLVM dialect `kperf.record` goes in.
"""

from __future__ import annotations

from collections import Counter

from xdsl.ir import Block, Operation, SSAValue

from kperfir.errors import PassError
from kperfir.ir.chunks import ChunkedKernel, ChunkOp
from kperfir.ir.foreign import ForeignOp
from kperfir.ir.kperf import RecordOp
from kperfir.ir.locations import Locations
from kperfir.passes.anchors import LOOPS
from kperfir.passes.context import location_text
from kperfir.passes.iterations import IterationNumbers
from kperfir.passes.scopes import INNER_BODIES, Scope
from kperfir.passes.tables import TableBuilder
from kperfir.records import Kind, Role

Source = tuple[str, int]


class TagPlaces:
    """TTIR: scopes of passes, numbered behind those that the kernel has."""

    def __init__(self, locations: Locations, first: int) -> None:
        self.scopes: list[Scope] = []
        self._locations = locations
        self._first = first
        self._copies = 0

    def span(self, first: Operation, last: Operation, name: str, role: Role, source: Source) -> None:
        """Tag the operations and all inside them; a role comes of what Triton makes of them."""
        if role != "sync":
            raise PassError(f"'{name}' has the role {role}, which TTIR does not know.", "Leave the role out there.")
        tag = self._tag("kperf.scope", name, source)
        op: Operation | None = first
        while op is not None:
            self._put(op, tag)
            op = None if op is last else op.next_op

    def mark(self, before: Operation, name: str, source: Source) -> None:
        """Tag the operation that follows the moment."""
        tag = self._tag("kperf.mark", name, source)
        if isinstance(before, ForeignOp):
            before.location_text = self._locations.tag(before.location_text, tag)

    def _tag(self, kind: str, name: str, source: Source) -> str:
        number = self._first + len(self.scopes)
        self.scopes.append(Scope(number, name, *source, kind="mark" if kind == "kperf.mark" else "pass"))
        return f"{kind}:{number}.0"

    def _put(self, op: Operation, tag: str) -> None:
        if not isinstance(op, ForeignOp):
            return
        op.location_text = self._locations.tag(op.location_text, tag)
        if op.opname not in INNER_BODIES:
            for region in op.regions:
                for block in region.blocks:
                    for inner in block.ops:
                        self._put(inner, tag)


class RecordPlaces:
    """TTGIR: records between operations."""

    def __init__(self, tables: TableBuilder, turns: IterationNumbers | None = None) -> None:
        """Args:
        turns: numbers of the turns that records in counted loops get.
        """
        self._tables = tables
        self._turns = turns

    def span(self, first: Operation, last: Operation, name: str, role: Role, source: Source) -> None:
        """A record before the first, one behind the last."""
        region = self._tables.region(self._parent(first), name, role, "pass", *source)
        self._tables.operations(region, _names(first, last))
        _block(first).insert_op_before(self._record("start", region, first), first)
        _block(last).insert_op_after(self._record("end", region, last), last)

    def mark(self, before: Operation, name: str, source: Source) -> None:
        """A record of its own; what is a mark has origin "mark", whoever asked for it."""
        region = self._tables.region(self._parent(before), name, "sync", "mark", *source)
        self._tables.operations(region, _names(before, before))
        _block(before).insert_op_before(self._record("mark", region, before), before)

    def _record(self, kind: Kind, region: int, beside: Operation) -> RecordOp:
        turn = self._turn(beside)
        site = self._tables.site(region, kind, versioned=bool(turn))
        return RecordOp(kind, self._tables.name(region), site, turn)

    def _turn(self, op: Operation) -> tuple[SSAValue, ...]:
        """Numbers of the turn of the innermost counted loop, or of the outermost loop, as `place` has them."""
        if self._turns is None:
            return ()
        loops = _loops_around(op)
        if self._turns.of_outermost:
            loops = loops[-1:]
        return next((numbers for loop in loops if (numbers := self._turns.of(loop))), ())

    def _parent(self, op: Operation) -> int | None:
        """The innermost region that is open at an operation."""
        inside: Operation | None = op
        while inside is not None:
            region = inside.parent_region()
            before = _before(inside)
            if region is not None and inside.parent is not region.blocks[0]:
                before += list(region.blocks[0].ops)[:1]  # where the record of the whole stands
            if (found := self._open(before)) is not None:
                return found
            inside = inside.parent_op()
        return None

    def _open(self, ops: list[Operation]) -> int | None:
        """The region of the first start, backwards, whose end does not lie before it."""
        ended: Counter[int] = Counter()
        for record in ops:
            if not isinstance(record, RecordOp) or record.kind.data not in ("start", "end"):
                continue
            region = self._tables.region_of(record.site.value.data)
            if record.kind.data == "start" and not ended[region]:
                return region
            ended[region] += 1 if record.kind.data == "end" else -1
        return None


class ChunkPlaces(RecordPlaces):
    """The LLVM dialect: records between lines."""

    def __init__(self, kernel: ChunkedKernel, tables: TableBuilder) -> None:
        super().__init__(tables)
        self._kernel = kernel

    def _parent(self, op: Operation) -> int | None:
        """Not known: branches and partitions lie one behind the other here."""
        return None

    def _record(self, kind: Kind, region: int, beside: Operation) -> RecordOp:
        record = super()._record(kind, region, beside)
        # lowering defines the value that a carrier would have had
        self._kernel.carriers[record] = (f"%kperf_pass_{record.site.value.data}", location_text(beside), "")
        return record


class NoPlaces:
    """Behind the lowering of records."""

    def span(self, first: Operation, last: Operation, name: str, role: Role, source: Source) -> None:
        """Refuse."""
        self.mark(first, name, source)

    def mark(self, before: Operation, name: str, source: Source) -> None:
        """Refuse."""
        raise PassError(f"'{name}' cannot be recorded: records are lowered already.", "Use at = 'llvm:before-lower'.")


def _before(op: Operation) -> list[Operation]:
    """What lies before an operation in its block, backwards."""
    found: list[Operation] = []
    while (previous := op.prev_op) is not None:
        found.append(previous)
        op = previous
    return found


def _block(op: Operation) -> Block:
    block = op.parent
    assert block is not None
    return block


def _names(first: Operation, last: Operation) -> tuple[str, ...]:
    names: list[str] = []
    op: Operation | None = first
    while op is not None:
        if isinstance(op, ForeignOp):
            names.append(op.opname)
        elif isinstance(op, ChunkOp):
            names += [line.partition('"')[2].partition('"')[0] for line in op.lines[:1]]
        op = None if op is last else op.next_op
    return tuple(dict.fromkeys(names))


def _loops_around(op: Operation) -> list[ForeignOp]:
    """Innermost first; a partition does not see those outside of it."""
    loops, around = [], op.parent_op()
    while isinstance(around, ForeignOp) and around.opname != "ttg.warp_specialize.partitions":
        if around.opname in LOOPS:
            loops.append(around)
        around = around.parent_op()
    return loops
