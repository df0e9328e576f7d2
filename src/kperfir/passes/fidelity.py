"""What became of the operations that scopes held: remembered before Triton's passes, compared after them.

    held_operations   TTIR with tags             -> the operations of each scope
    found_operations  scheduled TTGIR, records   -> tagged operations, and whether records enclose them
    kept_of           both                       -> one `Kept` a scope, and one a rule's region

Operations are matched by scope, source line and kind: the rule for those that move or multiply data, whose
names change (a `tt.load` becomes an asynchronous copy), the name for all others. An operation
that Triton writes in another way counts as vanished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from xdsl.ir import Operation

from kperfir.fidelity import Fate, Kept
from kperfir.ir.foreign import ForeignModule, ForeignOp, walk
from kperfir.ir.kperf import Record, RecordOp
from kperfir.ir.locations import Locations, is_library
from kperfir.passes.anchors import LOOPS, WORK, work_of
from kperfir.passes.carrier import carried_record
from kperfir.passes.scalars import is_carrier
from kperfir.passes.scopes import Scope, callee_of, symbol_of
from kperfir.passes.values import first_equals, unused_integers
from kperfir.records import Region, Table

_PARTITIONS = "ttg.warp_specialize.partitions"
# what becomes no instruction by itself
_LEFT_OUT = (
    *("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return"),
    *("tt.func", "arith.constant", "ub.poison"),
)


@dataclass(frozen=True)
class HeldOp:
    """An operation as it stood in scopes before Triton's passes.

    Attributes:
        scopes: their numbers, outermost first. kind: what it is matched by.
        loops: how many are around it.
        twin: scopes of an earlier operation that computes the same; None where there is none.
    """

    scopes: tuple[int, ...]
    kind: str
    name: str
    file: str
    line: int
    loops: int
    twin: tuple[int, ...] | None = None


@dataclass(frozen=True)
class FoundOp:
    """A tagged operation behind Triton's passes; `inside`: regions whose records enclose it."""

    scopes: tuple[int, ...]
    kind: str
    name: str
    file: str
    line: int
    loops: int
    inside: frozenset[int]


def held_operations(module: ForeignModule, locations: Locations) -> tuple[HeldOp, ...]:
    """The operations of all scopes; those of a called function count at each call.

    Constants and integer arithmetic that nothing uses are left out.

    Args:
        module: TTIR with tags; read without values.
    """
    return tuple(_Holding(module, locations).kernels())


class _Holding:
    def __init__(self, module: ForeignModule, locations: Locations) -> None:
        self.locations = locations
        self.functions = {symbol_of(f): f for f in module.functions()}
        self.values: dict[ForeignOp, _Values] = {}

    def kernels(self) -> Iterator[HeldOp]:
        for function in self.functions.values():
            if 'sym_visibility = "private"' not in function.properties_text:
                yield from self.inside(function, function, _Caller())

    def inside(self, op: ForeignOp, function: ForeignOp, caller: _Caller) -> Iterator[HeldOp]:
        if op.opname in LOOPS:
            caller = replace(caller, loops=caller.loops + 1)
        for child in _children(op):
            called = self.functions.get(callee_of(child)) if child.opname == "tt.call" else None
            if called is not None and "noinline = true" not in called.properties_text + called.attributes_text:
                at = caller.at(self.scopes(child), self.locations.source(child.location_text))
                yield from self.inside(called, called, at)
                continue
            scopes = caller.scopes + self.scopes(child)
            if scopes and child.opname not in _LEFT_OUT and not self.is_left_out(child, function):
                yield self.held(child, function, scopes, caller)
            if child.regions:
                yield from self.inside(child, function, caller)

    def held(self, op: ForeignOp, function: ForeignOp, scopes: tuple[int, ...], caller: _Caller) -> HeldOp:
        file, line = self.locations.source(op.location_text)
        if caller.file and (not file or is_library(file)):
            file, line = caller.file, caller.line
        twin = self.values_of(function).equals.get(op)
        same = None if twin is None else caller.scopes + self.scopes(twin)
        return HeldOp(scopes, _kind(op), op.opname, file, line, caller.loops, same)

    def is_left_out(self, op: ForeignOp, function: ForeignOp) -> bool:
        """Whether an operation is of no account, or not of the user's."""
        return op in self.values_of(function).unused or is_carrier(op)

    def values_of(self, function: ForeignOp) -> _Values:
        """Read for those functions only that have operations in scopes."""
        found = self.values.get(function)
        if found is None:
            ops = list(walk(function))
            found = self.values[function] = _Values(first_equals(ops), unused_integers(ops))
        return found

    def scopes(self, op: ForeignOp) -> tuple[int, ...]:
        return _scopes(self.locations.tags(op.location_text))


@dataclass(frozen=True)
class _Values:
    """What `kperfir.passes.values` finds in one function."""

    equals: dict[ForeignOp, ForeignOp]
    unused: frozenset[ForeignOp]


@dataclass(frozen=True)
class _Caller:
    """What a function inherits from the call that it is inlined at."""

    scopes: tuple[int, ...] = ()
    file: str = ""
    line: int = 0
    loops: int = 0

    def at(self, scopes: tuple[int, ...], source: tuple[str, int]) -> _Caller:
        """At one of its calls; a call inside Triton's library is shown at the caller's."""
        file, line = source
        if self.file and (not file or is_library(file)):
            file, line = self.file, self.line
        return _Caller(self.scopes + scopes, file, line, self.loops)


