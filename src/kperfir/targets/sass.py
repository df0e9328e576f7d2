"""SASS as `nvdisasm -c -gi` prints it: instructions with line info, and which may follow which.

Above an instruction whose line differs from the one before stand its frames, innermost first:

    //## File "standard.py", line 196 inlined at "kernel.py", line 12
    //## File "kernel.py", line 12

Flow is approximate where SASS does not say it: a return of a local function leads nowhere
(its call goes on behind itself), and `BSYNC` goes to where a `BSSY` of the same barrier points.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRAME = re.compile(r'\s*//## File "(.*?)", line (\d+)(?: inlined at "(.*?)", line (\d+))?')
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"([.$\w]+):\s*$")
_TARGET = re.compile(r"`\(([.$\w]+)\)|BRANCH_TARGETS ([.$\w, ]+)")
_JUMPS = ("BRA", "BRX", "BRXU", "JMP", "JMX", "CALL")
_ENDS = ("EXIT", "RET", "BRX", "BRXU", "JMX", "JMP")

Line = tuple[str, int]


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        guard: the predicate it is under, or empty. opcode: with its suffixes, "LDG.E.128".
        frames: (file, line) it belongs to, innermost first, each inlined at the next.
    """

    opcode: str
    operands: str
    guard: str
    frames: tuple[Line, ...]

    @property
    def name(self) -> str:
        """Opcode without suffixes."""
        return self.opcode.partition(".")[0]


@dataclass(frozen=True)
class Code:
    """Instructions in the order of their addresses; `labels`: index of the instruction behind each."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def read_sass(text: str) -> Code:
    """The instructions of a disassembly, without the padding behind them."""
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    frames: list[Line] = []
    fresh = True
    for line in text.splitlines():
        if frame := _FRAME.match(line):
            file, number, outer_file, outer_number = frame.groups()
            if fresh:
                frames, fresh = [(file, int(number))], False
            if outer_file:
                frames.append((outer_file, int(outer_number)))
        elif instruction := _INSTRUCTION.match(line):
            guard, opcode, operands = instruction.groups()
            fresh = True
            if opcode != "NOP":
                found.append(Instruction(opcode, operands, guard or "", tuple(frames)))
        elif label := _LABEL.match(line):
            labels[label.group(1)] = len(found)
            if label.group(1).startswith(".text."):
                frames = []
    return Code(tuple(found), labels)


def successors(code: Code) -> list[list[int]]:
    """For each instruction, those that may run next."""
    joins: dict[str, list[int]] = {}
    for op in code.instructions:
        if op.name == "BSSY":
            joins.setdefault(op.operands.partition(",")[0], []).extend(_targets(code, op))
    return [_next(code, joins, at) for at in range(len(code.instructions))]


def _next(code: Code, joins: dict[str, list[int]], at: int) -> list[int]:
    op, following = code.instructions[at], at + 1
    found: list[int] = []
    falls = op.name not in _ENDS or bool(op.guard)
    if op.name in _JUMPS:
        found = _targets(code, op)
        # with a predicate among the operands (`BRA.U UP0, ...`) it may go on as well
        if op.name == "BRA" and not op.guard and op.operands.startswith("`"):
            falls = False
    elif op.name == "BSYNC":
        joined = joins.get(op.operands, [])
        if joined and following not in joined:
            found, falls = joined, bool(op.guard)
    if falls:
        found = [*found, following]
    return [to for to in dict.fromkeys(found) if to < len(code.instructions)]


def _targets(code: Code, op: Instruction) -> list[int]:
    names = [name for one, many in _TARGET.findall(op.operands) for name in (one, *many.replace(",", " ").split())]
    return [code.labels[name] for name in names if name in code.labels]


def loop_depths(code: Code, following: list[list[int]]) -> list[int]:
    """In how many loops each instruction lies: the stretches of addresses that jumps back span, one a target."""
    ends: dict[int, int] = {}
    for at, nexts in enumerate(following):
        for to in nexts:
            if to <= at and code.instructions[at].name != "CALL":
                ends[to] = max(at, ends.get(to, at))
    change = [0] * (len(following) + 1)
    for start, end in ends.items():
        change[start] += 1
        change[end + 1] -= 1
    depths, depth = [], 0
    for step in change[:-1]:
        depth += step
        depths.append(depth)
    return depths
