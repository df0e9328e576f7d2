"""Place records in a kernel that Triton has scheduled: tags and rules -> `kperf.record`.

In: a TTGIR module whose operations may carry location tags of scopes (see
`kperfir.passes.scopes`) or, in Gluon, explicit markers. Out: the same module with
`kperf.record` operations and the table of what they stand for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from kperfir.ir.foreign import ForeignModule, ForeignOp, put_after, put_before, walk
from kperfir.ir.kperf import RecordOp, RecordScalarOp
from kperfir.ir.locations import Locations
from kperfir.markers import MarkerKind
from kperfir.passes.anchors import LOOPS, STRUCTURAL, computes, is_anchor, role_of, rule_of
from kperfir.passes.explicit import Marker
from kperfir.passes.finding import Finding, not_counted, not_inlined
from kperfir.passes.iterations import IterationNumbers
from kperfir.passes.runs import Key, Member, Path, Span, path_of_tags, spans_of
from kperfir.passes.scalars import written
from kperfir.passes.scopes import Scope, not_carried
from kperfir.passes.tables import TableBuilder
from kperfir.passes.values import users_by_name
from kperfir.plan import AUTO
from kperfir.records import Kind, Origin, Scalar, Table

Turn = tuple[SSAValue, ...]
_KINDS: dict[MarkerKind, Kind] = {"value": "value", "begin": "start", "end": "end"}


@dataclass(frozen=True)
class Placed:
    """The table of the records in the module, and what the user must read."""

    table: Table
    findings: tuple[Finding, ...]


def place(
    module: ForeignModule,
    locations: Locations,
    regions: tuple[str, ...],
    scopes: tuple[Scope, ...] = (),
    markers: tuple[Marker, ...] = (),
    turns: IterationNumbers | None = None,
    tables: TableBuilder | None = None,
    holds_scalars: bool = True,
) -> Placed:
    """Insert `kperf.record` operations.

    Args:
        module: TTGIR; changed in place. Read with values, if `turns` is given.
        locations: its location table.
        regions: rules, as in `kperfir.plan.Plan.regions`.
        scopes: what the tags and markers name.
        markers: explicit markers of a Gluon kernel, and those that carry scalars; they are replaced by records.
        turns: numbers of the turns that records in counted loops get.
        tables: what users' passes have placed already; it grows.
        holds_scalars: records are kept, and can carry them.
    """
    placer = _Placer(module, locations, regions, scopes, markers, turns, tables or TableBuilder(), holds_scalars)
    for function in module.functions():
        placer.function(function)
    return Placed(placer.tables.table(), (*placer.findings, *placer.missing()))


@dataclass(frozen=True)
class _Around:
    """What lies around a block: keys and region that are open, whether a loop is, and the numbers of its turn."""

    opened: frozenset[Key] = frozenset()
    region: int | None = None
    in_loop: bool = False
    turn: Turn = ()


class _Placer:
    def __init__(
        self,
        module: ForeignModule,
        locations: Locations,
        regions: tuple[str, ...],
        scopes: tuple[Scope, ...],
        markers: tuple[Marker, ...],
        turns: IterationNumbers | None,
        tables: TableBuilder,
        holds_scalars: bool,
    ) -> None:
        self.turns = turns
        self.holds_scalars = holds_scalars
        self.locations = locations
        self.scopes = {s.id: s for s in scopes}
        self.has_marks = any(s.kind == "mark" for s in scopes)
        self.markers = {m.op: m for m in markers}
        self.tables = tables
        self.rules = frozenset(AUTO if regions == ("auto",) else regions)
        ops = list(module.walk())
        loops = [op for op in ops if op.opname in LOOPS]
        self.only_loops = regions == ("auto",) and bool(loops)
        self.paths: dict[str, Path] = {}
        self.repeats = self.count_repeats(loops)
        # scopes that hold an anchor; the others are placed by their arithmetic
        self.strong = frozenset(key for op in ops if is_anchor(op) for key in self.path(op))
        self.seen: set[int] = set()
        self.current = module.root
        self.by_name: dict[str, list[ForeignOp]] = {}
        self.findings: list[Finding] = []

    # --- what belongs to what

    def path(self, op: ForeignOp) -> Path:
        """Keys of the scopes an operation is tagged with, outermost first."""
        found = self.paths.get(op.location_text)
        if found is None:
            found = self.paths[op.location_text] = path_of_tags(self.locations.tags(op.location_text))
        return found

    def identity(self, op: ForeignOp) -> tuple[str, str]:
        file, line = self.locations.source(op.location_text)
        return op.opname, f"{file}:{line}"

    def count_repeats(self, loops: list[ForeignOp]) -> dict[tuple[Path, tuple[str, str]], int]:
        """How often each tagged anchor occurs in one iteration: in one block of a loop's body."""
        most: dict[tuple[Path, tuple[str, str]], int] = {}
        for loop in loops:
            for block in loop.regions[-1].blocks:
                counts: Counter[tuple[Path, tuple[str, str]]] = Counter()
                for op in _foreign(block):
                    path = self.path(op) if is_anchor(op) else ()
                    identity = self.identity(op) if path else ("", "")
                    counts.update((path[: i + 1], identity) for i in range(len(path)))
                for key, count in counts.items():
                    most[key] = max(most.get(key, 0), count)
        return most

    def member(self, op: ForeignOp, around: _Around) -> Member | None:
        """The operation as `runs` sees it, or None where it does not matter."""
        if self.markers and op in self.markers:
            return None if self.scalar_of(op) else Member(op, (), "sync", "barrier")
        if op.opname in STRUCTURAL:
            return Member(op, self.path(op) + self.rule_key(op, around), "sync", "structure")
        if is_anchor(op):
            return Member(op, self.path(op) + self.rule_key(op, around), role_of(op), "anchor", self.identity(op))
        if computes(op) and (path := self.path(op)):
            if path[-1] not in self.strong:
                return Member(op, path, "sync", "anchor", self.identity(op))
            if self.leaves(op, path[-1]):
                return Member(op, path, "sync", "result")
        return None

    def leaves(self, op: ForeignOp, key: Key) -> bool:
        """Whether a result is used outside the scope."""
        if op.results:
            users = [use.operation for result in op.results for use in result.uses]
        else:
            users = [user for name in op.result_names for user in self.users().get(name.partition(":")[0], ())]
        return any(isinstance(u, ForeignOp) and key not in self.path(u) for u in users)

    def users(self) -> dict[str, list[ForeignOp]]:
        """Of the values of this function, where it was read without values."""
        if not self.by_name:
            self.by_name = users_by_name(walk(self.current))
        return self.by_name

    def rule_key(self, op: ForeignOp, around: _Around) -> tuple[Key, ...]:
        rule = rule_of(op)
        if rule not in self.rules or (self.only_loops and not around.in_loop):
            return ()
        file, line = self.locations.source(op.location_text)
        return (Key("rule", rule, f"{file}:{line}"),)

    # --- the walk

    def function(self, function: ForeignOp) -> None:
        """Place in a kernel; functions it calls without inlining get no records."""
        file, line = self.locations.source(function.location_text)
        self.current, self.by_name = function, {}
        if _is_kernel(function):
            self.whole(function, "kernel", file, line, "tt.return")
        elif any(is_anchor(op) for op in walk(function)):
            self.findings.append(not_inlined(file, line))

    def whole(self, op: ForeignOp, name: str, file: str, line: int, terminator: str, region: int = 0) -> None:
        """Record the whole of a function or partition, if asked to, and what is in it."""
        blocks = list(op.regions[region].blocks)
        around = _Around()
        if "kernel" in self.rules:
            around = _Around(region=self.tables.region(None, name, "sync", "kernel", file, line))
        for block in blocks:
            self.block(block, around)
        first = blocks[0].first_op  # may be a record by now, which the whole then begins before
        if around.region is None or first is None:
            return
        self.tables.operations(around.region, (op.opname,))
        self.insert(first, around.region, "start", name)
        for block in blocks:
            last = block.last_op
            if isinstance(last, ForeignOp) and last.opname == terminator:
                self.insert(last, around.region, "end", name)

    def block(self, block: Block, around: _Around) -> None:
        """Place in one block and in the loops and branches inside it."""
        ops = list(_foreign(block))
        found = {op: m for op in ops if (m := self.member(op, around))}
        spans = spans_of(list(found.values()), lambda p, i: self.repeats.get((p, i), 0), around.opened)
        if any(op in self.markers and not self.scalar_of(op) for op in ops):
            self.marked_block(block, ops, spans, around)
            return
        inside = self.emit(spans, around)
        for op in ops:
            if op.opname in STRUCTURAL:
                self.structure(op, inside.get(op, around))
        self.marks(ops, found, around)
        for op in ops:
            if op in self.markers:
                self.carry(self.markers[op], around)
                Rewriter.erase_op(op)

    def structure(self, op: ForeignOp, around: _Around) -> None:
        if op.opname == "ttg.warp_specialize":
            self.warp_specialize(op, around)
            return
        inner = replace(around, in_loop=around.in_loop or op.opname in LOOPS, turn=self.turn(op, around))
        for region in op.regions:
            for block in region.blocks:
                self.block(block, inner)

    def turn(self, op: ForeignOp, around: _Around) -> Turn:
        """Numbers of the turn inside a structure: of the innermost counted loop, or of the outermost loop."""
        if self.turns is None or op.opname not in LOOPS or (self.turns.of_outermost and around.in_loop):
            return around.turn
        numbers = self.turns.of(op)
        if not numbers and any(is_anchor(inner) for inner in walk(op)):
            self.findings.append(not_counted(*self.locations.source(op.location_text), bool(around.turn)))
        return numbers or around.turn

    def warp_specialize(self, op: ForeignOp, around: _Around) -> None:
        """The default partition goes on as its kernel; every other is a whole of its own."""
        for block in op.regions[0].blocks:
            self.block(block, around)
        partitions = op.regions[1].block.first_op
        if not isinstance(partitions, ForeignOp):
            return
        file, line = self.locations.source(op.location_text)
        for i in range(len(partitions.regions)):
            self.whole(partitions, f"partition {i}", file, line, "ttg.warp_return", i)

    def marked_block(self, block: Block, ops: list[ForeignOp], spans: list[Span], around: _Around) -> None:
        """A Gluon block: its markers become records; spans lie between them."""
        by_first: dict[ForeignOp, list[Span]] = {}
        for span in spans:
            by_first.setdefault(span.first, []).append(span)
        stack = [around]
        for op in ops:
            marker = self.markers.get(op)
            if marker is not None:
                self.explicit(marker, stack)
                Rewriter.erase_op(op)
                continue
            inside = self.emit(by_first.get(op, []), stack[-1])
            if op.opname in STRUCTURAL:
                self.structure(op, inside.get(op, stack[-1]))

    def explicit(self, marker: Marker, stack: list[_Around]) -> None:
        """Turn one marker into a record; scopes were checked to balance."""
        scope = self.scopes[marker.scope]
        self.seen.add(scope.id)
        if scope.scalar:
            self.carry(marker, stack[-1])
            return
        if marker.kind == "exit":
            region = stack.pop().region
            assert region is not None
            self.insert(marker.op, region, "end", scope.name, turn=stack[-1].turn)
            return
        origin: Origin = "mark" if marker.kind == "mark" else "scope"
        region = self.tables.region(stack[-1].region, scope.name, "sync", origin, scope.file, scope.line)
        kind: Kind = "mark" if origin == "mark" else "start"
        self.insert(marker.op, region, kind, scope.name, turn=stack[-1].turn)
        if origin == "scope":
            stack.append(replace(stack[-1], region=region))

    def carry(self, marker: Marker, around: _Around) -> None:
        """A record with what a marker carries stands in its place."""
        scope = self.scopes[marker.scope]
        self.seen.add(scope.id)
        if not self.holds_scalars:
            self.findings.append(not_carried(scope))
            return
        if marker.kind == "value":
            place = (scope.file, scope.line)
            region = self.tables.region(around.region, scope.name, "sync", "value", *place, scope.scalar)
        else:
            region = self.tables.event(scope.name, scope.file, scope.line, scope.scalar)
        kind: Kind = _KINDS[marker.kind]
        operands = [*written(marker.op), *around.turn]
        put_before(RecordScalarOp(kind, scope.name, self.tables.site(region, kind), operands), marker.op)

    def scalar_of(self, op: ForeignOp) -> Scalar | None:
        """Type of what a marker carries; None where it carries nothing."""
        return self.scopes[self.markers[op].scope].scalar

    # --- writing

    def emit(self, spans: list[Span], around: _Around) -> dict[ForeignOp, _Around]:
        """Insert the records of spans; return what lies around the structures among them."""
        latest: dict[Path, int] = {}
        inside: dict[ForeignOp, _Around] = {}
        for span in spans:
            region = self.region(span, latest.get(span.path[:-1], around.region))
            latest[span.path] = region
            self.tables.operations(region, span.operations)
            name = self.tables.name(region)
            self.insert(span.first, region, "start", name, span.piece, around.turn)
            self.insert_after(span.last, region, "end", name, span.piece, around.turn)
            op: Operation | None = span.first
            while op is not None:
                if isinstance(op, ForeignOp) and op.opname in STRUCTURAL:
                    outer = inside.get(op, around)
                    inside[op] = replace(outer, opened=outer.opened | set(span.path), region=region)
                op = None if op is span.last else op.next_op
        return inside

    def region(self, span: Span, parent: int | None) -> int:
        key = span.path[-1]
        if key.kind == "scope":
            scope = self.scopes[int(key.name)]
            self.seen.add(scope.id)
            origin: Origin = "pass" if scope.kind == "pass" else "scope"
            return self.tables.region(parent, scope.name, span.role, origin, scope.file, scope.line)
        file, _, line = key.copy.rpartition(":")
        return self.tables.region(parent, key.name, span.role, "rule", file, int(line or 0))

    def marks(self, ops: list[ForeignOp], found: dict[ForeignOp, Member], around: _Around) -> None:
        """A mark stands before the first anchor that carries it, else the first operation."""
        if not self.has_marks:
            return
        first: dict[str, ForeignOp] = {}
        for op in ops:
            for tag in self.locations.tags(op.location_text):
                if tag.startswith("kperf.mark:") and (tag not in first or (op in found and first[tag] not in found)):
                    first[tag] = op
        for tag, op in first.items():
            scope = self.scopes[int(tag.removeprefix("kperf.mark:").partition(".")[0])]
            self.seen.add(scope.id)
            region = self.tables.region(around.region, scope.name, "sync", "mark", scope.file, scope.line)
            self.tables.operations(region, (op.opname,))
            self.insert(op, region, "mark", scope.name, turn=around.turn)

    def insert(self, before: Operation, region: int, kind: Kind, name: str, piece: int = 0, turn: Turn = ()) -> None:
        put_before(self.record(region, kind, name, piece, turn), before)

    def insert_after(
        self, after: Operation, region: int, kind: Kind, name: str, piece: int = 0, turn: Turn = ()
    ) -> None:
        put_after(self.record(region, kind, name, piece, turn), after)

    def record(self, region: int, kind: Kind, name: str, piece: int, turn: Turn) -> RecordOp:
        return RecordOp(kind, name, self.tables.site(region, kind, piece, bool(turn)), turn)

    def missing(self) -> list[Finding]:
        """Scopes without a record."""
        return [
            Finding(
                "no-anchor",
                f"scope '{s.name}', {s.file}:{s.line}",
                f"No operation of {s.kind} '{s.name}' that could be recorded is left in the compiled kernel.",
                "Put it around memory, dot, reduce or barrier operations whose results are used.",
            )
            for s in self.scopes.values()
            if s.id not in self.seen
        ]


def _foreign(block: Block) -> list[ForeignOp]:
    return [op for op in block.ops if isinstance(op, ForeignOp)]


def _is_kernel(function: ForeignOp) -> bool:
    return 'sym_visibility = "private"' not in function.properties_text
