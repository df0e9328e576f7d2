"""`scope`, `enter`, `exit`, `mark`, `value`, `begin` and `end`, in compiled and in interpreted kernels.

Triton calls an object that carries `__triton_builtin__` while it traces a kernel,
with `_semantic` set, and the interpreter calls it while it runs, with `_semantic`
None. `triton.language.core.builtin` cannot be used: its wrapper refuses the latter.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Any, Literal, Protocol

from kperfir.errors import ScopeError
from kperfir.language.scalars import held_scalar, known_bits, scalar_type
from kperfir.markers import MarkerKind, marker_text
from kperfir.records import Scalar


class Recorder(Protocol):
    """Takes what interpreted kernels say."""

    def enter(self, name: str, file: str, line: int) -> None: ...

    def exit(self, name: str, file: str, line: int) -> None: ...

    def mark(self, name: str, file: str, line: int) -> None: ...

    def value(self, name: str, scalar: Scalar, bits: int, file: str, line: int) -> None: ...

    def begin(self, name: str, scalar: Scalar, bits: int, file: str, line: int) -> None: ...

    def end(self, name: str, scalar: Scalar, bits: int, file: str, line: int) -> None: ...


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


def value(name: str, x: Any, _semantic: Any = None) -> None:
    """Note a scalar of the kernel, and when.

    Args:
        x: an int32, uint32 or float32 scalar, or a number known at compile time that is one.

    Raises:
        ScopeError: the name is no string, or empty; x is something else.
    """
    _carry("value", _checked(name), x, _semantic)


def begin(name: str, id: Any, _semantic: Any = None) -> None:
    """Start an event that `end` with the same name and id ends: in any turn, warp or partition of the CTA.

    Args:
        id: an int32 or uint32 scalar, or a number known at compile time that is one.

    Raises:
        ScopeError: the name is no string, or empty; the id is something else.
    """
    _carry("begin", _checked(name), id, _semantic)


def end(name: str, id: Any, _semantic: Any = None) -> None:
    """End the event that `begin` started.

    Raises:
        ScopeError: the name is no string, or empty; the id is no int32 or uint32 scalar.
    """
    _carry("end", _checked(name), id, _semantic)


for _word in (enter, exit, mark, value, begin, end):
    setattr(_word, "__triton_builtin__", True)  # noqa: B010 - functions have no such attribute that mypy knows


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


def _carry(kind: Literal["value", "begin", "end"], name: str, x: Any, semantic: Any) -> None:
    """Say a word with a scalar; without a recording nothing is made of it."""
    scalar = scalar_type(name, x)
    if kind != "value" and scalar == "float32":
        raise ScopeError(
            f"The id of '{name}' is a float32.", "Give it an int32 or uint32 scalar: convert with .to(tl.int32)."
        )
    if semantic is not None:
        if emitting.get():
            builder = semantic.builder
            kind_of_bits, held = builder.get_int32_ty(), held_scalar(x, scalar, semantic)
            builder.create_inline_asm(marker_text(kind, name, scalar), "=r,r", [held], [kind_of_bits], False, 1)
        return
    recorder = active.get()
    if recorder is not None:
        frame = _kernel_frame()
        getattr(recorder, kind)(name, scalar, known_bits(x, scalar), frame.f_code.co_filename, frame.f_lineno)


def _kernel_frame() -> FrameType:
    """The frame of the kernel: the first outside this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None
    return frame
