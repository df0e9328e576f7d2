"""Which share of a scope's instructions lies between its clocks in a cubin's code.

An instruction belongs to a scope when its line, Triton's library left aside, is one of the
scope's operations. Line info names no operation: what else stands on such a line counts as well. For a rule, whose
line holds more than what it picks, only instructions that move or multiply data are counted.

It lies between the clocks when on every way to it a region of the scope was entered and not left. A clock
read is told by its special register and by the line that `kperfir.passes.site_lines` gave its record.
"""

from __future__ import annotations

import re

from kperfir.fidelity import FIRST_SITE_LINE, SITE_FILE, Kept, Share
from kperfir.ir.locations import is_library
from kperfir.records import Table
from kperfir.targets.sass import Code, Instruction, Line, loop_depths, read_sass, successors

_CLOCK = re.compile(r"\bSR_(?:CLOCK|GLOBALTIMER)")
_WORK = {
    "load": re.compile(r"LDG\b|LDGSTS|LD\b|UTMALDG|UBLKCP"),
    "store": re.compile(r"STG|ST\b|UTMASTG|UTMAREDG|ATOMG?\b|REDG?\b"),
    "dot": re.compile(r"\w*MMA\b"),
}


def has_site_lines(text: str) -> bool:
    """Whether a disassembly tells clock reads from others."""
    return f'//## File "{SITE_FILE}", line' in text


def shares(text: str, kept: tuple[Kept, ...], table: Table) -> tuple[Share | None, ...]:
    """One for each scope; None where it has no records.

    Args:
        text: `nvdisasm -c -gi`.
        kept: scopes and rules. table: of the records in the code.
    """
    code = read_sass(text)
    following = successors(code)
    lines = [_line(op) for op in code.instructions]
    opened = open_regions(code, following, table)
    depths = loop_depths(code, following)
    return tuple(_share(one, kept, code, lines, opened, depths, table) if one.regions else None for one in kept)


def open_regions(code: Code, following: list[list[int]], table: Table) -> list[frozenset[int]]:
    """For each instruction the regions that are open before it, on every way to it; none where none leads to it."""
    ins: list[frozenset[int] | None] = [None] * len(following)
    entries = [at for name, at in code.labels.items() if name.startswith(".text.") and at < len(ins)]
    for at in entries:
        ins[at] = frozenset()
    waiting = sorted(entries, reverse=True)
    while waiting:
        at = waiting.pop()
        state = ins[at]
        while state is not None:
            out = _behind(code.instructions[at], state, table)
            changed = [to for to in following[at] if _meet(ins, to, out)]
            waiting += changed[1:]
            at, state = (changed[0], ins[changed[0]]) if changed else (at, None)
    return [state or frozenset() for state in ins]


def _meet(ins: list[frozenset[int] | None], at: int, state: frozenset[int]) -> bool:
    """Let a state flow to an instruction; whether that changed it."""
    old = ins[at]
    ins[at] = state if old is None else old & state
    return ins[at] != old


def _behind(op: Instruction, state: frozenset[int], table: Table) -> frozenset[int]:
    site = _site(op)
    if site is None or site >= len(table.sites):
        return state
    region = table.sites[site].region
    return {"start": state | {region}, "end": state - {region}}.get(table.sites[site].kind, state)


def _site(op: Instruction) -> int | None:
    """Site of a clock read."""
    if not op.frames or op.frames[0][0] != SITE_FILE or not _CLOCK.search(op.operands):
        return None
    site = op.frames[0][1] - FIRST_SITE_LINE
    return site if site >= 0 else None


def _line(op: Instruction) -> Line | None:
    """The line it belongs to; None for kperfir's own instructions."""
    if op.frames and op.frames[0][0] == SITE_FILE:
        return None
    return next((frame for frame in op.frames if not is_library(frame[0])), None)


def _share(
    one: Kept,
    kept: tuple[Kept, ...],
    code: Code,
    lines: list[Line | None],
    opened: list[frozenset[int]],
    depths: list[int],
    table: Table,
) -> Share:
    regions = frozenset(one.regions)
    own_lines = frozenset(one.lines)
    others = frozenset(line for other in kept if other.origin != "rule" for line in other.lines) - own_lines
    ops = code.instructions
    own = [at for at, line in enumerate(lines) if line in own_lines]
    if one.origin == "rule":
        own = [at for at in own if _WORK[one.name].match(ops[at].opcode)]
    work = [at for at in own if any(form.match(ops[at].opcode) for form in _WORK.values())]
    clocks = [at for at, op in enumerate(ops) if _region(op, table) in regions]
    deepest = max((depths[at] for at in clocks), default=0)
    missed = [at for at in work if not opened[at] & regions and (one.origin != "rule" or depths[at] >= deepest)]
    return Share(
        own=len(own),
        between=sum(bool(opened[at] & regions) for at in own),
        hoisted=sum(not opened[at] & regions and depths[at] < deepest for at in own),
        work=len(work),
        work_between=sum(bool(opened[at] & regions) for at in work),
        work_outside=tuple(dict.fromkeys(ops[at].opcode for at in missed)),
        foreign=sum(line in others and bool(opened[at] & regions) for at, line in enumerate(lines)),
    )


def _region(op: Instruction, table: Table) -> int | None:
    site = _site(op)
    return table.sites[site].region if site is not None and site < len(table.sites) else None
