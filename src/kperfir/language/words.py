"""`scope`, `enter`, `exit` and `mark`, in compiled and in interpreted kernels.

Triton calls an object that carries `__triton_builtin__` while it traces a kernel,
with `_semantic` set, and the interpreter calls it while it runs, with `_semantic`
None. `triton.language.core.builtin` cannot be used: its wrapper refuses the latter.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Any, Protocol

from kperfir.errors import ScopeError
from kperfir.markers import MarkerKind, marker_text


class Recorder(Protocol):
    """Takes what interpreted kernels say."""

    def enter(self, name: str, file: str, line: int) -> None: ...

    def exit(self, name: str, file: str, line: int) -> None: ...

    def mark(self, name: str, file: str, line: int) -> None: ...


emitting: ContextVar[bool] = ContextVar("kperfir_emitting", default=False)
"""Whether the kernel that this thread compiles is to have markers."""

active: ContextVar[Recorder | None] = ContextVar("kperfir_active", default=None)
"""Takes the words of interpreted kernels; None where nothing records."""


class scope:
    """Time everything inside: `with kl.scope("load"): ...`.

    Args:
        name: what reports call it; a string known at compile time.

    Raises:
        ScopeError: the name is no string, or empty.
    """

    __triton_builtin__ = True

    def __init__(self, name: str, _semantic: Any = None) -> None:
        self._name = _checked(name)
        self._semantic = _semantic

    def __enter__(self) -> None:
        _say("enter", self._name, self._semantic)

    def __exit__(self, *_: object) -> None:
        _say("exit", self._name, self._semantic)


def enter(name: str, _semantic: Any = None) -> None:
    """Start a scope; `exit` with the same name must follow in the same block.

    Raises:
        ScopeError: the name is no string, or empty.
    """
    _say("enter", _checked(name), _semantic)


def exit(name: str, _semantic: Any = None) -> None:
    """End the scope that `enter` started.

    Raises:
        ScopeError: the name is no string, or empty.
    """
    _say("exit", _checked(name), _semantic)


def mark(name: str, _semantic: Any = None) -> None:
    """Note one moment.

    Raises:
        ScopeError: the name is no string, or empty.
    """
    _say("mark", _checked(name), _semantic)


for _word in (enter, exit, mark):
    _word.__triton_builtin__ = True  # type: ignore[attr-defined]


def _checked(name: object) -> str:
    text = getattr(name, "value", name)
    if not isinstance(text, str) or not text:
        raise ScopeError(f"A scope cannot be named {text!r}.", "Give it a string that is known at compile time.")
    if not text.isprintable():  # control characters would reach terminals, lone surrogates no file
        raise ScopeError(f"A scope cannot be named {text!r}.", "Use printable characters.")
    return text


def _say(kind: MarkerKind, name: str, semantic: Any) -> None:
    if semantic is not None:
        if emitting.get():
            _emit(kind, name, semantic.builder)
        return
    recorder = active.get()
    if recorder is not None:
        frame = _kernel_frame()
        getattr(recorder, kind)(name, frame.f_code.co_filename, frame.f_lineno)


def _emit(kind: MarkerKind, name: str, builder: Any) -> None:
    builder.create_inline_asm(marker_text(kind, name), "=r", [], [builder.get_int32_ty()], False, 1)


def _kernel_frame() -> FrameType:
    """The frame of the kernel: the first outside this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None
    return frame
