"""Takes one kernel from IR text to any level, with kperfir's passes or without. Nothing is cached, loaded or run.

Triton's own stages lie between the passes. Like Triton, it takes TTIR as it is: the
stage that makes TTIR does not run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import Language

from kperfir.bridge.asm_lines import on_their_lines
from kperfir.bridge.binary import disassembled
from kperfir.bridge.levels import PASSES, STATES, Route, route
from kperfir.bridge.lower import GpuKernel, lower_to_gpu, lower_to_llvm
from kperfir.bridge.refusal import read_back
from kperfir.bridge.request import SCOPES_ATTRIBUTE, Request
from kperfir.bridge.source import KernelText
from kperfir.bridge.stages import before_translation
from kperfir.bridge.steps import Written, carried, check_records, placed, tagged
from kperfir.bridge.text import generic_text, parse_text
from kperfir.bridge.user_passes import UserPasses
from kperfir.errors import IRError, KperfError, LoweringError, PlanError
from kperfir.ir.attributes import get_text, set_text
from kperfir.ir.foreign import ForeignModule
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.ir.spelled import read_records, spell_gpu, spell_records
from kperfir.passes.registry import bind, names_pass
from kperfir.passes.scopes import Scope, read_scopes, scopes_text
from kperfir.passes.user import Bound
from kperfir.plan import Plan
from kperfir.records import Layout, Table

_OWN_FILE = re.compile(r"/proc/self/fd/\d+")  # what Triton takes for the source of what has no location
_BESIDE = {"ttir": "tag-scopes", "ttgir": "place", "llvm": "to-gpu"}
_TAG = '"kperf.scope:'
_CURE = "Look at an earlier level with --emit, or try another --target."


class _Reached(Exception):
    """The level to show lies inside a stage of Triton's, which ends here."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Pipeline:
    """One kernel on its way.

    Attributes:
        metadata: what Triton's stages say of the kernel, as far as they ran.
        table, layout: of the records, once they are placed and lowered.
        written: scopes of the source, and what became of them.
    """

    def __init__(
        self, source: KernelText, request: Request, generic: bool = False, passes: tuple[Bound, ...] = ()
    ) -> None:
        """Args:
        request: what the passes are to do. generic: print Triton's dialects in generic form.
        passes: of users.
        """
        self.source, self.request, self.generic = source, request, generic
        self.backend, self.options = source.backend_and_options()
        self.target = self.backend.target
        self.user = UserPasses(passes, f"{self.target.backend}:{self.target.arch}", request.regions, request.turns)
        self.metadata: dict[str, Any] = {"target": self.target, **vars(self.options)}
        self.table: Table | None = None
        self.layout: Layout | None = None
        self.written = Written()
        self.stages: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}

    def run(self, way: Route) -> str:
        """The text of the level at the end of the way.

        Raises:
            KperfError: the text cannot be read, or a pass or a stage of Triton's refuses it.
        """
        module = self.high_level(way)
        if isinstance(module, str):
            return module
        try:
            llir = self.low_level(module, way)
        except _Reached as reached:
            return reached.text
        if way.emit == "llir":
            return str(llir)
        assembly = self.stage("ptx" if self.target.backend == "cuda" else "amdgcn", llir)
        return disassembled(self.stage("cubin", assembly)) if way.emit == "sass" else str(assembly)

    def binary(self, passes: tuple[str, ...]) -> tuple[str, bytes]:
        """Assembly and binary.

        Raises:
            KperfError: as `run`.
        """
        nvidia = self.target.backend == "cuda"
        way = Route(passes, "sass" if nvidia else "amdgcn")
        assembly = self.stage("ptx" if nvidia else "amdgcn", self.low_level(self.high_level(way), way))
        return assembly, self.stage("cubin" if nvidia else "hsaco", assembly)

    # --- TTIR and TTGIR

    def high_level(self, way: Route) -> Any:
        """The TTGIR module, or the text to show."""
        state, text = self.source.state, self.source.code
        records = read_module(text) if state == 2 else None
        if records is not None:
            read_records(records)
        module = None if records is not None else self.parsed(text)
        if state == 0:
            if "tag-scopes" in way.passes:
                module = self.tagged(module)
            if way.emit == "ttir":
                return self.printed(module)
            module = self.stage("ttgir", module)
        if "place" in way.passes:
            records = self.placed(module)
        if records is not None:
            if way.emit == "kperf":
                return spell_records(records)
            module = carried(records, self.request, self.context)
        return self.printed(module) if way.emit == "ttgir" else module

    @cached_property
    def context(self) -> Any:
        """Triton's, with all its dialects."""
        context = ir.context()
        ir.load_dialects(context)
        self.backend.load_dialects(context)
        return context

    def parsed(self, text: str) -> Any:
        """The module of the text that was given."""
        try:
            return parse_text(text, self.context)
        except IRError:
            raise IRError("Triton cannot read it.", "Give TTIR or TTGIR that this version of Triton prints.") from None

    def tagged(self, module: Any) -> Any:
        """TTIR with tags, and the scopes they stand for in an attribute."""
        module, self.written = tagged(module, self.user)
        if not self.written.scopes:
            return module
        named = read_module(generic_text(module), with_values=False)
        set_text(named, SCOPES_ATTRIBUTE, scopes_text(self.written.scopes))
        return read_back(print_module(named), module.context)

    def placed(self, module: Any) -> ForeignModule:
        """TTGIR with records."""
        text = generic_text(module)
        written = replace(self.written, scopes=_scopes(text))
        records, self.written = placed(text, module.context, self.user, self.request, written)
        self.table = self.user.tables.table()
        return records

    def printed(self, module: Any) -> str:
        """Text of Triton's dialects."""
        return generic_text(module) if self.generic else str(module)

    # --- from the LLVM dialect on

    def low_level(self, module: Any, way: Route) -> Any:
        """LLVM IR; ends with `_Reached` where the way does inside the stage."""

        def before(module: Any) -> Any:
            if "to-gpu" in way.passes:
                module = self.lowered(module, way)
            if way.emit == "llvm-dialect":
                raise _Reached(self.printed(module))
            return module

        with before_translation(before):
            return self.stage("llir", module)

    def lowered(self, module: Any, way: Route) -> Any:
        gpu: GpuKernel = lower_to_gpu(module, self.user)
        if "place" in way.passes:
            check_records(self.user)
        self.layout, self.table = gpu.layout, self.user.tables.table()
        if way.emit == "kperf-gpu":
            raise _Reached(spell_gpu(gpu.kernel))
        return lower_to_llvm(module, gpu, self.user)

    def stage(self, name: str, module: Any) -> Any:
        """Run one of Triton's stages."""
        if not self.stages:
            self.backend.add_stages(self.stages, self.options, Language.TRITON)
        try:
            made = self.stages[name](module, self.metadata)
            return on_their_lines(made) if name == "ptx" and self.layout else made
        except (KperfError, _Reached):
            raise
        except Exception as error:
            said = " ".join(str(error).partition("Repro command")[0].split())[:200]
            target = f"{self.target.backend}:{self.target.arch}"
            raise LoweringError(f"Triton cannot make {name} of it for {target} ({said}).", _CURE) from None


