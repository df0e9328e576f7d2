"""kperfir's passes inside Triton's compile pipeline.

The hook and the proxy below are there only while an instrumented compile runs
(`instrumenting`); threads that are not inside one do not see the hook, and pass
through the proxy.

    AST ── ttir ──► ttgir ──► llir ──► ptx, cubin
        tag scopes │   place │   └ LLVM dialect: lower (the proxy of the backend's name `llvm`)
"""

from __future__ import annotations

import gc
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any

from triton import knobs

from kperfir import language
from kperfir.bridge.asm_lines import on_their_lines
from kperfir.bridge.lower import lower_module
from kperfir.bridge.replaced import replaced
from kperfir.bridge.request import Request
from kperfir.bridge.steps import Written, carried, check_records, placed, tagged
from kperfir.bridge.text import generic_text
from kperfir.bridge.user_passes import UserPasses
from kperfir.errors import BridgeError, KperfError, LoweringError
from kperfir.passes.finding import Finding
from kperfir.passes.user import Bound
from kperfir.records import Layout

METADATA = "kperf"
_NO_LINES = "TRITON_DISABLE_LINE_INFO"
_HOOK = "add_stages_inspection_hook"
_BACKENDS = ("nvidia", "amd")


@dataclass
class Compile:
    """One instrumented compile while it runs.

    Attributes:
        request: what to do.
        user: the passes that users patched, and the table of all that is recorded.
        error: the first of kperfir's own errors; Triton may wrap it on its way out.
        written: scopes of the source, and what became of them.
    """

    request: Request
    user: UserPasses = field(default_factory=UserPasses)
    error: KperfError | None = None
    written: Written = field(default_factory=Written)
    layout: Layout | None = None

    @property
    def findings(self) -> list[Finding]:
        """What steps and passes found."""
        return self.user.findings


_lock = threading.Lock()
_under_way: list[ExitStack] = []
_compile: ContextVar[Compile | None] = ContextVar("kperfir_compile", default=None)


@contextmanager
def instrumenting(request: Request, passes: tuple[Bound, ...] = (), target: str = "") -> Iterator[Compile]:
    """Whatever this thread compiles inside is instrumented.

    A stage hook that is already installed is kept and called first. Instrumented
    compiles come one after another; what other threads compile meanwhile stays
    plain, under the key that it has anyway.
    """
    if _compile.get() is not None:
        what = "It was launched while this thread was compiling another kernel with records."
        raise BridgeError(what, "Passes and listeners of compiles must launch nothing that is recorded.")
    compile_ = Compile(request, UserPasses(passes, target, request.regions, request.turns))
    with _lock, _in_place():
        token = _compile.set(compile_)
        emitting = language.emitting.set(True)
        try:
            yield compile_
        finally:
            language.emitting.reset(emitting)
            _compile.reset(token)


@contextmanager
def _in_place() -> Iterator[None]:
    """All that is replaced in the process during an instrumented compile."""
    with ExitStack() as stack:
        for context in (_uncollected(), _located(), _hooked(), before_translation(_lower_records)):
            stack.enter_context(context)
        _under_way.append(stack)
        try:
            yield
        finally:
            _under_way.clear()


