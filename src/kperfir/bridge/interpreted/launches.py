"""Records kernels that run in Triton's interpreter, in the same format as a GPU's.

One CTA a program, one warp, records of 16 bytes with 64-bit host nanoseconds, and
both clocks of the header are that clock. Scopes and marks come through
`kperfir.language.active`; the rules load, store, dot, reduce and loop by wrapping what
the interpreter calls for them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import triton
from triton.runtime import autotuner, interpreter

from kperfir import language
from kperfir.bridge.interpreted.loops import has_loop, loops_announced
from kperfir.bridge.interpreted.recorder import Function, Recorder
from kperfir.bridge.replaced import Replacing, wrapped
from kperfir.bridge.trials import is_trial, noticing_trials
from kperfir.capture.policy import LaunchTally, Outcome, Policy
from kperfir.capture.schema import Kernel, Launch, Problem, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import ProgramError
from kperfir.passes.patched import passes_for
from kperfir.plan import AUTO
from kperfir.records import Layout

DEFAULT_SLOTS = 4096
_RULES = ("kernel", "load", "store", "dot", "reduce", "loop")
# a poll repeats a load until it sees its value: one record, not one a try
_OPERATIONS = {
    "create_load": "load",
    "create_masked_load": "load",
    "create_descriptor_load": "load",
    "create_atomic_poll": "load",
    "create_store": "store",
    "create_masked_store": "store",
    "create_descriptor_store": "store",
    "create_atomic_rmw": "store",
    "create_atomic_cas": "store",
    "create_dot": "dot",
    "create_dot_scaled": "dot",
}
_OWN = tuple(str(folder) + os.sep for folder in (Path(triton.__file__).parent, Path(__file__).parents[2]))
_KNOBS = frozenset({"regions", "slots", "kernels", "launches"})
_NO_DRIVER = "0 active drivers"
_PLACE = "the interpreter keeps its records in host memory"


class InterpretedLaunches(Replacing):
    """Records the interpreted launches of this process while it is entered."""

    def __init__(self, writer: CaptureWriter, policy: Policy, tally: LaunchTally) -> None:
        super().__init__()
        self._writer = writer
        self._plan = policy.plan
        self._policy = policy
        self._tally = tally
        self._functions: dict[Any, Function] = {}
        self._full: set[str] = set()
        self._without_passes: set[str] = set()
        self._kernels = 0
        self._launches = 0

    def __enter__(self) -> InterpretedLaunches:
        self._warn()
        self._replace()
        return self

    def _warn(self) -> None:
        absent = [r for r in self._plan.regions if r not in (*_RULES, "auto")]
        if absent:
            what = f"Triton's interpreter has no {' and no '.join(absent)}: nothing is recorded for that."
            self._writer.write(Problem("no-rule", "interpreter", what, "Record on a GPU for it."))
        ignored = [name for name in self._plan.chosen if name not in _KNOBS]
        if ignored:
            what = f"Triton's interpreter knows no {' and no '.join(ignored)}, so that has no effect."
            self._writer.write(Problem("no-knob", "interpreter", what, "Record on a GPU for it."))

    def _replace(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(noticing_trials())
            stack.enter_context(wrapped(interpreter.InterpreterBuilder, "set_grid_dim", _grid))
            stack.enter_context(wrapped(interpreter.InterpreterBuilder, "set_grid_idx", _program))
            stack.enter_context(wrapped(interpreter.ReduceScanOpInterface, "apply", _timed("reduce")))
            for name, rule in _OPERATIONS.items():
                if hasattr(interpreter.InterpreterBuilder, name):
                    stack.enter_context(wrapped(interpreter.InterpreterBuilder, name, _timed(rule)))
            stack.enter_context(loops_announced())
            stack.enter_context(wrapped(autotuner.Autotuner, "run", _autotune))
            stack.enter_context(_gluon_refused())
            stack.callback(self._gate.close)
            stack.enter_context(wrapped(interpreter.GridExecutor, "__call__", self._launch))
            self._gate.open()
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Record no launch any more."""
        self._stack.close()

    def _launch(self, original: Callable[..., Any], executor: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._gate.enter():
            return original(executor, *args, **kwargs)
        try:
            return self._launch_inside(original, executor, *args, **kwargs)
        finally:
            self._gate.leave()

    def _launch_inside(self, original: Callable[..., Any], executor: Any, *args: Any, **kwargs: Any) -> Any:
        name = executor.fn.__name__
        function = self._functions.setdefault(executor.fn, Function())
        outcome = self._outcome(name, function)
        if outcome != "recorded":
            self._tally.add(name, outcome)
            return original(executor, *args, **kwargs)
        self._tell_of_passes(name)
        recorder = self._recorder(executor.fn, name, function)
        token = language.active.set(recorder)
        try:
            result = original(executor, *args, **kwargs)
            recorder.finish()
            return result
        except BaseException:
            recorder.abandon()
            raise
        finally:
            language.active.reset(token)
            self._write(recorder)

    def _tell_of_passes(self, name: str) -> None:
        passes = passes_for(name)
        if passes and name not in self._without_passes:
            self._without_passes.add(name)
            what = f"Triton's interpreter compiles nothing, so these did not run: {', '.join(map(str, passes))}."
            self._writer.write(Problem("pass-skipped", name, what, "Record on a GPU for them."))

    def _outcome(self, name: str, function: Function) -> Outcome:
        if not self._policy.wants(name):
            return "excluded"
        if is_trial():
            return "autotune-trial"
        if function.broken:
            return "not-instrumented"
        function.launches += 1
        if not self._policy.samples(function.launches - 1):
            return "sampled-out"
        return "recorded" if self._fits(name, 0) else "file-full"

    def _fits(self, name: str, size_bytes: int) -> bool:
        fits = self._policy.fits(self._writer.bytes_written, size_bytes)
        if not fits and name not in self._full:
            self._full.add(name)
            self._writer.write(self._policy.full(name))
        return fits

    def _recorder(self, fn: Any, name: str, function: Function) -> Recorder:
        auto = self._plan.regions == ("auto",)
        rules = frozenset(AUTO if auto else self._plan.regions)
        source = (fn.__code__.co_filename, fn.__code__.co_firstlineno)
        return Recorder(function, name, source, rules, auto and has_loop(fn), self._plan.slots or DEFAULT_SLOTS)

    # --- writing

    def _write(self, recorder: Recorder) -> None:
        self._tally.add(recorder.name, self._written(recorder))
        self._writer.write(Tally(self._tally.snapshot()))

    def _written(self, recorder: Recorder) -> Outcome:
        function, name = recorder.function, recorder.name
        if recorder.error is not None:
            function.broken = True
            cure = f"{recorder.error.cure} The kernel runs as it is, without records."
            self._writer.write(Problem("not-recorded", name, recorder.error.what, cure))
            return "not-instrumented"
        layout = recorder.layout()
        if not self._fits(name, layout.cta_bytes * len(recorder.programs)):
            return "file-full"
        kernel = self._kernel(function, name, layout)
        launch = Launch(
            id=self._launches,
            kernel=kernel.id,
            number=function.launches - 1,
            grid=recorder.grid,
            ctas=len(recorder.programs),
            enqueued_unix_ns=time.time_ns(),
        )
        self._launches += 1
        self._writer.write(launch, recorder.payload(kernel.layout))
        return "recorded"

    def _kernel(self, function: Function, name: str, layout: Layout) -> Kernel:
        """The kernel's message; regions that appear later, and longer rings, make it a new one."""
        kernel, table = function.kernel, function.tables.table()
        if kernel is None or kernel.table != table or kernel.layout.slots < layout.slots:
            kernel = Kernel(self._kernels, name, "", "interpreter", layout, table, place_reason=_PLACE, clock="ns")
            function.kernel = kernel
            self._kernels += 1
            self._writer.write(kernel)
        return kernel


# --- wrappers; `original` is what Triton had


def _current() -> Recorder | None:
    recorder = language.active.get()
    return recorder if isinstance(recorder, Recorder) else None


def _grid(original: Callable[..., Any], builder: Any, *dims: int) -> Any:
    if (recorder := _current()) is not None:
        recorder.grid = (dims[0], dims[1], dims[2])
    return original(builder, *dims)


def _program(original: Callable[..., Any], builder: Any, x: int, y: int, z: int) -> Any:
    result = original(builder, x, y, z)
    if (recorder := _current()) is not None:
        recorder.begin_program(x, y, z)
    return result


def _timed(rule: str) -> Callable[..., Any]:
    def timed(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        recorder = _current()
        if recorder is None or not recorder.wants(rule):
            return original(*args, **kwargs)
        recorder.begin_operation(rule, _source())
        result = original(*args, **kwargs)
        recorder.end_operation()
        return result

    return timed


def _source() -> tuple[str, int]:
    """The kernel's line: the first frame outside Triton and kperfir."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_OWN, "<")):
            return file, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _autotune(original: Callable[..., Any], tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """A tuner that brings its own measurement works; Triton's own asks the GPU's driver for one."""
    try:
        return original(tuner, *args, **kwargs)
    except RuntimeError as error:
        if _NO_DRIVER not in str(error):
            raise
        raise ProgramError(
            f"Kernel '{tuner.base_fn.__name__}' is autotuned over {len(tuner.configs)} configurations, and Triton's "
            "interpreter has no times to choose by.",
            "Give it one configuration here, or run it on a GPU.",
        ) from None


@contextmanager
def _gluon_refused() -> Iterator[None]:
    from triton.experimental.gluon._runtime import GluonJITFunction

    def refuse(original: Callable[..., Any], kernel: Any, *args: Any, **kwargs: Any) -> Any:
        raise ProgramError(
            f"Gluon kernel '{kernel.fn.__name__}' cannot run in Triton's interpreter.", "Record it on a GPU."
        )

    with wrapped(GluonJITFunction, "run", refuse):
        yield
