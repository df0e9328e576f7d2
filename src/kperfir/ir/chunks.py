"""A lowered kernel in the LLVM dialect, read sparsely: only where records go.

At this level a module is ten times as long as before, and nothing but its entry,
its returns and the record carriers matters. Everything between stays text, in
chunks of whole lines. The text is MLIR's generic form, one operation a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from xdsl.ir import Block, Operation

from kperfir.errors import IRError
from kperfir.ir.kperf import RecordOp, RecordScalarOp, StartInstrumentationOp, StopInstrumentationOp

PREFIX = "// KPERF<"

_FUNCTION = '  "llvm.func"('
_KERNEL = re.compile(r"(?:nvvm|rocdl)\.kernel\b")
_INTERNAL = "#llvm.linkage<internal>"
_CARRIER = re.compile(
    r'^(\s*)(%[\w$.#-]+) = "llvm\.inline_asm"\((.*?)\).*?asm_string = "// KPERF<(\d+) (\w+)(\+?) (\S+)>'
    r".*?(?: (loc\(.*\)))?$"
)
_BOUND = re.compile(
    r'^\s*(%[\w$.#-]+) = "llvm\.inline_asm"\(\).*?asm_string = "// KPERF<(start|stop) \w+ ([\w+-]+)>'
    r".*?(?: (loc\(.*\)))?$"
)
_ENTRY_ARGUMENT = re.compile(r"(%[\w$.#-]+): !llvm\.ptr<1>")
_LOCATION = re.compile(r" (loc\(.*\))$")
_INTEGER = r"\"?{name}\"? = (\d+) : i32"
_TERMINATORS = ('"llvm.br"', '"llvm.cond_br"', '"llvm.switch"', '"llvm.unreachable"', '"llvm.return"')
_CURE = "The kernel runs without records. Please report the kernel."


class ChunkOp(Operation):
    """Lines that stay as they are."""

    name = "mlir.chunk"
    lines: list[str]

    @staticmethod
    def make(lines: list[str]) -> ChunkOp:
        """A chunk of whole lines."""
        op = ChunkOp()
        op.lines = lines
        return op


class ReturnOp(Operation):
    """A return of the kernel."""

    name = "mlir.return"
    line: str

    @staticmethod
    def make(line: str) -> ReturnOp:
        """The return written in `line`."""
        op = ReturnOp()
        op.line = line
        return op


@dataclass
class ChunkedKernel:
    """One kernel of a module.

    Attributes:
        before, after: lines of the module around the body; `before` ends with the
            header of the entry block.
        body: chunks, records and returns, in the order of the text.
        carriers: name of the value that the carrier of a record, or of a bound of an
            instrumentation, defined, its location, and the names of its operands.
        scratch: name of the kernel's last global pointer argument, which is
            Triton's profile scratch.
        attributes: text of the module's attributes.
        frame_location: location of what is added at entry and returns, where it has one of its own.
    """

    before: list[str]
    body: Block
    after: list[str]
    carriers: dict[Operation, tuple[str, str, str]]
    scratch: str
    attributes: str
    frame_location: str = ""

    def integer(self, name: str) -> int | None:
        """An integer attribute of the module."""
        found = re.search(_INTEGER.format(name=re.escape(name)), self.attributes)
        return int(found.group(1)) if found else None

    def split(self, pattern: str) -> list[ChunkOp]:
        """Make each line in which the regular expression occurs a chunk of its own; return these chunks, in order."""
        found: list[ChunkOp] = []
        for chunk in [op for op in self.body.ops if isinstance(op, ChunkOp)]:
            found += _split(chunk, re.compile(pattern))
        return found

    def text(self) -> str:
        """The whole module without records: none of them has a value that is used."""
        lines = list(self.before)
        for op in self.body.ops:
            lines += op.lines if isinstance(op, ChunkOp) else [op.line] if isinstance(op, ReturnOp) else []
        return "\n".join(lines + self.after)

    @property
    def has_shared_symbol(self) -> bool:
        """Whether the module declares the symbol of dynamic shared memory."""
        return any('sym_name = "global_smem"' in line for line in self.before)


def read_kernel(text: str) -> ChunkedKernel:
    """Read the module's kernel.

    Args:
        text: the module in generic form.

    Raises:
        IRError: there is no kernel, more than one, or a carrier that cannot be read.
    """
    lines = text.split("\n")
    start, end = _kernel_lines(lines)
    arguments = _ENTRY_ARGUMENT.findall(lines[start + 1])
    if not lines[start + 1].lstrip().startswith("^bb0(") or not arguments:
        raise IRError("The kernel has no argument for profile scratch memory.", _CURE)
    attributes = next((line for line in reversed(lines) if line.startswith("})")), "")
    kernel = ChunkedKernel(lines[: start + 2], Block(), lines[end:], {}, arguments[-1], attributes)
    _fill(kernel, lines[start + 2 : end])
    return kernel


def _kernel_lines(lines: list[str]) -> tuple[int, int]:
    """Lines of the header and of the closing bracket of the kernel.

    It carries an attribute; where the backend gives none (AMD from 3.9 on), it is, as for
    the backend, the first with a body that others may call.
    """
    kernels: list[tuple[int, int]] = []
    bodies: list[tuple[int, int]] = []
    start = -1
    for i, line in enumerate(lines):
        if line.startswith(_FUNCTION):
            start = i
        if start >= 0 and line.startswith("  })"):
            if _KERNEL.search(line) or _KERNEL.search(lines[start]):
                kernels.append((start, i))
            if i > start + 1 and not any(_INTERNAL in text for text in (line, lines[start])):
                bodies.append((start, i))
            start = -1
    found = kernels or bodies[:1]
    if len(found) != 1:
        raise IRError(f"The module holds {len(found)} kernels where one is expected.", _CURE)
    return found[0]


def _fill(kernel: ChunkedKernel, lines: list[str]) -> None:
    pending: list[str] = []
    for line in lines:
        if PREFIX in line:
            _flush(kernel, pending)
            pending = []
            _carrier(kernel, line)
        elif line.lstrip().startswith('"llvm.return"('):
            _flush(kernel, pending)
            pending = []
            kernel.body.add_op(ReturnOp.make(line))
        else:
            pending.append(line)
    _flush(kernel, pending)


def _flush(kernel: ChunkedKernel, lines: list[str]) -> None:
    if lines:
        kernel.body.add_op(ChunkOp.make(lines))


def _split(chunk: ChunkOp, pattern: re.Pattern[str]) -> list[ChunkOp]:
    groups: list[list[str]] = [[]]
    matches: list[int] = []
    for line in chunk.lines:
        if pattern.search(line):
            matches.append(len(groups))
            groups += [[line], []]
        else:
            groups[-1].append(line)
    if not matches:
        return []
    parts = [ChunkOp.make(lines) for lines in groups]
    block = chunk.parent
    assert block is not None
    for part in parts:
        if part.lines:
            block.insert_op_before(part, chunk)
    block.erase_op(chunk)
    return [parts[i] for i in matches]


def _carrier(kernel: ChunkedKernel, line: str) -> None:
    if bound := _BOUND.match(line):
        value, kind, kinds, location = bound.groups()
        op = StartInstrumentationOp(tuple(kinds.split("+"))) if kind == "start" else StopInstrumentationOp()
        kernel.carriers[op] = (value, location or "", "")
        kernel.body.add_op(op)
        return
    match = _CARRIER.match(line)
    if match is None:
        raise IRError(f"A record's carrier cannot be read: {line.strip()[:120]!r}.", _CURE)
    _, value, operands, site, kind, carries, name, location = match.groups()
    record = (RecordScalarOp if carries else RecordOp)(kind, unquote(name), int(site))
    kernel.carriers[record] = (value, location or "", operands)
    kernel.body.add_op(record)


def starts_block(op: Operation) -> bool:
    """Whether a chunk begins with a label, before which nothing can stand."""
    return isinstance(op, ChunkOp) and op.lines[0].lstrip().startswith("^")


def ends_block(op: Operation) -> bool:
    """Whether nothing can stand behind an operation of the kernel's body, in its block."""
    return isinstance(op, ReturnOp) or (isinstance(op, ChunkOp) and op.lines[-1].lstrip().startswith(_TERMINATORS))


def is_in_one_block(first: Operation, last: Operation) -> bool:
    """Whether what lies from the first to the last is neither left by a branch nor entered at a label."""
    op: Operation | None = first
    while op is not None:
        lines = op.lines if isinstance(op, ChunkOp) else [op.line] if isinstance(op, ReturnOp) else []
        if any(line.lstrip().startswith(("^", *_TERMINATORS)) for line in lines):
            return False
        op = None if op is last else op.next_op
    return True


def location_of(line: str) -> str:
    """The `loc(...)` at the end of a line, or an empty string."""
    found = _LOCATION.search(line)
    return found.group(1) if found else ""
