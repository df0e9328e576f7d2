"""Takes one kernel from IR text to any level, with kperfir's passes or without. Nothing is cached, loaded or run.

Triton's own stages lie between the passes. Like Triton, it takes TTIR as it is: the
stage that makes TTIR does not run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import Language

from kperfir.bridge.binary import disassembled
from kperfir.bridge.levels import PASSES, STATES, Route, route
from kperfir.bridge.lower import GpuKernel, lower_to_gpu, lower_to_llvm
from kperfir.bridge.request import MODULE_ATTRIBUTE, SCOPES_ATTRIBUTE, SITES_ATTRIBUTE, Request, pieces_text
from kperfir.bridge.source import KernelText
from kperfir.bridge.stages import before_translation
from kperfir.bridge.text import generic_text, parse_text
from kperfir.bridge.user_passes import UserPasses
from kperfir.errors import IRError, KperfError, LoweringError, PlanError
from kperfir.ir.attributes import get_text, set_text
from kperfir.ir.foreign import ForeignModule
from kperfir.ir.locations import Locations
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.ir.spelled import read_records, spell_gpu, spell_records
from kperfir.passes.carrier import lower_records
from kperfir.passes.explicit import find_markers
from kperfir.passes.instrument import instrument
from kperfir.passes.place import place
from kperfir.passes.registry import bind, names_pass
from kperfir.passes.scopes import Scope, has_markers, read_scopes, scopes_text, tag_scopes
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
        self.user = UserPasses(passes, f"{self.target.backend}:{self.target.arch}", request.regions)
        self.metadata: dict[str, Any] = {"target": self.target, **vars(self.options)}
        self.table: Table | None = None
        self.layout: Layout | None = None
        self.scopes: tuple[Scope, ...] = ()
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
            module = self.carried(records)
        return self.printed(module) if way.emit == "ttgir" else module

    def parsed(self, text: str) -> Any:
        """The module of a text."""
        context = ir.context()
        ir.load_dialects(context)
        self.backend.load_dialects(context)
        self.context = context
        try:
            return parse_text(text, context)
        except IRError:
            raise IRError("Triton cannot read it.", "Give TTIR or TTGIR that this version of Triton prints.") from None

    def tagged(self, module: Any) -> Any:
        module, self.scopes = self.user.on_ttir(module, "before", 0)
        text = generic_text(module)
        if has_markers(text):
            foreign = read_module(text, with_values=False)
            self.scopes += tag_scopes(foreign, len(self.scopes)).scopes
            module = self.read_back(foreign)
        module, scopes = self.user.on_ttir(module, "after", len(self.scopes))
        self.scopes += scopes
        if not self.scopes:
            return module
        named = read_module(generic_text(module), with_values=False)
        set_text(named, SCOPES_ATTRIBUTE, scopes_text(self.scopes))
        return self.read_back(named)

    def placed(self, module: Any) -> ForeignModule:
        text = generic_text(module)
        foreign, user = read_module(text), self.user
        user.on_ttgir(foreign, "before", module.context)
        locations = Locations.of(foreign)
        explicit = has_markers(text)
        scopes, markers = find_markers(foreign, locations) if explicit else (_scopes(foreign, text), ())
        request = self.request
        if request.addresses:
            user.on_ttgir(foreign, "after", module.context)
            instrument(foreign, request.addresses, [m.op for m in markers])
            return foreign
        place(foreign, locations, request.regions, scopes, markers, request.counts_turns, user.tables)
        user.on_ttgir(foreign, "after", module.context)
        self.table = user.tables.table()
        if not self.table.sites:
            raise LoweringError("There is nothing to record: no scope is left and no rule picks an operation.", _CURE)
        set_text(foreign, SITES_ATTRIBUTE, pieces_text(self.table))
        return foreign

    def carried(self, records: ForeignModule) -> Any:
        lower_records(records)
        if get_text(records.root.attributes_text, MODULE_ATTRIBUTE) is None:
            set_text(records, MODULE_ATTRIBUTE, self.request.to_json())
        return self.read_back(records)

    def read_back(self, module: ForeignModule) -> Any:
        """Triton's module of one that a pass changed."""
        return self.parsed(print_module(module))

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
        self.layout, self.table = gpu.layout, self.table or self.user.tables.table()
        if way.emit == "kperf-gpu":
            raise _Reached(spell_gpu(gpu.kernel))
        return lower_to_llvm(module, gpu, self.user)

    def stage(self, name: str, module: Any) -> Any:
        """Run one of Triton's stages."""
        if not self.stages:
            self.backend.add_stages(self.stages, self.options, Language.TRITON)
        try:
            return self.stages[name](module, self.metadata)
        except (KperfError, _Reached):
            raise
        except Exception as error:
            said = " ".join(str(error).partition("Repro command")[0].split())[:200]
            target = f"{self.target.backend}:{self.target.arch}"
            raise LoweringError(f"Triton cannot make {name} of it for {target} ({said}).", _CURE) from None


def _scopes(module: ForeignModule, text: str) -> tuple[Scope, ...]:
    """Scopes that the tags of a module name."""
    listed = get_text(module.root.attributes_text, SCOPES_ATTRIBUTE)
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
) -> str:
    """The work of `kperfir opt`.

    Raises:
        KperfError: as `Pipeline.run`, or what was asked for makes no sense.
    """
    source = KernelText(text, target, options)
    users = [name for name in passes if name not in PASSES and names_pass(name)]
    way = route(source.state, tuple(n for n in passes if n not in users), emit, source.gpu_target().backend)
    bound = bind(users)
    _check_reached(bound, source.state, way)
    result = Pipeline(source, Request.of(Plan.parse(plan)), generic, bound).run(way)
    return _OWN_FILE.sub("-", result)