def _scopes(text: str) -> tuple[Scope, ...]:
    """Scopes that the tags of a module name."""
    listed = get_text(text, SCOPES_ATTRIBUTE)
    if listed is not None:
        return read_scopes(listed)
    if _TAG in text:
        raise IRError(
            f"It has tags of scopes, but no attribute {SCOPES_ATTRIBUTE} that names them.",
            "Make it with `kperfir opt --pass tag-scopes`.",
        )
    return ()


def _check_reached(passes: tuple[Bound, ...], state: int, way: Route) -> None:
    """Users' passes run beside kperfir's own step at their level, which has to be on the way."""
    for bound in passes:
        if state >= 2:
            what = f"{bound} cannot run on {STATES[state]}, whose table of records is not in the file."
            raise PlanError(what, "Give the TTIR or TTGIR from before.")
        beside = _BESIDE[bound.point.level]
        if beside not in way.passes:
            raise PlanError(f"{bound} runs beside {beside}, which does not run on this way to {way.emit}.", _CURE)


def run(
    text: str,
    target: str | None,
    options: dict[str, Any],
    plan: str,
    passes: list[str],
    emit: str | None,
    generic: bool,
) -> dict[str, Any]:
    """The work of `kperfir opt`: the text, and the findings as sentences.

    Raises:
        KperfError: as `Pipeline.run`, or what was asked for makes no sense.
    """
    source = KernelText(text, target, options)
    users = [name for name in passes if name not in PASSES and names_pass(name)]
    way = route(source.state, tuple(n for n in passes if n not in users), emit, source.gpu_target().backend)
    bound = bind(users)
    _check_reached(bound, source.state, way)
    pipeline = Pipeline(source, Request.of(Plan.parse(plan)), generic, bound)
    result = _OWN_FILE.sub("-", pipeline.run(way))
    return {"text": result, "findings": [str(finding) for finding in pipeline.user.findings]}
