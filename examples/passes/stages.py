"""Times every iteration of a pipelined loop by stage.

kperfir record --regions none --pass examples/passes/stages.py program.py

The pipeliner peels an operation as often in front of the loop as it runs ahead of the last
stage. In one turn of the loop, stage 0 of 3 works for the iteration after the next.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby, takewhile

import kperfir as kp


@kp.register_pass
class Stages(kp.Pass):
    """`iteration` is one turn of the loop, with a region of each run of operations of one stage in it."""

    name = "stages"

    def run(self, module, context):
        for loop in [op for op in module.walk() if op.opname == "scf.for"]:
            body = loop.regions[0].block
            work = [op for op in body.ops if context.rule(op)]
            peeled = Counter(map(identity, takewhile(lambda op, loop=loop: op is not loop, loop.parent.ops)))
            in_body = Counter(map(identity, work))
            ahead = {op: peeled[identity(op)] // in_body[identity(op)] for op in work}
            if not any(ahead.values()):
                continue  # it is not pipelined
            context.region(body.first_op, body.last_op.prev_op, "iteration")
            for stage, ops in groupby(work, lambda op, ahead=ahead: max(ahead.values()) - ahead[op]):
                run = list(ops)
                context.region(run[0], run[-1], f"stage {stage}")


def identity(op):
    return getattr(op, "opname", op.name), getattr(op, "location_text", "")
