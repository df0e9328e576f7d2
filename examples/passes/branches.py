"""Counts the executions of every branch: a mark where a branch begins, named by its line.

kperfir record --regions none --pass examples/passes/branches.py program.py
"""

from __future__ import annotations

import kperfir as kp


@kp.register_pass
class Branches(kp.Pass):
    """Of an `if` and of an early return. An `else` that does nothing is `if` less `then`."""

    name = "branches"

    def run(self, module, context):
        for op in list(module.walk()):
            line = context.source(op)[1]
            if op.opname == "scf.if":
                context.mark(op, f"if, line {line}")
                first = [region.block.first_op for region in op.regions if region.blocks]
            elif op.opname == "cf.cond_br":
                context.mark(op, f"if, line {line}")
                first = [block.first_op for block in op.successors]
            else:
                continue
            for way, begin in zip(("then", "else"), first):
                context.mark(begin, f"{way}, line {line}")
