"""Markers of a Gluon kernel: Triton does not reschedule it, so they stay where they were written.

Those that carry scalars stand in TTGIR of every kernel.

They are read after inlining, in the module that `kperfir.passes.place` works on.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block

from kperfir.ir.foreign import ForeignModule, ForeignOp
from kperfir.ir.locations import Locations
from kperfir.markers import MarkerKind
from kperfir.passes.scopes import Scope, marker_of, not_left, unbalanced
from kperfir.records import Scalar

_Said = tuple[str, str, str, int, Scalar | None]


@dataclass(frozen=True, eq=False)
class Marker:
    """One marker in the module and the scope it belongs to."""

    op: ForeignOp
    kind: MarkerKind
    scope: int


def find_markers(
    module: ForeignModule, locations: Locations, first: int = 0
) -> tuple[tuple[Scope, ...], tuple[Marker, ...]]:
    """All scopes and markers, checked to balance block by block.

    Args:
        first: number of the first scope, where others have numbers already.

    Raises:
        ScopeError: scopes do not balance in a block, or cross; the source line is named.
    """
    scopes: dict[_Said, Scope] = {}
    markers: list[Marker] = []
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                _block(block, locations, scopes, markers, first)
    return tuple(scopes.values()), tuple(markers)


def _block(block: Block, locations: Locations, scopes: dict[_Said, Scope], markers: list[Marker], first: int) -> None:
    stack: list[Scope] = []
    for op in block.ops:
        marker = marker_of(op) if isinstance(op, ForeignOp) else None
        if marker is None or not isinstance(op, ForeignOp):
            continue
        kind, name, scalar = marker
        file, line = locations.source(op.location_text)
        if kind == "exit":
            if not stack or stack[-1].name != name:
                raise unbalanced(name, file, line, stack[-1] if stack else None)
            scope = stack.pop()
        else:
            new = Scope(first + len(scopes), name, file, line, "scope" if kind == "enter" else kind, scalar)
            scope = scopes.setdefault((kind, name, file, line, scalar), new)
            stack += [scope] if kind == "enter" else []
        markers.append(Marker(op, kind, scope.id))
    if stack:
        raise not_left(stack[-1])