def _leave_to_parent() -> None:
    """A process that another thread forks during a compile does not go on with it: all is put back, the lock too."""
    global _lock
    _lock = threading.Lock()
    for stack in _under_way:
        stack.close()
    _under_way.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def _located() -> Iterator[None]:
    """Scopes travel as locations, so Triton must keep them, whatever the program asked for its own kernels.

    Triton reads this of the process's environment: a program that sets it and compiles in
    another thread meanwhile gets that kernel with lines, under another key.
    """
    before = os.environ.pop(_NO_LINES, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[_NO_LINES] = before


@contextmanager
def _hooked() -> Iterator[None]:
    """Triton's knob answers with kperfir's hook inside an instrumented compile, else with the program's."""

    def get(runtime: Any) -> Any:
        own, compile_ = vars(runtime).get(_HOOK), _compile.get()
        return own if compile_ is None else _stage_hook(own, compile_)

    def put(runtime: Any, hook: Any) -> None:
        vars(runtime)[_HOOK] = hook

    with replaced(type(knobs.runtime), _HOOK, property(get, put)):
        yield


@contextmanager
def before_translation(step: Callable[[Any], Any]) -> Iterator[None]:
    """While inside, backends translate to LLVM IR what `step` makes of a module in the LLVM dialect."""
    with ExitStack() as stack:
        for name in _BACKENDS:
            module: Any = importlib.import_module(f"triton.backends.{name}.compiler")
            stack.enter_context(replaced(module, "llvm", _LlvmProxy(module.llvm, step)))
        yield


def _stage_hook(previous: Callable[..., Any] | None, compile_: Compile) -> Callable[..., Any]:
    def hook(
        backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
    ) -> Any:
        if stages is None:
            key, digest = previous() if previous else ("", "")
            own = f"-kperf-{compile_.request.digest()}"
            return key + own, digest + own
        if previous:
            previous(backend, stages, options, language, capability)
        _wrap(stages, compile_)
        return None

    return hook


def _wrap(stages: dict[str, Any], compile_: Compile) -> None:
    """Put kperfir's steps into a backend's stages; Gluon kernels have no "ttir"."""
    gluon = "ttir" not in stages
    ttgir, llir = stages["ttgir"], stages["llir"]
    if not gluon:
        ttir = stages["ttir"]
        stages["ttir"] = lambda source, metadata: ttir(_noted(compile_, _tag, source, compile_), metadata)
    else:
        compile_.user.skip_ttir()
    stages["ttgir"] = lambda source, metadata: _noted(compile_, _place, ttgir(source, metadata), metadata, compile_)
    if "ptx" in stages:
        ptx = stages["ptx"]
        stages["ptx"] = lambda source, metadata: on_their_lines(ptx(source, metadata))
    stages["llir"] = lambda source, metadata: _noted(compile_, _lower, llir, source, metadata, compile_)


def _noted(compile_: Compile, step: Callable[..., Any], *arguments: Any) -> Any:
    """Run a step; keep its error, because Triton re-raises some in other clothes."""
    try:
        return step(*arguments)
    except KperfError as error:
        compile_.error = compile_.error or error
        raise


@contextmanager
def _uncollected() -> Iterator[None]:
    """A compile makes thousands of objects that live as long as it does: looking for garbage among them is lost."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def _tag(source: Any, compile_: Compile) -> Any:
    """Scopes of a Triton-DSL kernel become location tags."""
    source, compile_.written = tagged(source, compile_.user)
    return source


def _place(source: Any, metadata: dict[str, Any], compile_: Compile) -> Any:
    """Records go in."""
    text = generic_text(source)
    module, compile_.written = placed(text, source.context, compile_.user, compile_.request, compile_.written)
    metadata[METADATA] = {"request": compile_.request.to_json()}
    return carried(module, compile_.request, source.context)


def _lower(llir: Callable[..., Any], source: Any, metadata: dict[str, Any], compile_: Compile) -> Any:
    """Triton's own stage; the proxy lowers the records inside it, and what they mean goes into the metadata."""
    result = llir(source, metadata)
    if compile_.layout is None:
        raise LoweringError(
            "Triton's backend did not pass the point where records are lowered.", "Run `kperfir doctor`."
        )
    check_records(compile_.user)
    metadata[METADATA] |= _told(compile_, compile_.layout)
    return result


def _told(compile_: Compile, layout: Layout) -> dict[str, Any]:
    """What a reader of the records needs, as the kernel's metadata holds it."""
    table = compile_.user.tables.table()
    return {
        "table": table.to_json(),
        "findings": [asdict(f) for f in compile_.findings],
        "layout": asdict(layout),
        "fidelity": [kept.to_json() for kept in compile_.written.kept(table)],
    }


def _lower_records(module: Any) -> Any:
    """The module with its records lowered; as it is in threads that are in no instrumented compile."""
    compile_ = _compile.get()
    if compile_ is not None:
        module, compile_.layout = lower_module(module, compile_.user)
    return module


class _LlvmProxy:
    """The backend's `llvm`, with one step before `to_module`. It keeps no state of compiles."""

    def __init__(self, real: Any, step: Callable[[Any], Any]) -> None:
        self._real = real
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def to_module(self, module: Any, *arguments: Any) -> Any:
        return self._real.to_module(self._step(module), *arguments)
