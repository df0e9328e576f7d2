"""Compiles a kernel plain and with records, and reads from the binaries what they cost. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kperfir.bridge.architectures import architecture_limits
from kperfir.bridge.binary import Usage, amd_usage, nvidia_usage
from kperfir.bridge.build import choose, occupancy_lost, settle
from kperfir.bridge.cost import Cost, Inspection
from kperfir.bridge.levels import PASSES, STATES
from kperfir.bridge.occupancy import MIN_SLOTS, DeviceLimits, ctas_per_sm
from kperfir.bridge.pipeline import Pipeline
from kperfir.bridge.request import Request
from kperfir.bridge.shares import shares_of
from kperfir.bridge.source import KernelText
from kperfir.capture.schema import Resources
from kperfir.errors import BridgeError, IRError, LoweringError
from kperfir.fidelity import Kept, doubt
from kperfir.plan import Plan
from kperfir.records import Table

_COARSER = (("warp-group", 4), ("cta", 0))


@dataclass(frozen=True)
class _Measured:
    """One build: its cost, its records, the slots of a ring, what was found; no records in the plain one."""

    cost: Cost
    sites: int = 0
    slots: int = 0
    findings: tuple[str, ...] = ()
    binary: bytes = b""
    table: Table | None = None
    kept: tuple[Kept, ...] = ()

    @property
    def resources(self) -> Resources:
        """As the rules for the place of rings want them."""
        cost = self.cost
        return Resources(cost.shared_bytes, cost.registers, cost.local_bytes // 4, cost.warps, cost.ctas_per_sm)


class _Inspector:
    def __init__(self, source: KernelText) -> None:
        if source.state > 1:
            raise IRError(f"It holds {STATES[source.state]}, so its plain kernel is not known.", "Give it plain.")
        self.source = source
        target = source.gpu_target()
        self.limits = architecture_limits(target.backend, target.arch)
        self.target = f"{target.backend}:{target.arch}"
        # scopes are taken out of the plain kernel as well
        self.plain = self.build(Request.of(Plan()), tuple(PASSES[: 1 - source.state]))

    def build(self, request: Request, passes: tuple[str, ...] | None = None) -> _Measured:
        pipeline = Pipeline(self.source, request)
        chosen = PASSES[self.source.state :] if passes is None else passes
        assembly, binary = pipeline.binary(chosen)
        usage = amd_usage(assembly, binary) if pipeline.target.backend == "hip" else nvidia_usage(binary)
        sites = len(pipeline.table.sites) + len(pipeline.table.accesses) if pipeline.table else 0
        slots = pipeline.layout.slots if pipeline.layout else 0
        cost = _cost(usage, pipeline.metadata, self.limits)
        findings = tuple(str(finding) for finding in pipeline.user.findings)
        kept = pipeline.written.kept(pipeline.table) if pipeline.table else ()
        return _Measured(cost, sites, slots, findings, binary, pipeline.table, kept)

    def planned(self, plan: Plan) -> tuple[_Measured, str]:
        """The build that a recording with this plan makes, and why its rings lie where they do."""
        if self.limits is None:
            request = Request.of(plan)
            return self.build(request), f"{request.place} memory: what an SM of {self.target} holds is not known here"
        if plan.buffer != "shared":
            return settle(plan, self.plain.resources, self.limits, self.build)
        try:
            request, reason = choose(plan, self.plain.resources, self.limits)
        except LoweringError as error:
            return self.build(Request.of(plan)), f"shared memory, where a recording refuses them: {error.what}"
        return self.build(request), reason

    def proposal(self, plan: Plan, made: _Measured) -> str:
        """The first other plan, in the order of what is lost by it, that keeps as many CTAs."""
        for other in _others(plan, made.slots, self.plain.cost.warps):
            try:
                built, _ = self.planned(other)
            except LoweringError:
                continue
            if not occupancy_lost(self.plain.resources, built.resources):
                return str(other)
        return ""


def _others(plan: Plan, slots: int, warps: int) -> Iterator[Plan]:
    """Plans that take less: fewer slots, then fewer warps that record, then global memory."""
    if plan.buffer in ("auto", "shared"):
        while (slots := slots // 2) >= MIN_SLOTS:
            yield replace(plan, slots=slots)
    for granularity, step in _COARSER:
        if warps > 1 and 0 < plan.warps_per_writer < (step or warps):
            yield replace(plan, granularity=granularity)
    if plan.buffer in ("auto", "shared"):
        yield replace(plan, buffer="global")


def _cost(usage: Usage, metadata: dict[str, Any], limits: DeviceLimits | None) -> Cost:
    shared, warps = metadata["shared"], metadata["num_warps"]
    ctas = ctas_per_sm(limits, warps, usage.registers, shared) if limits else None
    return Cost(
        usage.registers,
        usage.scalar_registers,
        usage.local_bytes,
        shared,
        warps,
        ctas,
        usage.code_bytes,
        usage.instructions,
    )


def run(
    text: str, target: str | None, options: dict[str, Any], plan: str, metadata: dict[str, Any], binary: str
) -> dict[str, Any]:
    """The work of `kperfir inspect` for one kernel: an `Inspection` as a dictionary.

    Args:
        metadata: of an entry of Triton's cache, else empty; the compile options are read from it.
        binary: path of the entry's cubin, to compare with; else empty.

    Raises:
        KperfError: the kernel cannot be compiled, plain or with records.
    """
    source = KernelText.of_metadata(text, target, metadata) if metadata else KernelText(text, target, options)
    inspector, asked = _Inspector(source), Plan.parse(plan)
    made, reason = inspector.planned(asked)
    warnings = _differs(inspector.plain.cost, binary, metadata)
    proposal = ""
    if fewer := occupancy_lost(inspector.plain.resources, made.resources):
        proposal = inspector.proposal(asked, made)
        warnings = (f"With records {fewer}.", *warnings)
    assert made.table is not None
    found = shares_of(0, inspector.target.partition(":")[0], made.binary, made.kept, made.table)
    joined = zip_longest(made.kept, found.shares)
    doubts = tuple(" ".join(told) for kept, share in joined if (told := doubt(kept, share)))
    return asdict(
        Inspection(
            target=inspector.target,
            plain=inspector.plain.cost,
            instrumented=made.cost,
            sites=made.sites,
            place_reason=reason,
            warnings=(*warnings, *doubts),
            proposal=proposal,
            findings=made.findings,
            fidelity=made.kept,
            shares=found.shares,
            absent=found.absent,
        )
    )


def _differs(plain: Cost, binary: str, metadata: dict[str, Any]) -> tuple[str, ...]:
    """A cache may have been filled by another Triton, or with another environment."""
    if not binary:
        return ()
    try:
        usage = nvidia_usage(Path(binary).read_bytes())
    except (BridgeError, OSError):
        return (f"The kernel in the cache cannot be compared: {binary} is no cubin that can be read.",)
    if (usage.registers, usage.instructions) == (plain.registers, plain.instructions):
        return ()
    made_by = metadata.get("triton_version", "an unknown version")
    return (
        f"The kernel in the cache, made by Triton {made_by}, has {usage.registers} registers and {usage.instructions} "
        f"instructions, which is not what it compiles to here.",
    )
