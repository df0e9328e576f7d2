"""Times only the waits on one named barrier: those on the mbarriers of one allocation.

kperfir record --regions none --pass examples/passes/named_barrier.py:NamedBarrier=ready program.py
"""

from __future__ import annotations

import kperfir as kp


@kp.register_pass
class NamedBarrier(kp.Pass):
    """`name` is the variable that the barriers were allocated into, in any partition that waits."""

    name = "named-barrier"

    def __init__(self, barrier: str) -> None:
        self.barrier = barrier

    def run(self, module, context):
        waits = [op for op in module.walk() if op.opname == "ttng.wait_barrier"]
        named = [op for op in waits if context.variable(op.operands[0]) == self.barrier]
        for op in named:
            context.around(op, self.barrier, role="wait")
        if not named:
            others = sorted({context.variable(op.operands[0]) or "without a name" for op in waits})
            context.note(f"No wait on '{self.barrier}' was found; there are waits on: {', '.join(others) or 'none'}.")
