"""Before Triton's passes: markers of scopes -> location tags on what is inside them.

An inserted operation would stop some of Triton's schedulers and mislead the
others. A location changes no instruction, is copied with its operation, and is
still there after scheduling. Tags, outermost first:

    kperf.scope:<scope>.<copy>   inside a scope; unrolled copies differ in <copy>
    kperf.call:<call>            inside a call whose callee has scopes
    kperf.mark:<mark>.<copy>     follows a mark, up to the next operation that can be recorded

A word that carries a scalar has to keep it: `kperfir.passes.scalars` says how.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Literal

from xdsl.ir import Block
from xdsl.rewriter import Rewriter

from kperfir.errors import ScopeError
from kperfir.ir.foreign import ForeignModule, ForeignOp, walk
from kperfir.ir.locations import Locations
from kperfir.markers import PREFIX, Word, read_marker
from kperfir.passes.anchors import STRUCTURAL, is_anchor
from kperfir.passes.finding import Finding
from kperfir.passes.scalars import give_address, to_store
from kperfir.records import Scalar

_CALLEE = re.compile(r'callee = @(?:"([^"]*)"|([\w$.-]+))')
INNER_BODIES = ("tt.reduce", "tt.scan", "tt.map_elementwise")


@dataclass(frozen=True)
class Scope:
    """A scope or mark as it stands in the source, or as a user's pass asks for it."""

    id: int
    name: str
    file: str
    line: int
    kind: Literal["scope", "mark", "pass", "value", "begin", "end"] = "scope"
    scalar: Scalar | None = None


def scopes_text(scopes: tuple[Scope, ...]) -> str:
    """As a module's attribute holds them, for a pass that reads its tags later."""
    return json.dumps([asdict(scope) for scope in scopes])


def read_scopes(text: str | None) -> tuple[Scope, ...]:
    """The inverse of `scopes_text`; none where there is no such attribute."""
    return tuple(Scope(**scope) for scope in json.loads(text)) if text else ()


@dataclass(frozen=True)
class Tagged:
    """The scopes of a module, and what the user must read."""

    scopes: tuple[Scope, ...]
    findings: tuple[Finding, ...] = ()


def marker_of(op: ForeignOp) -> Word | None:
    """What a marker says; None where the operation is none."""
    return read_marker(op.properties_text) if op.opname == "tt.elementwise_inline_asm" else None


def has_markers(text: str) -> bool:
    """Whether a module's text holds a marker."""
    return PREFIX in text


def tag_scopes(module: ForeignModule, first: int = 0) -> Tagged:
    """Tag operations, erase markers; the module is changed in place.

    Args:
        first: number of the first scope, where others have numbers already.

    Raises:
        ScopeError: scopes do not balance in a block, or cross; the source line is named.
    """
    tagger = _Tagger(module, first)
    for function in module.functions():
        tagger.function(function)
    module.epilogue[:] = [line for line in module.epilogue if line.strip()] + tagger.locations.lines() + [""]
    return Tagged(tuple(tagger.scopes.values()), tuple(tagger.findings))


