"""Records kernels that run in Triton's interpreter, in the same format as a GPU's.

One CTA a program, one warp, records of 16 bytes with 64-bit host nanoseconds, and
both clocks of the header are that clock. Scopes and marks come through
`kperfir.language.active`; the rules load, store, dot, reduce and loop by wrapping what
the interpreter calls for them.
"""

from __future__ import annotations

import ast
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from triton.runtime import autotuner, interpreter

from kperfir import language
from kperfir.bridge.replaced import replaced, wrapped
from kperfir.capture.policy import LaunchTally, Outcome, Policy
from kperfir.capture.schema import Kernel, Launch, Problem, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import ProgramError, ScopeError
from kperfir.passes.scopes import Scope, not_left, unbalanced
from kperfir.passes.tables import TableBuilder
from kperfir.plan import AUTO, Plan
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
    WIDE_RECORD_BYTES,
    Kind,
    Layout,
)

DEFAULT_SLOTS = 4096
_RULES = ("kernel", "load", "store", "dot", "reduce", "loop")
_OPERATIONS = {
    "create_load": "load",
    "create_masked_load": "load",
    "create_descriptor_load": "load",
    "create_store": "store",
    "create_masked_store": "store",
    "create_descriptor_store": "store",
    "create_atomic_rmw": "store",
    "create_atomic_cas": "store",
    "create_dot": "dot",
    "create_dot_scaled": "dot",
}
_OWN = ("/triton/", "/kperfir/bridge/", "/kperfir/language/")


@dataclass
class _Function:
    """One kernel function, over all its launches."""

    tables: TableBuilder = field(default_factory=TableBuilder)
    sites: dict[tuple[int, Kind], int] = field(default_factory=dict)
    kernel: Kernel | None = None
    launches: int = 0
    broken: bool = False


@dataclass
class _Program:
    """One program of a launch while it runs, and what it wrote."""

    cta: int
    start_ns: int
    records: deque[tuple[int, int]]
    count: int = 0
    end_ns: int = 0


class _Recorder:
    """Takes what one launch says."""

    def __init__(self, function: _Function, name: str, rules: frozenset[str], only_loops: bool, slots: int) -> None:
        self.function = function
        self.name = name
        self.rules = rules
        self.only_loops = only_loops
        self.slots = slots
        self.programs: list[_Program] = []
        self.stack: list[int] = []
        self.scopes: list[Scope] = []
        self.loops = 0
        self.busy = False
        self.error: ScopeError | None = None
        self.grid = (1, 1, 1)
        self.source = ("", 0)

    # --- programs

    def begin(self, x: int, y: int, z: int) -> None:
        """The next program of the grid starts."""
        self.finish()
        self.loops = 0
        cta = x + self.grid[0] * (y + self.grid[1] * z)
        self.programs.append(_Program(cta, time.perf_counter_ns(), deque(maxlen=self.slots)))
        if "kernel" in self.rules:
            self.start("kernel", "kernel", *self.source)

    def finish(self) -> None:
        """The current program ends."""
        if not self.programs or self.programs[-1].end_ns:
            return
        if self.scopes and self.error is None:
            self.error = not_left(self.scopes[-1])
        if "kernel" in self.rules and len(self.stack) == 1:
            self.end()
        self.stack, self.scopes = [], []
        self.programs[-1].end_ns = time.perf_counter_ns()

    # --- records

    def start(self, name: str, origin: Any, file: str, line: int) -> None:
        parent = self.stack[-1] if self.stack else None
        region = self.function.tables.region(parent, name, "sync", origin, file, line)
        self.stack.append(region)
        self.write(region, "start")

    def end(self) -> None:
        self.write(self.stack.pop(), "end")

    def write(self, region: int, kind: Kind) -> None:
        key = (region, kind)
        if key not in self.function.sites:
            self.function.sites[key] = self.function.tables.site(region, kind)
        program = self.programs[-1]
        program.count += 1
        program.records.append((self.function.sites[key], time.perf_counter_ns()))

    # --- what the in-kernel language calls

    def enter(self, name: str, file: str, line: int) -> None:
        self.scopes.append(Scope(0, name, file, line))
        self.start(name, "scope", file, line)

    def exit(self, name: str, file: str, line: int) -> None:
        if not self.scopes or self.scopes[-1].name != name:
            self.error = self.error or unbalanced(name, file, line, self.scopes[-1] if self.scopes else None)
            return
        self.scopes.pop()
        self.end()

    def mark(self, name: str, file: str, line: int) -> None:
        parent = self.stack[-1] if self.stack else None
        self.write(self.function.tables.region(parent, name, "sync", "mark", file, line), "mark")

    def wants(self, rule: str) -> bool:
        """Whether an operation of this kind is recorded here; one inside another is part of it."""
        inside = not self.only_loops or self.loops > 0
        return rule in self.rules and inside and not self.busy and bool(self.programs)


