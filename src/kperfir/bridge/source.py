"""A kernel given as text of TTIR or TTGIR: what it is, for which target, with which options."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from kperfir.errors import IRError, PlanError
from kperfir.ir.chunks import PREFIX as CARRIER
from kperfir.ir.spelled import holds_records

_COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
_FUNCTION = re.compile(r'\btt\.func\b|"tt\.func"')
_WARPS = re.compile(r'"?ttg\.num-warps"? = (\d+)')
_CTAS = re.compile(r'"?ttg\.num-ctas"? = (\d+)')
_TARGET = re.compile(r'"?ttg\.target"? = "([^"]*)"')
_WAVES_OF_64 = re.compile(r"gfx9\w{2}")
_OLDEST_NVIDIA = 75


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
            IRError: it is neither TTIR nor TTGIR.
        """
        if not _FUNCTION.search(self.code):
            raise IRError("It holds no tt.func, so it is neither TTIR nor TTGIR.", "Give text that Triton printed.")
        if holds_records(self.code):
            return 2
        if CARRIER in self.code:
            return 3
        return int(bool(_WARPS.search(self.code)))

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
        known = sorted(f.name for f in fields(type(backend.parse_options({}))))
        options = {name: _value(value) for name, value in self.options.items()}
        for name in options:
            if name not in known:
                raise PlanError(f"Triton has no option '{name}' for this target.", f"It has {', '.join(known)}.")
        for name, pattern in (("num_warps", _WARPS), ("num_ctas", _CTAS)):
            if found := pattern.search(self.code):
                options[name] = int(found.group(1))
        try:
            return backend, backend.parse_options(options)
        except (AssertionError, TypeError, ValueError) as error:
            raise PlanError(f"Triton refuses the options {options}: {error}.") from None


def _parse_target(text: str) -> GPUTarget:
    backend, _, arch = text.partition(":")
    if backend == "cuda" and arch.isascii() and arch.isdigit() and int(arch) >= _OLDEST_NVIDIA:
        return GPUTarget("cuda", int(arch), 32)
    if backend == "hip" and re.fullmatch(r"gfx[0-9a-f]{3,4}", arch):
        return GPUTarget("hip", arch, 64 if _WAVES_OF_64.fullmatch(arch) else 32)
    raise PlanError(
        f"'{text}' is no target.", f"Use one like cuda:90, from cuda:{_OLDEST_NVIDIA} on, or like hip:gfx942."
    )


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
