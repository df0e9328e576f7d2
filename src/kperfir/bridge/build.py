"""Build the instrumented twin of a kernel that Triton has compiled plain.

The plain kernel stays in Triton's caches and is what runs whenever nothing is
recorded; the twin is compiled from the same source with the same options, under a
key of its own.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import triton

from kperfir.bridge import compat
from kperfir.bridge.occupancy import DeviceLimits, ctas_per_sm, ring_room
from kperfir.bridge.request import Request
from kperfir.bridge.stages import METADATA, instrumenting
from kperfir.capture.schema import Problem, Resources
from kperfir.errors import BridgeError, KperfError, LoweringError
from kperfir.passes.finding import Finding
from kperfir.passes.user import Bound
from kperfir.plan import Plan
from kperfir.records import Layout, Table

_MOST_SHARED_SLOTS = 1024  # what a kernel leaves free may be much more, and all of it is copied out
_FALLBACK = "It runs as it is, without records."


@dataclass(frozen=True)
class Instrumented:
    """An instrumented kernel and how to read what it writes."""

    kernel: Any
    table: Table
    layout: Layout
    findings: tuple[Finding, ...]


class Built(Protocol):
    """A build whose resources are known."""

    @property
    def resources(self) -> Resources:
        """What it takes of the GPU."""
        ...


B = TypeVar("B", bound=Built)


class _Build(NamedTuple):
    instrumented: Instrumented
    resources: Resources


@dataclass(frozen=True)
class Twin:
    """The instrumented build of one kernel, or the reasons why there is none.

    Attributes:
        kernel: Triton's CompiledKernel; None where the plain one has to do.
        place_reason: why the rings lie where they do, in words.
    """

    kernel: Any | None
    table: Table = field(default_factory=lambda: Table((), ()))
    layout: Layout = field(default_factory=lambda: Layout(1, 2))
    place_reason: str = ""
    plain: Resources = field(default_factory=Resources)
    instrumented: Resources = field(default_factory=Resources)
    problems: tuple[Problem, ...] = ()


def compile_instrumented(
    source: Any, target: Any, options: dict[str, Any], request: Request, passes: tuple[Bound, ...] = ()
) -> Instrumented:
    """Compile a source with records, for any target; nothing is loaded or run.

    Args:
        source: Triton's ASTSource or GluonASTSource. target: its GPUTarget.
        passes: of users; they become part of the request.

    Raises:
        KperfError: kperfir cannot instrument it.
        Exception: whatever Triton raises.
    """
    request = replace(request, passes=tuple(bound.key for bound in passes))
    with instrumenting(request, passes, f"{target.backend}:{target.arch}") as compile_:
        try:
            kernel = triton.compile(source, target=target, options=options | compat.key_options(request.digest()))
        except Exception as error:
            raise compile_.error or error from None
    data = getattr(kernel.metadata, METADATA, None)
    if data is None:
        raise LoweringError("Triton compiled it without asking kperfir.", "Run `kperfir doctor`.")
    findings = tuple(Finding(**f) for f in data["findings"])
    return Instrumented(kernel, Table.from_json(data["table"]), Layout(**data["layout"]), findings)


def instrument(plain: Any, plan: Plan, limits: DeviceLimits, passes: tuple[Bound, ...] = ()) -> Twin:
    """Build and load the twin of a plain kernel that is loaded.

    It never raises for a kernel: what cannot be instrumented comes back without a
    kernel and with the reason as a problem.
    """
    name = plain.name
    try:
        return contextvars.copy_context().run(_instrument, plain, plan, limits, passes)
    except Exception as error:
        return Twin(None, problems=(not_recorded(name, error),), plain=_resources(plain, limits))


def _instrument(plain: Any, plan: Plan, limits: DeviceLimits, passes: tuple[Bound, ...]) -> Twin:
    if not hasattr(plain.src, "fn"):
        raise BridgeError("It was compiled from IR text, and has no source to compile again.")
    options = compat.compile_options(plain)
    before = _resources(plain, limits)

    def build(request: Request) -> _Build:
        built = compile_instrumented(plain.src, plain.metadata.target, options, request, passes)
        return _Build(built, _load(built.kernel, limits))

    (built, after), reason = settle(plan, before, limits, build)
    problems = [Problem(f.code, f"{plain.name}: {f.where}", f.what, f.cure) for f in built.findings]
    if not plan.addresses and (fewer := occupancy_lost(before, after)):
        cure = "Its times are those of fewer CTAs; record fewer regions."
        problems.append(Problem("occupancy", plain.name, f"With records {fewer}.", cure))
    return Twin(built.kernel, built.table, built.layout, reason, before, after, tuple(problems))


def settle(plan: Plan, before: Resources, limits: DeviceLimits, build: Callable[[Request], B]) -> tuple[B, str]:
    """Build with the rings where the plan and the plain kernel allow it.

    Args:
        before: of the plain kernel. build: makes a build for a request.

    Returns:
        the build, and why its rings lie where they do, in words.

    Raises:
        LoweringError: shared memory was asked for and has no room.
    """
    request, reason = choose(plan, before, limits)
    if request.place == "shared" and plan.buffer == "auto":
        made, worse = _try_shared(build, request, before)
        if made is not None:
            return made, reason
        request, reason = replace(request, place="global"), f"global memory: {worse}"
    return build(request), reason


def _try_shared(build: Callable[[Request], B], request: Request, before: Resources) -> tuple[B | None, str]:
    """The build with rings in shared memory, or why it will not do."""
    try:
        made = build(request)
    except KperfError:
        raise
    except Exception as error:  # of Triton, ptxas or the driver: global memory takes nothing that may be scarce
        return None, f"the build with rings in shared memory failed ({_one_line(error)})"
    if fewer := occupancy_lost(before, made.resources):
        return None, f"with rings in shared memory {fewer}"
    return made, ""


def choose(plan: Plan, plain: Resources, limits: DeviceLimits) -> tuple[Request, str]:
    """Where the rings go and how long they are, from what the plain kernel leaves free.

    Raises:
        LoweringError: shared memory was asked for and has no room.
    """
    request = Request.of(plan)
    if plan.addresses:
        return request, "global memory: addresses are written to it"
    if plan.strategy == "flush":
        return request, "global memory: records are flushed to it"
    if plan.strategy == "aggregate" and plan.buffer != "global":
        return request, "shared memory: sums are small"
    if plan.buffer == "global":
        return replace(request, place="global"), "global memory: asked for"
    warps = plain.warps or 1
    ring = request.layout(warps)
    room, why = ring_room(limits, warps, plain.registers or 0, plain.shared_bytes or 0, ring.warps * ring.record_bytes)
    wanted = plan.slots or room
    if room and wanted <= room:
        slots = plan.slots or min(room, _MOST_SHARED_SLOTS)
        return replace(request, place="shared", slots=slots), f"shared memory: {why}"
    if plan.buffer == "shared":
        raise LoweringError(
            f"Rings in shared memory were asked for, but there is no room: {why}.", "Use buffer=auto or global."
        )
    detail = f"{plan.slots} slots a warp were asked for; {why}" if plan.slots else why
    return replace(request, place="global"), f"global memory: {detail}"


def _load(kernel: Any, limits: DeviceLimits) -> Resources:
    """Load the binary, so that a failure shows here and not in the user's launch."""
    kernel._init_handles()
    return _resources(kernel, limits)


def _resources(kernel: Any, limits: DeviceLimits) -> Resources:
    registers = getattr(kernel, "n_regs", None)
    shared, warps = kernel.metadata.shared, kernel.metadata.num_warps
    ctas = ctas_per_sm(limits, warps, registers, shared) if registers is not None else None
    return Resources(shared, registers, getattr(kernel, "n_spills", None), warps, ctas)


def occupancy_lost(before: Resources, after: Resources) -> str:
    """How many CTAs fit no more, in words; empty where none is lost or it is not known."""
    if before.ctas_per_sm is None or after.ctas_per_sm is None or after.ctas_per_sm >= before.ctas_per_sm:
        return ""
    return f"only {after.ctas_per_sm} of {before.ctas_per_sm} CTAs fit on an SM"


def not_recorded(name: str, error: BaseException) -> Problem:
    """The problem to write for a kernel that runs plain because of an error."""
    if isinstance(error, KperfError):
        return Problem("not-recorded", name, error.what, f"{error.cure} {_FALLBACK}".strip())
    return Problem("not-recorded", name, f"Recording it failed: {_one_line(error)}.", _FALLBACK)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{type(error).__name__}: {text[:300]}"
