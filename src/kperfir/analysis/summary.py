"""What every region took: count, total, median, 95th percentile, share of its kernel.

Times are raw: the cost of the records themselves is in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kperfir.capture.schema import Problem, Resources
from kperfir.trace import LaunchTrace, Trace


@dataclass(frozen=True)
class RegionSummary:
    """One region of one kernel, over all recorded launches, CTAs and warps.

    Attributes:
        total, median, p95: in the kernel's unit; pieces of an instance are added up.
        share: total over the time that the region's warps spent in the kernel, between
            the first and the last record of each; None where nothing bounds it.
    """

    name: str
    role: str
    origin: str
    file: str
    line: int
    depth: int
    count: int
    total: int
    median: float
    p95: float
    share: float | None


@dataclass(frozen=True)
class KernelSummary:
    """One kernel binary.

    Attributes:
        unit: "cycles" or "ns". ghz: median measured frequency, None where unknown.
        error_ns: greatest distance of a clock pair from the common axis.
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
    ghz: float | None
    error_ns: float
    plain: Resources
    instrumented: Resources
    regions: tuple[RegionSummary, ...]


@dataclass(frozen=True)
class Summary:
    """A whole trace. Printing it gives the report."""

    source: str
    device: str
    triton: str
    plan: str
    kernels: tuple[KernelSummary, ...]
    tally: dict[str, dict[str, int]]
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        from kperfir.analysis.report import report

        return report(self)


def summarise(trace: Trace) -> Summary:
    """Summarise every kernel of a trace."""
    groups: dict[tuple[int, int], list[LaunchTrace]] = {}
    for launch in trace.launches:
        groups.setdefault((launch.capture, launch.kernel.id), []).append(launch)
    tally: dict[str, dict[str, int]] = {}
    for capture in trace.captures:
        for name, outcomes in capture.tally.items():
            mine = tally.setdefault(name, {})
            for outcome, count in outcomes.items():
                mine[outcome] = mine.get(outcome, 0) + count
    session = trace.captures[0].session
    return Summary(
        session.source,
        session.device_name or session.target,
        session.triton_version,
        session.plan,
        tuple(_kernel(group) for group in groups.values()),
        tally,
        trace.problems(),
    )


def _kernel(launches: list[LaunchTrace]) -> KernelSummary:
    kernel = launches[0].kernel
    known = [launch.axis.ghz for launch in launches if launch.axis.ghz is not None]
    return KernelSummary(
        kernel.name,
        kernel.target,
        kernel.clock,
        len(launches),
        sum(launch.launch.ctas for launch in launches),
        sum(launch.written for launch in launches),
        sum(launch.kept for launch in launches),
        kernel.place_reason,
        kernel.layout.slots,
        float(np.median(known)) if known and kernel.clock == "cycles" else None,
        max((launch.axis.error_ns[1] for launch in launches), default=0.0),
        kernel.plain,
        kernel.instrumented,
        _regions(launches),
    )


def _regions(launches: list[LaunchTrace]) -> tuple[RegionSummary, ...]:
    columns = {
        name: np.concatenate([launch.table[name].to_numpy() for launch in launches])
        for name in ("region_id", "busy", "cta", "warp", "start_clock", "end_clock", "launch")
    }
    regions = launches[0].kernel.table.regions
    warps = _warp_time(columns)
    result = []
    for region in regions:
        chosen = columns["region_id"] == region.id
        busy = columns["busy"][chosen]
        total = int(busy.sum())
        within = sum(warps[key] for key in set(_keys(columns, chosen)))
        mark = region.origin == "mark" or not len(busy)
        result.append(
            RegionSummary(
                region.name,
                region.role,
                region.origin,
                region.file,
                region.line,
                _depth(region.id, [r.parent for r in regions]),
                len(busy),
                total,
                float(np.median(busy)) if len(busy) else 0.0,
                float(np.percentile(busy, 95)) if len(busy) else 0.0,
                None if mark or not within else total / within,
            )
        )
    return tuple(result)


def _keys(columns: dict[str, np.ndarray], chosen: np.ndarray) -> list[tuple[int, int, int]]:
    names = ("launch", "cta", "warp")
    return list(zip(*(columns[n][chosen].tolist() for n in names), strict=True))


def _warp_time(columns: dict[str, np.ndarray]) -> dict[tuple[int, int, int], int]:
    """Time from the first to the last record of every warp."""
    first: dict[tuple[int, int, int], int] = {}
    last: dict[tuple[int, int, int], int] = {}
    everything = np.ones(len(columns["cta"]), np.bool_)
    starts, ends = columns["start_clock"].tolist(), columns["end_clock"].tolist()
    for key, start, end in zip(_keys(columns, everything), starts, ends, strict=True):
        first[key] = min(start, first.get(key, start))
        last[key] = max(end, last.get(key, end))
    return {key: last[key] - first[key] for key in first}


def _depth(region: int, parents: list[int | None]) -> int:
    depth = 0
    parent = parents[region]
    while parent is not None:
        depth, parent = depth + 1, parents[parent]
    return depth
