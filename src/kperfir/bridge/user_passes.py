"""Runs users' passes at their points of one instrumented compile, and checks the kernel before and after each."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from xdsl.ir import Operation

from kperfir.bridge.refusal import refusal_of
from kperfir.bridge.text import generic_text, parse_text
from kperfir.errors import IRError, KperfError, PassError
from kperfir.ir.chunks import ChunkedKernel, read_kernel
from kperfir.ir.foreign import ForeignModule
from kperfir.ir.locations import Locations
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.passes.check import broken_link, first_change, without_locations
from kperfir.passes.context import PassContext, Places, describe
from kperfir.passes.finding import Finding
from kperfir.passes.iterations import IterationNumbers
from kperfir.passes.places import ChunkPlaces, NoPlaces, RecordPlaces, TagPlaces
from kperfir.passes.scopes import Scope
from kperfir.passes.tables import TableBuilder
from kperfir.passes.user import Bound, Level, Point, When

_CURE = "Repair the pass, or leave it out."


@dataclass(frozen=True)
class UserPasses:
    """The passes of one compile.

    Attributes:
        target: for example "cuda:90". rules: of the recording.
        turns: makes what numbers of turns the records of one pass in loops get.
        tables: grows by what passes place. findings: grows by what they tell.
    """

    passes: tuple[Bound, ...] = ()
    target: str = ""
    rules: tuple[str, ...] = ()
    turns: Callable[[], IterationNumbers | None] = lambda: None
    tables: TableBuilder = field(default_factory=TableBuilder)
    findings: list[Finding] = field(default_factory=list)

    def at(self, level: Level, when: When) -> tuple[Bound, ...]:
        """Those that run at a point, in order."""
        return tuple(b for b in self.passes if b.point == Point(level, when))

    def skip_ttir(self) -> None:
        """Tell of passes that have nothing to run on: a Gluon kernel has no TTIR."""
        for bound in self.passes:
            if bound.point.level == "ttir":
                what = "A Gluon kernel has no TTIR, so this pass did not run."
                self.findings.append(Finding("pass-skipped", str(bound), what, "Let it run at ttgir."))

    def on_ttir(self, source: Any, when: When, first: int) -> tuple[Any, tuple[Scope, ...]]:
        """Triton's module with the tags of passes, and the scopes that these stand for.

        Args:
            first: number of the first new scope.

        Raises:
            PassError: a pass failed, or did more than tag.
        """
        scopes: list[Scope] = []
        for bound in self.at("ttir", when):
            module = read_module(generic_text(source))
            locations = Locations.of(module)
            places = TagPlaces(locations, first + len(scopes))
            self._check_text(bound, print_module(module), source.context, "was given")
            before = without_locations(module)
            self._run(bound, module, locations, places)
            self._check_links(bound, module, locations)
            if changed := first_change(before, module):
                op, line = changed
                what = f"changed {describe(op)} ({_source(locations, op.location_text)}), which reads {line} now"
                raise PassError(f"{bound} {what}.", "At TTIR a pass reads and tags; let it run at ttgir to change.")
            module.epilogue[:] = [line for line in module.epilogue if line.strip()] + locations.lines() + [""]
            source = self._check_text(bound, self._printed(bound, module, False), source.context, "left")
            scopes += places.scopes
        return source, tuple(scopes)

    def on_ttgir(self, module: ForeignModule, when: When, context: Any) -> None:
        """Run passes on a module that may hold records.

        Raises:
            PassError: a pass failed, or left a module that does not verify.
        """
        for bound in self.at("ttgir", when):
            locations = Locations.of(module)
            self._check_text(bound, print_module(module, without_records=True), context, "was given")
            self._run(bound, module, locations, RecordPlaces(self.tables, self.turns()))
            self._check_links(bound, module, locations)
            self._check_text(bound, self._printed(bound, module, True), context, "left")

    def before_lowering(self, kernel: ChunkedKernel, context: Any) -> None:
        """Run passes on a kernel in the LLVM dialect, whose records are operations still.

        Raises:
            PassError: as `on_ttgir`.
        """
        for bound in self.at("llvm", "before"):
            before = len(kernel.carriers)
            self._on_llvm(bound, kernel, ChunkPlaces(kernel, self.tables), context)
            if self.turns() is not None and len(kernel.carriers) > before:
                what = (
                    "Loops are branches in the LLVM dialect, so its records are written in every turn, without version."
                )
                self.findings.append(Finding("pass-turns", str(bound), what, "Let it run at ttgir."))

    def after_lowering(self, text: str, context: Any) -> str:
        """The lowered module after the passes that run on it.

        Raises:
            PassError: as `on_ttgir`.
        """
        for bound in self.at("llvm", "after"):
            kernel = read_kernel(text)
            self._on_llvm(bound, kernel, NoPlaces(), context)
            text = kernel.text()
        return text

    def _on_llvm(self, bound: Bound, kernel: ChunkedKernel, places: Places, context: Any) -> None:
        self._check_text(bound, kernel.text(), context, "was given")
        self._run(bound, kernel, Locations.read((*kernel.before, *kernel.after)), places)
        self._check_text(bound, kernel.text(), context, "left")

    # --- one pass

    def _run(self, bound: Bound, module: Any, locations: Locations, places: Places) -> None:
        context = PassContext(self.target, self.rules, locations, str(bound), places, self.findings)
        try:
            found = copy.deepcopy(bound.user_pass).run(module, context)
        except KperfError as error:
            what = error.what if error.what.startswith(str(bound)) else f"{bound}: {error.what}"
            raise PassError(what, error.cure or _CURE) from error
        except KeyboardInterrupt as error:  # the user's, or the pass's own
            error.add_note(f"{bound} was running")
            raise
        except (Exception, SystemExit) as error:
            where = _where(error.__traceback__, bound, locations)
            raise PassError(f"{bound} raised {_named(error)}{where}.", _CURE) from error
        if found is not None:
            what = f"{bound} returned {type(found).__name__}; a pass changes the module in place and returns None."
            raise PassError(what, _CURE)

    def _printed(self, bound: Bound, module: ForeignModule, without_records: bool) -> str:
        try:
            return print_module(module, without_records)
        except (IRError, LookupError, TypeError, AttributeError) as error:
            raise PassError(f"{bound} left a module that cannot be printed: {_named(error)}.", _CURE) from error

    def _check_links(self, bound: Bound, module: ForeignModule, locations: Locations) -> None:
        if broken := broken_link(module):
            op, what = broken
            place = _source(locations, str(getattr(op, "location_text", "")))
            raise PassError(f"{bound} left {describe(op)} ({place}), which {what}.", _CURE)

    def _check_text(self, bound: Bound, text: str, context: Any, verb: str) -> Any:
        """The module as Triton reads and verifies it."""
        try:
            return parse_text(text, context)
        except IRError as error:
            why = refusal_of(text, context)
            raise PassError(f"{bound} {verb} a module that Triton refuses: {why}.", _CURE) from error


def _where(trace: TracebackType | None, bound: Bound, locations: Locations) -> str:
    """Where a pass raised: its innermost line, and the operation that it had in hand there."""
    file = getattr(bound.user_pass.run, "__code__", None)
    own = [f for f in traceback.walk_tb(trace) if file is None or f[0].f_code.co_filename == file.co_filename]
    if not own:
        return ""
    frame, line = own[-1]
    where = f" at {frame.f_code.co_filename}:{line}"
    ops = [v for v in frame.f_locals.values() if isinstance(v, Operation)]
    if not ops:
        return where
    place = _source(locations, str(getattr(ops[-1], "location_text", "")))
    return f"{where}, at {describe(ops[-1])} ({place})"


def _source(locations: Locations, location: str) -> str:
    file, line = locations.source(location)
    return f"{file}:{line}" if file else "source unknown"


def _named(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
