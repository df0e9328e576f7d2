"""What every region took: count, total, median, 95th percentile, share of its kernel.

Times are raw: the cost of the records themselves is in them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kperfir.analysis.addresses import MemoryOperation, memory_operations
from kperfir.analysis.fidelity import KernelFidelity, kernel_fidelity
from kperfir.analysis.standing import Stand, standing
from kperfir.capture.schema import Kernel, Problem, Resources, Session, Shares
from kperfir.records import Region, Scalar
from kperfir.trace import LaunchTrace, Trace
from kperfir.trace.decode import I64, Headers
from kperfir.trace.scalars import as_numbers
from kperfir.trace.sums import Sums


@dataclass(frozen=True)
class RegionSummary:
    """One region of one kernel, over all recorded launches, CTAs and warps.

    Attributes:
        depth: regions that enclose it in the source.
        count: spans, or marks. total, median, p95: busy time, in the kernel's unit;
            None where there is nothing to measure: a mark, or a region without span.
        values: of what its records carry; None where they carry nothing, or there are none.
        mean, least, greatest: the same where the kernel adds up itself, which leaves no
            median; least and greatest are of uninterrupted parts. Else None.
        share: total over the time that the region's warps were in the kernel. Where a
            ring wrapped, that time runs from its oldest kept record; where records found
            no slot, to its newest. None for events, which overlap.
    """

    name: str
    role: str
    origin: str
    file: str
    line: int
    depth: int
    count: int
    total: int | None
    median: float | None
    p95: float | None
    share: float | None
    mean: float | None = None
    least: int | None = None
    greatest: int | None = None
    values: ValueSummary | None = None


@dataclass(frozen=True)
class ValueSummary:
    """Of the scalars that a region's records carry; NaN where one of them is."""

    scalar: Scalar
    least: float
    median: float
    greatest: float


@dataclass(frozen=True)
class KernelSummary:
    """One kernel binary.

    Attributes:
        unit: "cycles", or "ns" where records hold nanoseconds. ctas: of all recorded launches.
        wraps: records that were not kept were overwritten; else they found no slot.
        written, kept: records. slots: records a warp's ring holds.
        holds_sums: the kernel adds up what its regions take and keeps no record.
        holds_addresses: the kernel traces accesses to memory; written and kept are those, and nothing is timed.
        memory: its memory operations, where it does.
        ghz: median measured frequency, None where no launch has one.
        combined_launches: those whose frequency came from all launches together.
        unknown_launches: those whose frequency is not known.
        error_median_ns, error_max_ns: distance of pairs of clocks from the common axis,
            the greatest of any launch.
        step_ns: step of the global timer, None where it was not seen.
        fidelity: what became of the operations of its scopes.
    """

    name: str
    target: str
    unit: str
    launches: int
    ctas: int
    written: int
    kept: int
    place_reason: str
    slots: int
    holds_sums: bool
    wraps: bool
    ghz: float | None
    combined_launches: int
    unknown_launches: int
    error_median_ns: float
    error_max_ns: float
    step_ns: int | None
    plain: Resources
    instrumented: Resources
    regions: tuple[RegionSummary, ...]
    fidelity: KernelFidelity
    holds_addresses: bool = False
    memory: tuple[MemoryOperation, ...] = ()


@dataclass(frozen=True)
class Summary:
    """A whole trace. Printing it gives the report.

    Attributes:
        standing: warps that never ended, and where they stood.
    """

    sessions: tuple[Session, ...]
    kernels: tuple[KernelSummary, ...]
    standing: tuple[Stand, ...]
    tally: dict[str, dict[str, int]]
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        from kperfir.analysis.report import report

        return report(self)


def summarise(trace: Trace) -> Summary:
    """Summarise every kernel of a trace; processes that ran the same binary count as one."""
    groups: dict[Kernel, list[LaunchTrace]] = {}
    for launch in trace.launches:
        groups.setdefault(replace(launch.kernel, id=0), []).append(launch)
    kernels = tuple(_kernel(kernel, launches, _shares(trace, launches[0])) for kernel, launches in groups.items())
    stands = tuple(stand for launch in trace.launches for stand in standing(launch))
    return Summary(tuple(c.session for c in trace.captures), kernels, stands, _tally(trace), trace.problems())


def _shares(trace: Trace, launch: LaunchTrace) -> Shares:
    return trace.captures[launch.capture].shares_of(launch.kernel.id)


def _tally(trace: Trace) -> dict[str, dict[str, int]]:
    tally: dict[str, Counter[str]] = {}
    for capture in trace.captures:
        for name, outcomes in capture.tally.items():
            tally.setdefault(name, Counter()).update(outcomes)
    return {name: dict(outcomes) for name, outcomes in tally.items()}


