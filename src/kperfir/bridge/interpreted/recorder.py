"""What one interpreted launch writes: scopes and operations as records, programs as blocks of the record format."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kperfir.capture.schema import Kernel
from kperfir.errors import ScopeError
from kperfir.passes.scopes import Scope, not_left, unbalanced
from kperfir.passes.tables import TableBuilder
from kperfir.records import (
    CTA_OFFSET,
    END_CLOCK_OFFSET,
    END_TIME_OFFSET,
    HEADER_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    START_CLOCK_OFFSET,
    START_TIME_OFFSET,
    STATE_FINISHED,
    STATE_OFFSET,
    STATE_STARTED,
    WIDE_RECORD_BYTES,
    Kind,
    Layout,
    Scalar,
)


@dataclass
class Function:
    """One kernel function, over all its launches."""

    tables: TableBuilder = field(default_factory=TableBuilder)
    sites: dict[tuple[int, Kind], int] = field(default_factory=dict)
    kernel: Kernel | None = None
    launches: int = 0
    broken: bool = False


@dataclass
class Program:
    """One program of a launch while it runs, and what it wrote; `end_ns` stays 0 where it did not reach its end."""

    cta: int
    start_ns: int
    records: deque[tuple[int, int]]  # site and what it carries, as one number; clock
    count: int = 0
    end_ns: int = 0


class Recorder:
    """Takes what one launch says."""

    def __init__(
        self,
        function: Function,
        name: str,
        source: tuple[str, int],
        rules: frozenset[str],
        only_loops: bool,
        slots: int,
    ) -> None:
        self.function = function
        self.name = name
        self.error: ScopeError | None = None
        self.programs: list[Program] = []
        self.grid = (1, 1, 1)
        self._source = source
        self._rules = rules
        self._only_loops = only_loops
        self._slots = slots
        self._stack: list[int] = []
        self._scopes: list[Scope] = []
        self._outer: list[int] = []  # scopes that were open when each running loop body began
        self._busy = False
        # a loop body that was left with an open scope: by mistake, or because an error is on its way out
        self._suspicion: ScopeError | None = None

    # --- programs

    def begin_program(self, x: int, y: int, z: int) -> None:
        """The next program of the grid starts."""
        self.finish()
        cta = x + self.grid[0] * (y + self.grid[1] * z)
        self.programs.append(Program(cta, time.perf_counter_ns(), deque(maxlen=self._slots)))
        if "kernel" in self._rules:
            self.start("kernel", "kernel", *self._source)

    def finish(self) -> None:
        """The current program ends."""
        if not self.programs or self.programs[-1].end_ns:
            return
        self.error = self.error or self._suspicion
        if self._scopes and self.error is None:
            self.error = not_left(self._scopes[-1])
        if "kernel" in self._rules and len(self._stack) == 1:
            self.end_region()
        self._reset()
        self.programs[-1].end_ns = time.perf_counter_ns()

    def abandon(self) -> None:
        """The kernel raised an error of its own: what is open then is no mistake, and the program has no end."""
        self._reset()

    def _reset(self) -> None:
        self._stack, self._scopes, self._outer, self._busy, self._suspicion = [], [], [], False, None

    # --- records

    def start(self, name: str, origin: Any, file: str, line: int) -> None:
        """A region begins."""
        parent = self._stack[-1] if self._stack else None
        region = self.function.tables.region(parent, name, "sync", origin, file, line)
        self._stack.append(region)
        self._write(region, "start")

    def end_region(self) -> None:
        """The innermost region ends."""
        self._write(self._stack.pop(), "end")

    def _write(self, region: int, kind: Kind, bits: int = 0) -> None:
        key = (region, kind)
        if key not in self.function.sites:
            self.function.sites[key] = self.function.tables.site(region, kind)
        program = self.programs[-1]
        program.count += 1
        program.records.append((bits << 32 | self.function.sites[key], time.perf_counter_ns()))

    # --- what the in-kernel language calls

    def enter(self, name: str, file: str, line: int) -> None:
        """A scope is entered."""
        self._scopes.append(Scope(0, name, file, line))
        self.start(name, "scope", file, line)

    def exit(self, name: str, file: str, line: int) -> None:
        """A scope is left; it must be the innermost, and of this loop body."""
        entered = self._scopes[self._outer[-1] if self._outer else 0 :]
        if not entered or entered[-1].name != name:
            self.error = self.error or unbalanced(name, file, line, entered[-1] if entered else None)
            return
        self._scopes.pop()
        self.end_region()

    def mark(self, name: str, file: str, line: int) -> None:
        """A point in time."""
        parent = self._stack[-1] if self._stack else None
        self._write(self.function.tables.region(parent, name, "sync", "mark", file, line), "mark")

    def value(self, name: str, scalar: Scalar, bits: int, file: str, line: int) -> None:
        """A scalar at a point in time."""
        parent = self._stack[-1] if self._stack else None
        region = self.function.tables.region(parent, name, "sync", "value", file, line, scalar)
        self._write(region, "value", bits)

    def begin(self, name: str, scalar: Scalar, bits: int, file: str, line: int) -> None:
        """An event starts."""
        self._write(self.function.tables.event(name, file, line, scalar), "start", bits)

    def end(self, name: str, scalar: Scalar, bits: int, file: str, line: int) -> None:
        """An event ends."""
        self._write(self.function.tables.event(name, file, line, scalar), "end", bits)

    # --- operations and loops

    def begin_operation(self, rule: str, source: tuple[str, int]) -> None:
        """An operation that `wants` said yes to begins."""
        self.start(rule, "rule", *source)
        self._busy = True

    def end_operation(self) -> None:
        """It ends."""
        self._busy = False
        self.end_region()

    def wants(self, rule: str) -> bool:
        """Whether an operation of this kind is recorded here; one inside another is part of it."""
        inside = not self._only_loops or bool(self._outer)
        return rule in self._rules and inside and not self._busy and bool(self.programs)

    def begin_loop(self, file: str, line: int) -> None:
        """A loop begins; `auto` does not time it, but records what lies in it."""
        if "loop" in self._rules:
            self.start("loop", "rule", file, line)
        self._outer.append(len(self._scopes))

    def end_body(self) -> None:
        """A loop body must leave what it entered."""
        if self._outer and len(self._scopes) > self._outer[-1]:
            self._suspicion = self._suspicion or not_left(self._scopes[-1])
            for _ in self._scopes[self._outer[-1] :]:
                self._scopes.pop()
                self.end_region()

    def end_loop(self) -> None:
        """A loop ends, however it was left."""
        if not self._outer:  # its program was abandoned
            return
        self.end_body()
        self._outer.pop()
        if "loop" in self._rules:
            self.end_region()

    # --- what is written to the capture

    def layout(self) -> Layout:
        """As many slots as were needed, up to what the plan allows."""
        most = max((len(p.records) for p in self.programs), default=1)
        full = any(p.count > len(p.records) for p in self.programs)
        slots = self._slots if full else 1 << max(most - 1, 1).bit_length()
        return Layout(1, slots, "host", WIDE_RECORD_BYTES)

    def payload(self, layout: Layout) -> bytes:
        """The blocks of all programs."""
        return b"".join(_block(program, layout) for program in self.programs)


def _block(program: Program, layout: Layout) -> bytes:
    """One CTA's scratch block; slots are in ring order."""
    block = np.zeros(layout.cta_bytes, np.uint8)
    words, longs = block.view(np.uint32), block.view(np.uint64)
    words[MAGIC_OFFSET // 4] = MAGIC
    words[CTA_OFFSET // 4] = program.cta
    words[STATE_OFFSET // 4] = STATE_FINISHED if program.end_ns else STATE_STARTED
    for offset, value in (
        (START_CLOCK_OFFSET, program.start_ns),
        (START_TIME_OFFSET, program.start_ns),
        (END_CLOCK_OFFSET, program.end_ns),
        (END_TIME_OFFSET, program.end_ns),
    ):
        longs[offset // 8] = value
    words[HEADER_BYTES // 4] = program.count
    ring = longs[layout.rings_offset_bytes // 8 :].reshape(layout.slots, 2)
    for n, record in enumerate(program.records, program.count - len(program.records)):
        ring[n % layout.slots] = record
    return block.tobytes()
