"""Markers of a Gluon kernel: Triton does not reschedule it, so they stay where they were written.

They are read after inlining, in the module that `kperfir.passes.place` works on.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block

from kperfir.ir.foreign import ForeignModule, ForeignOp
from kperfir.ir.locations import Locations
from kperfir.markers import MarkerKind
from kperfir.passes.scopes import Scope, marker_of, not_left, unbalanced


@dataclass(frozen=True, eq=False)
class Marker:
    """One marker in the module and the scope it belongs to."""

    op: ForeignOp
    kind: MarkerKind
    scope: int


def find_markers(module: ForeignModule, locations: Locations) -> tuple[tuple[Scope, ...], tuple[Marker, ...]]:
    """All scopes and markers, checked to balance block by block.

    Raises:
        ScopeError: scopes do not balance in a block, or cross; the source line is named.
    """
    scopes: dict[tuple[str, str, int], Scope] = {}
    markers: list[Marker] = []
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                _block(block, locations, scopes, markers)
    return tuple(scopes.values()), tuple(markers)


def _block(
    block: Block, locations: Locations, scopes: dict[tuple[str, str, int], Scope], markers: list[Marker]
) -> None:
    stack: list[Scope] = []
    for op in block.ops:
        marker = marker_of(op) if isinstance(op, ForeignOp) else None
        if marker is None or not isinstance(op, ForeignOp):
            continue
        kind, name = marker
        file, line = locations.source(op.location_text)
        if kind == "exit":
            if not stack or stack[-1].name != name:
                raise unbalanced(name, file, line, stack[-1] if stack else None)
            scope = stack.pop()
        else:
            new = Scope(len(scopes), name, file, line, "mark" if kind == "mark" else "scope")
            scope = scopes.setdefault((name, file, line), new)
            stack += [scope] if kind == "enter" else []
        markers.append(Marker(op, kind, scope.id))
    if stack:
        raise not_left(stack[-1])