def found_operations(module: ForeignModule, locations: Locations, table: Table) -> tuple[FoundOp, ...]:
    """Operations that carry tags or that records enclose.

    Args:
        module: TTGIR with records, which may be carriers by now.
        table: of its records.
    """
    return tuple(_found(module.root, locations, table, 0, frozenset()))


def _found(op: ForeignOp, locations: Locations, table: Table, loops: int, around: frozenset[int]) -> Iterator[FoundOp]:
    loops += op.opname in LOOPS
    # partitions run in other warps than what stands around them
    around = frozenset() if op.opname == _PARTITIONS else around
    for region in op.regions:
        for block in region.blocks:
            inside = around
            for child in block.ops:
                if record := _record(child):
                    inside = _after(inside, *record, table)
                elif isinstance(child, ForeignOp):
                    scopes = _scopes(locations.tags(child.location_text))
                    if (scopes or inside) and child.opname not in _LEFT_OUT:
                        file, line = locations.source(child.location_text)
                        yield FoundOp(scopes, _kind(child), child.opname, file, line, loops, inside)
                    if child.regions:
                        yield from _found(child, locations, table, loops, inside)


def _record(op: Operation) -> tuple[int, str] | None:
    """Site and kind of a record."""
    if isinstance(op, Record):
        return op.site.value.data, op.kind.data if isinstance(op, RecordOp) else "scalar"
    return carried_record(op) if isinstance(op, ForeignOp) else None


def _after(inside: frozenset[int], site: int, kind: str, table: Table) -> frozenset[int]:
    region = table.sites[site].region
    match kind:
        case "start":
            return inside | {region}
        case "end":
            return inside - {region}
        case _:
            return inside


def kept_of(
    held: Iterable[HeldOp], found: Iterable[FoundOp], scopes: Iterable[Scope], table: Table
) -> tuple[Kept, ...]:
    """What became of every scope, in the order of their numbers, then of rules that pick data's movement and products.

    Args:
        held: empty where TTIR was not seen (Gluon).
        scopes: what the tags name.
    """
    held, found = tuple(held), tuple(found)
    spans = [s for s in scopes if s.kind in ("scope", "pass")]
    names = {s.id: s.name for s in spans}
    kept = [_scope(scope, held, found, table, names) for scope in spans]
    rules = dict.fromkeys((_base(r), r.file, r.line) for r in table.regions if r.origin == "rule" and _base(r) in WORK)
    return (*kept, *(_rule(*rule, table) for rule in rules))


def _scope(
    scope: Scope, held: tuple[HeldOp, ...], found: tuple[FoundOp, ...], table: Table, names: dict[int, str]
) -> Kept:
    origin = "pass" if scope.kind == "pass" else "scope"
    regions = _regions(table, origin, scope.name, scope.file, scope.line)
    own = [op for op in held if scope.id in op.scopes]
    after = [op for op in found if scope.id in op.scopes]
    keys = dict.fromkeys((op.kind, op.file, op.line) for op in own)
    fates = tuple(_fate(key, scope.id, own, after, frozenset(regions), names) for key in keys)
    seen: list[HeldOp] | list[FoundOp] = own or [op for op in found if op.inside.intersection(regions)]
    return Kept(scope.name, origin, scope.file, scope.line, regions, _lines(seen), fates)


def _fate(
    key: tuple[str, str, int],
    scope: int,
    held: list[HeldOp],
    found: list[FoundOp],
    regions: frozenset[int],
    names: dict[int, str],
) -> Fate:
    own = [op for op in held if (op.kind, op.file, op.line) == key]
    after = [op for op in found if (op.kind, op.file, op.line) == key]
    loops = min(op.loops for op in own)
    enclosed = [op for op in after if op.inside & regions]
    rest = [op for op in after if not op.inside & regions]
    hoisted = rest if all(op.loops < loops for op in after) else []
    twins = [op.twin for op in own if op.twin is not None and scope not in op.twin]
    merged = min(max(0, len(own) - len(after)), len(twins))
    others = dict.fromkeys(names[t[-1]] for t in twins if t and t[-1] in names) if merged else {}
    return Fate(
        name=own[0].name,
        file=key[1],
        line=key[2],
        held=len(own),
        inside=len(enclosed),
        outside=len(rest) - len(hoisted),
        hoisted=len(hoisted),
        merged=merged,
        merged_with=tuple(others),
        works=key[0] in WORK,
    )


def _rule(name: str, file: str, line: int, table: Table) -> Kept:
    return Kept(name, "rule", file, line, _regions(table, "rule", name, file, line), ((file, line),))


def _regions(table: Table, origin: str, name: str, file: str, line: int) -> tuple[int, ...]:
    key = (origin, name, file, line)
    return tuple(r.id for r in table.regions if (r.origin, _base(r), r.file, r.line) == key)


def _base(region: Region) -> str:
    """Name without its role."""
    return region.name if region.role == "sync" else region.name.removesuffix(f".{region.role}")


def _lines(ops: Iterable[HeldOp] | Iterable[FoundOp]) -> tuple[tuple[str, int], ...]:
    return tuple(dict.fromkeys((op.file, op.line) for op in ops if op.file))


def _kind(op: ForeignOp) -> str:
    return work_of(op) or op.opname


@lru_cache(1024)
def _scopes(tags: tuple[str, ...]) -> tuple[int, ...]:
    if not tags:
        return ()
    numbers = (tag.partition(":")[2].partition(".")[0] for tag in tags if tag.startswith("kperf.scope:"))
    return tuple(dict.fromkeys(map(int, numbers)))


def _children(op: ForeignOp) -> list[ForeignOp]:
    return [c for region in op.regions for block in region.blocks for c in block.ops if isinstance(c, ForeignOp)]
