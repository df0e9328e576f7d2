"""What a user's pass may ask about the kernel, and how it says what to record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from xdsl.ir import Block, Operation, SSAValue

from kperfir.errors import PassError
from kperfir.ir.chunks import ChunkOp, ReturnOp, ends_block, is_in_one_block, location_of, starts_block
from kperfir.ir.foreign import ForeignOp
from kperfir.ir.kperf import Record
from kperfir.ir.locations import Locations
from kperfir.passes.anchors import rule_of
from kperfir.passes.finding import Finding
from kperfir.records import Role

_VIEWS = ("ttg.memdesc_", "ttg.convert_layout", "tt.trans")
_PARTITIONS = "ttg.warp_specialize.partitions"


class Places(Protocol):
    """Puts records, or what becomes records, into a module of one level."""

    def span(self, first: Operation, last: Operation, name: str, role: Role, source: tuple[str, int]) -> None:
        """Record from before the first to behind the last; both lie in one block, in this order."""
        ...

    def mark(self, before: Operation, name: str, source: tuple[str, int]) -> None:
        """Record one moment."""
        ...


@dataclass(frozen=True)
class PassContext:
    """Given to `Pass.run`.

    Attributes:
        target: for example "cuda:90".
        rules: what the recording records besides, as in `kperfir.plan.Plan.regions`.
        locations: the module's location table.
    """

    target: str
    rules: tuple[str, ...]
    locations: Locations
    _who: str
    _places: Places
    _findings: list[Finding]

    def source(self, op: Operation) -> tuple[str, int]:
        """File and line an operation was written in; ("", 0) where unknown."""
        return self.locations.source(location_text(op))

    def variable(self, value: SSAValue) -> str:
        """Name of the variable in the source that a value comes from, through views and into partitions.

        Empty where there is none. At the LLVM dialect there are no values.
        """
        made_by = origin(value)
        return self.locations.name(made_by.location_text) if made_by is not None else ""

    def rule(self, op: Operation) -> str:
        """The rule that would pick the operation ("load", "wait", ...), or an empty string."""
        return rule_of(op) if isinstance(op, ForeignOp) else ""

    def around(self, op: Operation, name: str, role: Role = "sync") -> None:
        """Record one operation, a loop or branch with all that is in it.

        Raises:
            PassError: no record can stand there.
        """
        self.region(op, op, name, role)

    def region(self, first: Operation, last: Operation, name: str, role: Role = "sync") -> None:
        """Record everything from the first operation to the last, in one block.

        Args:
            role: "issue" or "wait" for a part of asynchronous work; it becomes part of the name.

        Raises:
            PassError: no records can stand there.
        """
        self._check(first, name)
        if first.parent is not last.parent or not _in_order(first, last):
            raise self.error(last, f"does not follow {describe(first)} in the same block, so '{name}' cannot end there")
        if _ends_block(last):
            raise self.error(last, f"ends its block, so '{name}' cannot end behind it")
        if not is_in_one_block(first, last):
            raise self.error(first, f"begins '{name}', which would go on in another basic block: record lines of one")
        self._places.span(first, last, name, role, self.source(first))

    def mark(self, op: Operation, name: str) -> None:
        """Record the moment before an operation.

        Raises:
            PassError: no record can stand there.
        """
        self._check(op, name)
        self._places.mark(op, name, self.source(op))

    def note(self, what: str, op: Operation | None = None, cure: str = "") -> None:
        """Tell the user something about this kernel; reports show it among the problems."""
        place = f", {_at(*self.source(op))}" if op is not None else ""
        self._findings.append(Finding("pass", f"{self._who}{place}", what, cure))

    def error(self, op: Operation, what: str) -> PassError:
        """An error that names this pass, the operation and its source."""
        return PassError(f"{self._who}: {describe(op)} ({_at(*self.source(op))}) {what}.")

    def _check(self, op: Operation, name: str) -> None:
        if not isinstance(op, Operation):
            raise PassError(f"{self._who} asks for '{name}' at {op!r}, which is no operation.")
        if not isinstance(name, str) or not name or not name.isprintable():
            raise self.error(op, f"cannot be recorded as {name!r}: a region's name is printable text")
        if starts_block(op):
            raise self.error(op, f"begins a basic block, so '{name}' cannot be recorded before it")
        if why := _no_place(op):
            raise self.error(op, f"{why}, so '{name}' cannot be recorded there")


def describe(op: Operation) -> str:
    """An operation in words."""
    if isinstance(op, ForeignOp):
        return f"operation '{op.opname}'"
    if isinstance(op, (ChunkOp, ReturnOp)):
        line = op.lines[0] if isinstance(op, ChunkOp) else op.line
        return f"line '{line.strip()[:60]}'"
    return f"operation '{op.name}'"


def location_text(op: Operation) -> str:
    """` loc(...)` of an operation; a record has that of what follows it."""
    while isinstance(op, Record) and op.next_op is not None:
        op = op.next_op
    if isinstance(op, ChunkOp):
        return next((found for line in op.lines if (found := location_of(line))), "")
    return location_of(op.line) if isinstance(op, ReturnOp) else str(getattr(op, "location_text", ""))


def origin(value: SSAValue) -> ForeignOp | None:
    """The operation that made a value, through views of shared memory and into partitions; None for arguments."""
    while True:
        owner = value.owner
        if isinstance(owner, Block):
            captured = _captured(owner, value)
            if captured is None:
                return None
            value = captured
        elif isinstance(owner, ForeignOp) and owner.opname.startswith(_VIEWS) and owner.operands:
            value = owner.operands[0]
        else:
            return owner if isinstance(owner, ForeignOp) else None


def _captured(block: Block, value: SSAValue) -> SSAValue | None:
    """What a partition's argument stands for; captures are operands of one or the other operation, by version."""
    partitions = block.parent_op()
    if not isinstance(partitions, ForeignOp) or partitions.opname != _PARTITIONS:
        return None
    whole = partitions.parent_op()
    captures = partitions.operands or (whole.operands if whole is not None else ())
    index: Any = getattr(value, "index", 0)
    return captures[index] if index < len(captures) else None


def _no_place(op: Operation) -> str:
    """Why no record can stand beside an operation."""
    if op.parent is None:
        return "lies in no block"
    if isinstance(op, ForeignOp) and op.opname in ("tt.func", "builtin.module", _PARTITIONS):
        return "stands in no sequence of instructions"
    around = op.parent_op()
    while isinstance(around, ForeignOp):
        if around.opname in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
            return f"lies in the body of '{around.opname}', which is no sequence of instructions"
        if around.opname == "tt.func" and 'sym_visibility = "private"' in around.properties_text:
            return "lies in a function that is called without being inlined"
        around = around.parent_op()
    return ""


def _in_order(first: Operation, last: Operation) -> bool:
    op: Operation | None = first
    while op is not None and op is not last:
        op = op.next_op
    return op is last


def _ends_block(op: Operation) -> bool:
    """Every block of a kernel ends with an operation that leaves it; the chunks of one kernel lie in one block."""
    return ends_block(op) or (isinstance(op, ForeignOp) and op.next_op is None)


def _at(file: str, line: int) -> str:
    return f"{file}:{line}" if file else "source unknown"
