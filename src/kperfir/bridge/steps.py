"""kperfir's own steps on Triton's modules and users' passes around them, as a recording and `kperfir opt` run them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from kperfir.bridge.refusal import read_back
from kperfir.bridge.request import MODULE_ATTRIBUTE, SCOPES_ATTRIBUTE, SITES_ATTRIBUTE, Request, pieces_text
from kperfir.bridge.text import generic_text
from kperfir.bridge.user_passes import UserPasses
from kperfir.errors import LoweringError
from kperfir.fidelity import Kept
from kperfir.ir.attributes import get_text, set_text
from kperfir.ir.foreign import ForeignModule
from kperfir.ir.locations import Locations
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.passes.carrier import lower_records
from kperfir.passes.explicit import Marker, find_markers
from kperfir.passes.fidelity import found_operations, held_operations, kept_of
from kperfir.passes.instrument import instrument
from kperfir.passes.place import place
from kperfir.passes.scalars import has_scalars, take_back
from kperfir.passes.scopes import Scope, has_markers, not_carried, scopes_text, tag_scopes
from kperfir.passes.user import When
from kperfir.records import Table

# Nobody but users' passes and turns looks at values, and without them a module is read in half the time; where they
# stay text, they are told by their names, which come again in partitions.
_ISOLATED = "ttg.warp_specialize"


@dataclass(frozen=True)
class Written:
    """Scopes of a kernel's source, those of passes among them, and what is needed to tell what became of them.

    Attributes:
        tagged: TTIR with their tags; None where there was none (Gluon).
        placed: TTGIR with records; None until then.
    """

    scopes: tuple[Scope, ...] = ()
    tagged: ForeignModule | None = None
    placed: ForeignModule | None = None

    def kept(self, table: Table) -> tuple[Kept, ...]:
        """What became of what the scopes held. table: of the records."""
        if not self.scopes:
            return kept_of((), (), (), table)
        held = held_operations(self.tagged, Locations.of(self.tagged)) if self.tagged else ()
        found = found_operations(self.placed, Locations.of(self.placed), table) if self.placed else ()
        return kept_of(held, found, self.scopes, table)


def tagged(source: Any, user: UserPasses) -> tuple[Any, Written]:
    """TTIR whose scopes are location tags, and the scopes. Without scopes and passes nothing is read.

    Raises:
        ScopeError: scopes do not balance.
        PassError: a user's pass failed.
    """
    source, scopes = user.on_ttir(source, "before", 0)
    text = generic_text(source)
    module = None
    if has_markers(text):
        module = read_module(text, with_values=False)
        found = tag_scopes(module, len(scopes))
        scopes += found.scopes
        user.findings.extend(found.findings)
        source = read_back(print_module(module), source.context)
    if user.at("ttir", "after"):
        source, behind = user.on_ttir(source, "after", len(scopes))
        module, scopes = None, scopes + behind
    if not scopes:
        return source, Written()
    module = module or read_module(generic_text(source), with_values=False)
    return source, Written(scopes, module)


def placed(
    text: str, context: Any, user: UserPasses, request: Request, written: Written
) -> tuple[ForeignModule, Written]:
    """TTGIR with records, or with the bounds of an instrumentation; and its scopes.

    Args:
        text: the module in generic form.
        written: what its tags stand for; where the words of `kl` stand in it, as in Gluon, the scopes are found.

    Raises:
        ScopeError: scopes do not balance.
        LoweringError: there is nothing to record.
        PassError: a user's pass failed.
    """
    marked, scalars, turns = has_markers(text), has_scalars(text), request.turns()
    asked = any(user.at("ttgir", when) for when in get_args(When))
    linked = marked or scalars or turns is not None or _ISOLATED in text or asked
    module = read_module(text, with_values=linked)
    if scalars:
        take_back(module, Locations.of(module))
    user.on_ttgir(module, "before", context)
    locations = Locations.of(module)
    scopes = written.scopes
    markers: tuple[Marker, ...] = ()
    if scalars or marked:
        found_scopes, markers = find_markers(module, locations, len(scopes))
        scopes += found_scopes
    if request.addresses:
        user.on_ttgir(module, "after", context)
        user.findings.extend(instrument(module, request.addresses, [m.op for m in markers]))
        user.findings.extend(not_carried(scope) for scope in scopes if scope.scalar)
        if get_text(module.root.attributes_text, SCOPES_ATTRIBUTE) is None:
            set_text(module, SCOPES_ATTRIBUTE, scopes_text(scopes))
        return module, Written()
    holds = request.strategy != "aggregate"
    found = place(module, locations, request.regions, scopes, markers, turns, user.tables, holds)
    user.findings.extend(found.findings)
    user.on_ttgir(module, "after", context)
    if not user.at("llvm", "before"):
        check_records(user)
    set_text(module, SITES_ATTRIBUTE, pieces_text(user.tables.table()))
    return module, replace(written, scopes=scopes, placed=module)


def carried(module: ForeignModule, request: Request, context: Any) -> Any:
    """Triton's module of one with records, which go on as carriers."""
    lower_records(module)
    if get_text(module.root.attributes_text, MODULE_ATTRIBUTE) is None:
        set_text(module, MODULE_ATTRIBUTE, request.to_json())
    return read_back(print_module(module), context)


def check_records(user: UserPasses) -> None:
    """Check that anything is recorded.

    Raises:
        LoweringError: nothing is.
    """
    if not user.tables.has_sites and not user.tables.has_accesses:
        raise LoweringError(
            "It has nothing to record: no scope is left in it and no rule picks an operation.",
            "Ask for regions=auto, or put a scope into it.",
        )