def _kernel(kernel: Kernel, launches: list[LaunchTrace], shares: Shares) -> KernelSummary:
    axes = [launch.axis for launch in launches if len(launch.headers)]
    known = [axis.ghz for axis in axes if axis.ghz is not None and axis.frequency != "given"]
    steps = [axis.step_ns for axis in axes if axis.step_ns is not None]
    return KernelSummary(
        name=kernel.name,
        target=kernel.target,
        unit=kernel.clock,
        launches=len(launches),
        ctas=sum(launch.launch.ctas for launch in launches),
        written=sum(launch.written for launch in launches),
        kept=sum(launch.kept for launch in launches),
        place_reason=kernel.place_reason,
        slots=kernel.layout.slots,
        holds_sums=kernel.layout.holds_sums,
        wraps=kernel.layout.wraps,
        ghz=float(np.median(known)) if known else None,
        combined_launches=sum(axis.frequency == "combined" for axis in axes),
        unknown_launches=sum(axis.frequency == "unknown" for axis in axes),
        error_median_ns=max((axis.error_median_ns for axis in axes), default=0.0),
        error_max_ns=max((axis.error_max_ns for axis in axes), default=0.0),
        step_ns=min(steps) if steps else None,
        plain=kernel.plain,
        instrumented=kernel.instrumented,
        fidelity=kernel_fidelity(kernel, shares),
        regions=(_summed if kernel.layout.holds_sums else _regions)(kernel.table.regions, launches),
        holds_addresses=kernel.layout.holds_addresses,
        memory=memory_operations(launches),
    )


def _regions(regions: tuple[Region, ...], launches: list[LaunchTrace]) -> tuple[RegionSummary, ...]:
    busy = [launch.spans.busy for launch in launches]
    scalars = [launch.spans.scalar for launch in launches]
    of = [launch.spans.region for launch in launches]
    within = sum((_time_of_warps(launch, len(regions)) for launch in launches), np.zeros(len(regions), np.int64))
    parents = [r.parent for r in regions]

    def all_of(region: Region, values: list[I64]) -> I64:
        return np.concatenate([v[o == region.id] for v, o in zip(values, of, strict=True)])

    return tuple(_region(r, all_of(r, busy), all_of(r, scalars), within, parents) for r in regions)


def _region(region: Region, busy: I64, scalars: I64, within: I64, parents: list[int | None]) -> RegionSummary:
    timed = len(busy) > 0 and not region.is_moment
    total, kernel_time = int(busy.sum()), int(within[region.id])
    return RegionSummary(
        **_described(region, parents),
        count=len(busy),
        total=total if timed else None,
        median=float(np.median(busy)) if timed else None,
        p95=float(np.percentile(busy, 95)) if timed else None,
        share=total / kernel_time if timed and kernel_time > 0 and region.origin != "event" else None,
        values=_values(region.scalar, scalars) if region.origin == "value" else None,
    )


def _values(scalar: Scalar | None, bits: I64) -> ValueSummary | None:
    if scalar is None or not len(bits):
        return None
    numbers = as_numbers(bits, scalar)
    return ValueSummary(scalar, float(numbers.min()), float(np.median(numbers)), float(numbers.max()))


def _summed(regions: tuple[Region, ...], launches: list[LaunchTrace]) -> tuple[RegionSummary, ...]:
    """Of kernels that added up themselves: over all CTAs, warps and launches."""
    found = [(launch.headers, launch.sums) for launch in launches if launch.sums is not None]
    parents = [r.parent for r in regions]
    return tuple(_added_up(region, found, parents) for region in regions)


def _added_up(region: Region, found: list[tuple[Headers, Sums]], parents: list[int | None]) -> RegionSummary:
    counts = [sums.count[:, :, region.id] for _, sums in found]
    count = sum(int(c.sum()) for c in counts)
    timed = count > 0 and not region.is_moment
    total = sum(int(sums.total[:, :, region.id].sum()) for _, sums in found)
    within = sum(
        int(((headers.end_clock - headers.start_clock)[:, None] * (c > 0)).sum())
        for (headers, _), c in zip(found, counts, strict=True)
    )
    return RegionSummary(
        **_described(region, parents),
        count=count,
        total=total if timed else None,
        median=None,
        p95=None,
        share=total / within if timed and within > 0 else None,
        mean=total / count if timed else None,
        least=_extreme(found, region.id, "least", counts) if timed else None,
        greatest=_extreme(found, region.id, "greatest", counts) if timed else None,
    )


def _extreme(found: list[tuple[Headers, Sums]], region: int, name: str, counts: list[I64]) -> int:
    """Least or greatest over the warps that have any."""
    values = np.concatenate(
        [getattr(sums, name)[:, :, region][c > 0] for (_, sums), c in zip(found, counts, strict=True)]
    )
    return int(values.min() if name == "least" else values.max())


def _time_of_warps(launch: LaunchTrace, regions: int) -> I64:
    """For each region, the time that the warps which have a span of it were in the kernel, added up.

    The header's clocks are those of one warp of the CTA; another may start a little
    earlier or end later, so its own records widen the time.
    """
    spans, headers = launch.spans, launch.headers
    warps = launch.written_by_warp.shape[1]
    first, last = launch.kept_clocks
    whole = (launch.written_by_warp <= launch.kernel.layout.slots).ravel()
    wraps = launch.kernel.layout.wraps
    starts, ends = (np.repeat(clock, warps) for clock in (headers.start_clock, headers.end_clock))
    first = np.where(whole | (not wraps), np.minimum(first, starts), first)
    last = np.where(whole | wraps, np.maximum(last, ends), last)
    pairs = np.unique((spans.row * warps + spans.warp) * regions + spans.region)
    within = np.zeros(regions, np.int64)
    np.add.at(within, pairs % regions, (last - first)[pairs // regions])
    return within


def _described(region: Region, parents: list[int | None]) -> dict[str, Any]:
    """What the table says of a region, whatever was measured."""
    told = {name: getattr(region, name) for name in ("name", "role", "origin", "file", "line")}
    return told | {"depth": _depth(region.id, parents)}


def _depth(region: int, parents: list[int | None]) -> int:
    depth = 0
    while (parent := parents[region]) is not None:
        depth, region = depth + 1, parent
    return depth
