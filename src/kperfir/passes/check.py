"""What is checked around a user's pass without Triton: links between operations, and that tagging changed nothing."""

from __future__ import annotations

import re
from itertools import zip_longest

from xdsl.ir import Block, Operation, SSAValue

from kperfir.ir.foreign import ForeignModule, ForeignOp
from kperfir.ir.kperf import Record
from kperfir.ir.printer import print_module

_HEAD = re.compile(r'\s*(?:%[^=]*? = )?"[\w.$]+"\(')


def broken_link(module: ForeignModule) -> tuple[Operation, str] | None:
    """An operation that uses what is not in the module, or is none that Triton knows, and what is wrong with it."""
    ops = list(module.root.walk())
    inside = set(ops)
    for op in ops:
        for number, value in enumerate(op.operands):
            if not _is_inside(value, inside):
                return op, f"uses as operand {number} a value that nothing in the module defines"
        if not isinstance(op, (ForeignOp, Record)):
            return op, "is neither a foreign operation nor kperf.record"
    return None


def without_locations(module: ForeignModule) -> list[str]:
    """The module as text in which no operation has a location."""
    ops = list(module.walk())
    locations = [op.location_text for op in ops]
    for op in ops:
        op.location_text = ""
    try:
        root = ForeignModule([], module.root, [], module.blocks, module.names)
        return print_module(root, without_records=True).split("\n")
    finally:
        for op, location in zip(ops, locations):
            op.location_text = location


def first_change(before: list[str], module: ForeignModule) -> tuple[ForeignOp, str] | None:
    """The first operation whose text, location aside, is not what it was, and how it reads.

    Args:
        before: `without_locations` of the module as it was.
    """
    after = without_locations(module)
    at = next((i for i, (old, new) in enumerate(zip_longest(before, after)) if old != new), None)
    if at is None:
        return None
    line = after[min(at, len(after) - 1)]
    heads = sum(_HEAD.match(text) is not None for text in after[: at + 1])
    return list(module.walk())[max(heads - 1, 0)], f"'{line.strip()[:80]}'"


def _is_inside(value: SSAValue, ops: set[Operation]) -> bool:
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        return parent is not None and parent in ops
    return isinstance(owner, Operation) and owner in ops