class InterpretedLaunches:
    """Records the interpreted launches of this process while it is entered."""

    def __init__(self, writer: CaptureWriter, plan: Plan, policy: Policy, tally: LaunchTally) -> None:
        self._writer = writer
        self._plan = plan
        self._policy = policy
        self._tally = tally
        self._functions: dict[Any, _Function] = {}
        self._current: _Recorder | None = None
        self._kernels = 0
        self._launches = 0
        self._stack = ExitStack()

    def __enter__(self) -> InterpretedLaunches:
        absent = [r for r in self._plan.regions if r not in (*_RULES, "auto")]
        if absent:
            what = f"Triton's interpreter has no {' and no '.join(absent)}: nothing is recorded for that."
            self._writer.write(Problem("no-rule", "interpreter", what, "Record on a GPU for it."))
        with ExitStack() as stack:
            stack.enter_context(wrapped(interpreter.GridExecutor, "__call__", self._launch))
            stack.enter_context(wrapped(interpreter.InterpreterBuilder, "set_grid_dim", self._grid))
            stack.enter_context(wrapped(interpreter.InterpreterBuilder, "set_grid_idx", self._program))
            stack.enter_context(wrapped(interpreter.ReduceScanOpInterface, "apply", self._timed("reduce")))
            for name, rule in _OPERATIONS.items():
                if hasattr(interpreter.InterpreterBuilder, name):
                    stack.enter_context(wrapped(interpreter.InterpreterBuilder, name, self._timed(rule)))
            stack.enter_context(_rewritten_loops(self))
            stack.enter_context(wrapped(autotuner.Autotuner, "run", _refuse_autotuning))
            stack.enter_context(_gluon_refused())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- wrappers; `original` is what Triton had

    def _launch(self, original: Callable[..., Any], executor: Any, *args: Any, **kwargs: Any) -> Any:
        name = executor.fn.__name__
        function = self._functions.setdefault(executor.fn, _Function())
        outcome = self._outcome(name, function)
        if outcome != "recorded":
            self._tally.add(name, outcome)
            return original(executor, *args, **kwargs)
        recorder = self._recorder(executor.fn, name, function)
        token = language.active.set(recorder)
        self._current = recorder
        try:
            return original(executor, *args, **kwargs)
        finally:
            self._current = None
            language.active.reset(token)
            recorder.finish()
            self._write(recorder)

    def _outcome(self, name: str, function: _Function) -> Outcome:
        number = function.launches
        function.launches += 1
        if not self._policy.wants(name):
            return "excluded"
        if function.broken:
            return "not-instrumented"
        if not self._policy.samples(number):
            return "sampled-out"
        return "recorded" if self._policy.fits(self._writer.bytes_written, 0) else "file-full"

    def _recorder(self, fn: Any, name: str, function: _Function) -> _Recorder:
        auto = self._plan.regions == ("auto",)
        rules = frozenset(AUTO if auto else self._plan.regions)
        recorder = _Recorder(function, name, rules, auto and _has_loop(fn), self._plan.slots or DEFAULT_SLOTS)
        recorder.source = (fn.__code__.co_filename, fn.__code__.co_firstlineno)
        return recorder

    def _grid(self, original: Callable[..., Any], builder: Any, *dims: int) -> Any:
        if self._current is not None:
            self._current.grid = (dims[0], dims[1], dims[2])
        return original(builder, *dims)

    def _program(self, original: Callable[..., Any], builder: Any, x: int, y: int, z: int) -> Any:
        result = original(builder, x, y, z)
        if self._current is not None:
            self._current.begin(x, y, z)
        return result

    def _timed(self, rule: str) -> Callable[..., Any]:
        def timed(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            recorder = self._current
            if recorder is None or not recorder.wants(rule):
                return original(*args, **kwargs)
            recorder.start(rule, "rule", *_source())
            recorder.busy = True
            try:
                return original(*args, **kwargs)
            finally:
                recorder.busy = False
                recorder.end()

        return timed

    def loop(self, iterable: Any, file: str, line: int) -> Iterator[Any]:
        """What a `for` of an interpreted kernel runs over instead."""
        recorder = self._current
        if recorder is None:
            yield from iterable
            return
        timed = "loop" in recorder.rules and bool(recorder.programs)
        if timed:
            recorder.start("loop", "rule", file, line)
        recorder.loops += 1
        try:
            yield from iterable
        finally:
            recorder.loops -= 1
            if timed and recorder.stack:
                recorder.end()

    # --- writing

    def _write(self, recorder: _Recorder) -> None:
        function, name = recorder.function, recorder.name
        if recorder.error is not None:
            function.broken = True
            cure = f"{recorder.error.cure} The kernel runs as it is, without records."
            self._writer.write(Problem("not-recorded", name, recorder.error.what, cure))
            self._tally.add(name, "not-instrumented")
            return
        table = function.tables.table()
        most = max((len(p.records) for p in recorder.programs), default=1)
        full = any(p.count > len(p.records) for p in recorder.programs)
        slots = recorder.slots if full else 1 << max(most - 1, 1).bit_length()
        layout = Layout(1, slots, "host", WIDE_RECORD_BYTES)
        kernel = function.kernel
        if kernel is None or kernel.table != table or kernel.layout.slots < layout.slots:
            reason = "the interpreter keeps its records in host memory"
            kernel = Kernel(self._kernels, name, "", "interpreter", layout, table, place_reason=reason, clock="ns")
            function.kernel = kernel
            self._kernels += 1
            self._writer.write(kernel)
        layout = kernel.layout
        launch = Launch(
            self._launches, kernel.id, function.launches - 1, recorder.grid, len(recorder.programs),
            enqueued_unix_ns=time.time_ns(),
        )  # fmt: skip
        self._launches += 1
        self._writer.write(launch, b"".join(_block(p, layout) for p in recorder.programs))
        self._tally.add(name, "recorded")
        self._writer.write(Tally(self._tally.snapshot()))


def _block(program: _Program, layout: Layout) -> bytes:
    """One CTA's scratch block; slots are in ring order."""
    block = np.zeros(layout.cta_bytes, np.uint8)
    words, longs = block.view(np.uint32), block.view(np.int64)
    words[MAGIC_OFFSET // 4] = MAGIC
    words[CTA_OFFSET // 4] = program.cta
    words[STATE_OFFSET // 4] = STATE_FINISHED
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


def _source() -> tuple[str, int]:
    """The kernel's line: the first frame outside Triton and kperfir."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not any(part in file for part in _OWN) and not file.startswith("<"):
            return file, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _has_loop(fn: Any, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a kernel, or an interpreted helper that it names, loops."""
    names = set(fn.__code__.co_names)
    if _FLAG in names:
        return True
    for name in names - seen:
        helper = fn.__globals__.get(name)
        if isinstance(helper, interpreter.InterpretedFunction) and _has_loop(helper.rewrite(), seen | names):
            return True
    return False


# --- loops: `for i in X` of an interpreted kernel becomes `for i in _kperfir_loop(X)`

_FLAG = "_kperfir_loop"


@contextmanager
def _rewritten_loops(launches: InterpretedLaunches) -> Iterator[None]:
    """Kernels rewritten meanwhile announce their loops; those rewritten before are rewritten again."""
    touched: list[dict[str, Any]] = []

    def visit_for(self: Any, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        call = ast.Name(id=_FLAG, ctx=ast.Load())
        node.iter = ast.copy_location(ast.Call(func=call, args=[node.iter], keywords=[]), node.iter)
        return node

    def loop(iterable: Any) -> Iterator[Any]:
        frame = sys._getframe(1)
        return launches.loop(iterable, frame.f_code.co_filename, frame.f_lineno)

    def with_loop(original: Callable[..., Any], rewriter: Any, tree: ast.AST) -> Any:
        fn = original(rewriter, tree)
        fn.__globals__.setdefault(_FLAG, loop)
        touched.append(fn.__globals__)
        return fn

    try:
        with (
            replaced(interpreter.InterpretedFunction, "rewritten_fn", {}),
            replaced(interpreter.ASTTransformer, "visit_For", visit_for),
            wrapped(interpreter.FunctionRewriter, "_compile_and_exec", with_loop),
        ):
            yield
    finally:
        for names in touched:
            names.pop(_FLAG, None)


def _refuse_autotuning(original: Callable[..., Any], tuner: Any, *args: Any, **kwargs: Any) -> Any:
    if len(tuner.configs) > 1:
        raise ProgramError(
            f"Kernel '{tuner.base_fn.__name__}' is autotuned over {len(tuner.configs)} configurations, and Triton's "
            "interpreter has no times to choose by.",
            "Give it one configuration here, or run it on a GPU.",
        )
    return original(tuner, *args, **kwargs)


@contextmanager
def _gluon_refused() -> Iterator[None]:
    from triton.experimental.gluon._runtime import GluonJITFunction

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise ProgramError(
            f"Gluon kernel '{self.fn.__name__}' cannot run in Triton's interpreter.", "Record it on a GPU."
        )

    with replaced(GluonJITFunction, "run", run):
        yield
