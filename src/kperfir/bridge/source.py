"""A kernel given as text of TTIR or TTGIR: what it is, for which target, with which options."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from kperfir.bridge.architectures import OLDEST_CUDA
from kperfir.errors import IRError, PlanError
from kperfir.ir.attributes import get_integer
from kperfir.ir.chunks import PREFIX as CARRIER
from kperfir.ir.spelled import holds_records

_COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
_FUNCTION = re.compile(r'\btt\.func\b|"tt\.func"')
_TARGET = re.compile(r'"?ttg\.target"? = "([^"]*)"')
_WAVES_OF_64 = re.compile(r"gfx9\w{2}")
_NVIDIA = re.compile(r"\d{2,4}", re.ASCII)
_PRIVATE = re.compile(r'tt\.func (?:private|nested) |sym_visibility = "(?:private|nested)"')
_MOST = 1 << 31


@dataclass(frozen=True)
class KernelText:
    """One kernel.

    Attributes:
        text: TTIR or TTGIR, custom or generic form.
        target: such as "cuda:90" or "hip:gfx942"; None where the text says it.
        options: Triton's compile options; text where they come from a command line.
    """

    text: str
    target: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_metadata(text: str, target: str | None, metadata: dict[str, Any]) -> KernelText:
        """A kernel of Triton's cache, with the compile options among its metadata."""
        backend = make_backend(KernelText(text, target).gpu_target())
        known = {f.name for f in fields(type(backend.parse_options({})))}
        return KernelText(text, target, {name: value for name, value in metadata.items() if name in known})

    @cached_property
    def code(self) -> str:
        """The text with its comment lines left empty: checks that stand there are about other levels."""
        return _COMMENT.sub("", self.text)

    @property
    def state(self) -> int:
        """Number in `levels.STATES` of what it holds.

        Raises:
            IRError: it is neither TTIR nor TTGIR, or holds another number of kernels than one.
        """
        if not _FUNCTION.search(self.code):
            raise IRError("It holds no tt.func, so it is neither TTIR nor TTGIR.", "Give text that Triton printed.")
        functions = [line for line in self.code.splitlines() if _FUNCTION.search(line)]
        kernels = sum(_PRIVATE.search(line) is None for line in functions)
        if kernels != 1:
            raise IRError(f"It holds {kernels} kernels, and one is needed.", "Make one tt.func public, others private.")
        if holds_records(self.code):
            return 2
        if CARRIER in self.code:
            return 3
        return int(bool(get_integer(self.code, "ttg.num-warps")))

    def gpu_target(self) -> GPUTarget:
        """The target asked for, or the one that TTGIR names.

        Raises:
            PlanError: there is none, two that differ, or one that kperfir does not know.
        """
        found = _TARGET.search(self.code)
        named = found.group(1) if found else None
        if self.target and named and self.target != named:
            raise PlanError(f"It was made for {named}, and --target is {self.target}.", "Start from TTIR, or agree.")
        target = self.target or named
        if target is None:
            raise PlanError("It does not say for which target it is.", "Use --target, such as cuda:90 or hip:gfx942.")
        return _parse_target(target)

    def backend_and_options(self) -> tuple[Any, Any]:
        """Triton's backend and its parsed options; warps and CTAs of TTGIR come from the text.

        Raises:
            PlanError: an option is unknown, or refused by Triton.
        """
        backend = make_backend(self.gpu_target())
        usual = vars(backend.parse_options({}))
        known = sorted(usual)
        options = {name: _value(value) for name, value in self.options.items()}
        for name in options:
            if name not in known:
                raise PlanError(f"Triton has no option '{name}' for this target.", f"It has {', '.join(known)}.")
            _check_kind(name, options[name], usual[name])
        for name, attribute in (("num_warps", "ttg.num-warps"), ("num_ctas", "ttg.num-ctas")):
            if number := get_integer(self.code, attribute):
                options[name] = number
        try:
            return backend, backend.parse_options(options)
        except (AssertionError, TypeError, ValueError) as error:
            raise PlanError(f"Triton refuses the options {options}: {error}.") from None


def _parse_target(text: str) -> GPUTarget:
    backend, _, arch = text.partition(":")
    if backend == "cuda" and _NVIDIA.fullmatch(arch) and int(arch) >= OLDEST_CUDA:
        return GPUTarget("cuda", int(arch), 32)
    if backend == "hip" and re.fullmatch(r"gfx[0-9a-f]{3,4}", arch):
        return GPUTarget("hip", arch, 64 if _WAVES_OF_64.fullmatch(arch) else 32)
    raise PlanError(f"'{text}' is no target.", f"Use one like cuda:90, from cuda:{OLDEST_CUDA} on, or like hip:gfx942.")


def _check_kind(name: str, value: Any, usual: Any) -> None:
    """Triton takes any value, and fails at it later in words of its own."""
    shown = repr(value)[:40]
    if isinstance(usual, bool):
        if not isinstance(value, (bool, int)):
            raise PlanError(f"{name} is True or False, and not {shown}.", f"Use --option {name}={usual}.")
    elif isinstance(usual, int) and (type(value) is not int or abs(value) >= _MOST):
        raise PlanError(f"{name} is a number, and not {shown}.", f"Use --option {name}={usual}.")


def _value(value: Any) -> Any:
    """An option as Triton takes it: text is read as Python reads it, lists of JSON are tuples."""
    if isinstance(value, list):
        return tuple(_value(v) for v in value)
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value
