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
    work = _work_of_lines(code, lines)
    return tuple(
        _share(one, kept, code, lines, opened, depths, table, _beside(one, kept, work)) if one.regions else None
        for one in kept
    )


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
    beside: dict[str, frozenset[int]],
) -> Share:
    regions = frozenset(one.regions)
    own_lines = frozenset(one.lines)
    others = frozenset(line for other in kept if other.origin != "rule" for line in other.lines) - own_lines
    ops = code.instructions
    own = [at for at, line in enumerate(lines) if line in own_lines]
    if one.origin == "rule":
        own = [at for at in own if _WORK[one.name].match(ops[at].opcode)]
    work = [at for at in own if _kind(ops[at])]
    clocks = [at for at, op in enumerate(ops) if _region(op, table) in regions]
    deepest = max((depths[at] for at in clocks), default=0)
    missed = [at for at in work if not opened[at] & (regions | beside[_kind(ops[at])])]
    missed = [at for at in missed if one.origin != "rule" or depths[at] >= deepest]
    return Share(
        own=len(own),
        between=sum(bool(opened[at] & regions) for at in own),
        hoisted=sum(not opened[at] & regions and depths[at] < deepest for at in own),
        work=len(work),
        work_between=sum(bool(opened[at] & regions) for at in work),
        work_outside=tuple(dict.fromkeys(ops[at].opcode for at in missed)),
        foreign=sum(line in others and bool(opened[at] & regions) for at, line in enumerate(lines)),
    )


def _work_of_lines(code: Code, lines: list[Line | None]) -> dict[Line, set[str]]:
    """Kinds of work that the instructions of each line do."""
    found: dict[Line, set[str]] = {}
    for op, line in zip(code.instructions, lines):
        if line is not None and (kind := _kind(op)):
            found.setdefault(line, set()).add(kind)
    return found


def _beside(one: Kept, kept: tuple[Kept, ...], work: dict[Line, set[str]]) -> dict[str, frozenset[int]]:
    """For each kind of work the regions of other scopes, but those around this one, that do it too.

    ptxas shares what neighbours have in common, such as the address of a descriptor, and then names one's line
    for an instruction of the other. So what lies between the clocks of such a neighbour is not held against a scope.
    """
    both_rules = [other for other in kept if other is not one and other.origin == one.origin == "rule"]
    others = [*both_rules, *(other for other in kept if not set(one.lines) <= set(other.lines))]
    found: dict[str, frozenset[int]] = {}
    for kind in _WORK:
        doing = [o for o in others if (o.name == kind if o.origin == "rule" else _does(o, kind, work))]
        found[kind] = frozenset(region for other in doing for region in other.regions)
    return found


def _does(one: Kept, kind: str, work: dict[Line, set[str]]) -> bool:
    return any(kind in work.get(line, ()) for line in one.lines)


def _kind(op: Instruction) -> str:
    """Kind of work of an instruction, or an empty string."""
    return next((kind for kind, form in _WORK.items() if form.match(op.opcode)), "")


def _region(op: Instruction, table: Table) -> int | None:
    site = _site(op)
    return table.sites[site].region if site is not None and site < len(table.sites) else None