class _Tagger:
    def __init__(self, module: ForeignModule, first: int) -> None:
        self.first = first
        self.locations = Locations.of(module)
        self.scopes: dict[tuple[str, str, int], Scope] = {}
        self.copies: Counter[int] = Counter()
        self.findings: list[Finding] = []
        self.calls = 0
        self.carries = False
        self.marked = _functions_with_markers(module)

    def function(self, function: ForeignOp) -> None:
        if "noinline = true" in function.properties_text + function.attributes_text:
            self.not_inlined(function)
            return
        self.carries = False
        self.region(function, [])
        if self.carries:
            give_address(function)

    def not_inlined(self, function: ForeignOp) -> None:
        """A function that stays a call cannot be tagged into its caller."""
        markers = [op for op in walk(function) if marker_of(op)]
        for op in markers:
            file, line = self.locations.source(op.location_text)
            kind, name, _ = marker_of(op) or ("", "", None)
            if kind != "exit":
                what = f"'{name}' stands in a function with noinline and is not recorded."
                self.findings.append(Finding("noinline", f"'{name}', {file}:{line}", what, "Take noinline off it."))
            Rewriter.erase_op(op, safe_erase=False)

    def region(self, op: ForeignOp, stack: list[str]) -> None:
        for region in op.regions:
            for block in region.blocks:
                self.block(block, stack)

    def block(self, block: Block, around: list[str]) -> None:
        """Tag one block. `around` are the tags that are open at its start, outermost first."""
        stack: list[tuple[Scope, str]] = []
        pending: list[str] = []
        tags = around
        for op in [op for op in block.ops if isinstance(op, ForeignOp)]:
            marker = marker_of(op)
            if marker is not None and marker.scalar:
                to_store(op, marker, self.locations)
                self.carries = True
                continue
            if marker is not None:
                self.marker(op, marker.kind, marker.name, stack, pending)
                Rewriter.erase_op(op, safe_erase=False)
                tags = around + [tag for _, tag in stack]
                continue
            if op.regions and op.opname not in INNER_BODIES:
                self.region(op, tags)
            for tag in reversed(tags + self.call_tag(op) + pending):
                op.location_text = self.locations.tag(op.location_text, tag)
            if pending and (is_anchor(op) or op.opname in STRUCTURAL):
                pending = []
        if stack:
            raise not_left(stack[-1][0])

    def marker(self, op: ForeignOp, kind: str, name: str, stack: list[tuple[Scope, str]], pending: list[str]) -> None:
        file, line = self.locations.source(op.location_text)
        if kind == "exit":
            if not stack or stack[-1][0].name != name:
                raise unbalanced(name, file, line, stack[-1][0] if stack else None)
            stack.pop()
            return
        scope = self.scope(name, file, line, "mark" if kind == "mark" else "scope")
        copy = self.copies[scope.id]
        self.copies[scope.id] += 1
        if kind == "mark":
            pending.append(f"kperf.mark:{scope.id}.{copy}")
        else:
            stack.append((scope, f"kperf.scope:{scope.id}.{copy}"))

    def scope(self, name: str, file: str, line: int, kind: Literal["scope", "mark"]) -> Scope:
        return self.scopes.setdefault((name, file, line), Scope(self.first + len(self.scopes), name, file, line, kind))

    def call_tag(self, op: ForeignOp) -> list[str]:
        """Tell two calls of a helper with scopes apart."""
        if op.opname != "tt.call" or callee_of(op) not in self.marked:
            return []
        self.calls += 1
        return [f"kperf.call:{self.calls}"]


def callee_of(op: ForeignOp) -> str:
    """Name of the function that a call calls, without the quotes MLIR puts around unusual ones."""
    found = _CALLEE.search(op.properties_text)
    return found.group(1) or found.group(2) if found else ""


def _functions_with_markers(module: ForeignModule) -> set[str]:
    """Names of functions that hold markers, or call one that does."""
    callees: dict[str, set[str]] = {}
    marked: set[str] = set()
    for function in module.functions():
        name = symbol_of(function)
        ops = list(walk(function))
        callees[name] = {callee_of(op) for op in ops if op.opname == "tt.call"}
        if any(marker_of(op) for op in ops):
            marked.add(name)
    while more := {name for name, called in callees.items() if name not in marked and called & marked}:
        marked |= more
    return marked


def symbol_of(function: ForeignOp) -> str:
    """Name of a function."""
    return function.properties_text.partition('sym_name = "')[2].partition('"')[0]


def not_carried(scope: Scope) -> Finding:
    """The finding for a word with a scalar under a plan that has no records to carry it."""
    what = f"'{scope.name}' is not recorded: sums of regions and traces of addresses carry no scalars."
    return Finding("no-scalar", f"'{scope.name}', {scope.file}:{scope.line}", what, "Use strategy=circular or flush.")


def not_left(scope: Scope) -> ScopeError:
    """The error for a scope that its block does not leave."""
    return ScopeError(
        f"Scope '{scope.name}' is entered at {scope.file}:{scope.line} and not left in the same block.",
        "Leave it where it was entered: in the same loop body or branch.",
    )


def unbalanced(name: str, file: str, line: int, open_scope: Scope | None) -> ScopeError:
    """The error for an exit that does not fit; `open_scope` is the innermost one that is open."""
    if open_scope is None:
        return ScopeError(
            f"Scope '{name}' is left at {file}:{line} but was not entered in this block.",
            "Enter and leave it in the same loop body or branch.",
        )
    return ScopeError(
        f"Scope '{name}' is left at {file}:{line} while '{open_scope.name}', entered at "
        f"{open_scope.file}:{open_scope.line}, is still open.",
        "Leave the inner scope first.",
    )
