"""All SMs of a launch on one axis of nanoseconds.

Every header holds its SM's clock and the device's global time, at entry and at exit.
All SMs run at one frequency but their counters differ by millions of cycles, so one
slope and an offset per SM are fitted to these pairs by least squares: time over
clock, because the clock is exact and the global timer advances in steps (32 ns on an
H200, about a microsecond on other GPUs), which would bias the other direction.

A launch too short to give the frequency to 1 % takes the slope that all launches of
its device in the capture give together. If that is not enough either, there are no
nanoseconds: a cycle is never taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kperfir.trace.decode import I64, Headers

F64 = NDArray[np.float64]
MAX_RELATIVE_ERROR = 0.01
COARSEST_STEP_NS = 1024
_TIMES_FOR_STEP = 4

Frequency = Literal["measured", "combined", "given", "unknown"]


@dataclass(frozen=True)
class Slope:
    """Sums from which one slope follows; those of launches add up.

    Attributes:
        pairs, units: readings of both clocks, and SMs of launches they come from.
        cycles2, product, time2: sums of squares and of products of the deviations
            from each SM's means, in cycles and nanoseconds.
    """

    pairs: int = 0
    units: int = 0
    cycles2: float = 0.0
    product: float = 0.0
    time2: float = 0.0

    def __add__(self, other: Slope) -> Slope:
        return Slope(
            self.pairs + other.pairs,
            self.units + other.units,
            self.cycles2 + other.cycles2,
            self.product + other.product,
            self.time2 + other.time2,
        )

    def ns_per_cycle(self, step_ns: int | None) -> float | None:
        """The slope, or None where it is not known to `MAX_RELATIVE_ERROR`."""
        if self.cycles2 <= 0 or self.product <= 0:
            return None
        slope = self.product / self.cycles2
        freedom = self.pairs - self.units - 1
        scatter = max(self.time2 - slope * self.product, 0.0) / freedom if freedom > 0 else 0.0
        quantum = (step_ns or COARSEST_STEP_NS) ** 2 / 12
        error = (max(scatter, quantum) / self.cycles2) ** 0.5
        return slope if error <= MAX_RELATIVE_ERROR * slope else None


@dataclass(frozen=True)
class Axis:
    """Clock of an SM -> nanoseconds since the launch's first entry.

    Attributes:
        origin_ns: global time of that entry.
        frequency: "measured" in this launch, "combined" from all launches of the
            capture, "given" where records hold nanoseconds, or "unknown".
        ghz: cycles a nanosecond; None where unknown, and then there are no nanoseconds.
        step_ns: step of the global timer as far as it was seen.
        error_median_ns, error_max_ns: distance of the pairs of clocks from the fit.
        anchors: SM -> a clock of it and its nanoseconds since the origin.
    """

    origin_ns: int
    frequency: Frequency
    ghz: float | None
    step_ns: int | None
    error_median_ns: float
    error_max_ns: float
    anchors: dict[int, tuple[int, float]]

    def to_ns(self, sm: I64, clock: I64) -> F64 | None:
        """Nanoseconds of clocks, or None where the frequency is not known."""
        if self.ghz is None:
            return None
        units, inverse = np.unique(sm, return_inverse=True)
        bases = np.array([self.anchors[int(u)][0] for u in units], np.int64)
        base_ns = np.array([self.anchors[int(u)][1] for u in units], np.float64)
        result: F64 = (clock - bases[inverse]) / self.ghz + base_ns[inverse]
        return result


@dataclass(frozen=True)
class _Pairs:
    """Readings of both clocks by finished CTAs, `unit` numbering their SMs."""

    sms: I64
    unit: I64
    clock: I64
    time_ns: I64


def timer_step_ns(headers: Iterable[Headers]) -> int | None:
    """Step of the global timer: what divides all differences; None where the readings are too few to tell."""
    times = np.unique(np.concatenate([np.zeros(0, np.int64), *(_pairs(h).time_ns for h in headers)]))
    if len(times) < _TIMES_FOR_STEP:
        return None
    step_ns = int(np.gcd.reduce(np.diff(times)))
    return step_ns if step_ns <= COARSEST_STEP_NS else None


def slope(headers: Headers) -> Slope:
    """What one launch says of the frequency."""
    pairs = _pairs(headers)
    if not len(pairs.clock):
        return Slope()
    cycles, time_ns, _, _ = _centred(pairs)
    sums = (float(cycles @ cycles), float(cycles @ time_ns), float(time_ns @ time_ns))
    return Slope(len(cycles), len(pairs.sms), *sums)


def align(headers: Headers, step_ns: int | None, combined: Slope) -> Axis:
    """Fit the axis of one launch.

    Args:
        step_ns: of the global timer, from `timer_step_ns`.
        combined: sum over all launches of the same device.
    """
    pairs = _pairs(headers)
    if not len(pairs.clock):
        return Axis(0, "unknown", None, step_ns, 0.0, 0.0, {})
    origin_ns = int(pairs.time_ns.min())
    entered = {
        int(sm): (int(clock), float(time_ns - origin_ns))
        for sm, clock, time_ns in zip(headers.sm, headers.start_clock, headers.start_time_ns, strict=True)
    }
    own, common = slope(headers).ns_per_cycle(step_ns), combined.ns_per_cycle(step_ns)
    frequency: Frequency = "measured" if own else "combined" if common else "unknown"
    ns_per_cycle = own or common
    if ns_per_cycle is None:
        return Axis(origin_ns, frequency, None, step_ns, 0.0, 0.0, {})
    cycles, time_ns, mean_clock, mean_ns = _centred(pairs)
    distance_ns = np.abs(time_ns - cycles * ns_per_cycle)
    # an SM on which no CTA ended has the readings at entry alone
    anchors = entered | {
        int(sm): (int(clock), float(since_ns))
        for sm, clock, since_ns in zip(pairs.sms, mean_clock, mean_ns, strict=True)
    }
    median_ns, max_ns = float(np.median(distance_ns)), float(distance_ns.max())
    return Axis(origin_ns, frequency, 1 / ns_per_cycle, step_ns, median_ns, max_ns, anchors)


def given_axis(headers: Headers) -> Axis:
    """Records hold nanoseconds already: the host's in the interpreter, else the device's global time."""
    starts = headers.start_clock[headers.finished]
    origin_ns = int(starts.min()) if len(starts) else 0
    anchors = {int(sm): (origin_ns, 0.0) for sm in np.unique(headers.sm)}
    return Axis(origin_ns, "given", 1.0, None, 0.0, 0.0, anchors)


def _pairs(headers: Headers) -> _Pairs:
    ok = headers.finished
    sms, unit = np.unique(np.tile(headers.sm[ok], 2), return_inverse=True)
    clock = np.concatenate([headers.start_clock[ok], headers.end_clock[ok]])
    return _Pairs(sms, unit, clock, np.concatenate([headers.start_time_ns[ok], headers.end_time_ns[ok]]))


def _centred(pairs: _Pairs) -> tuple[F64, F64, I64, F64]:
    """Deviations from the means of each SM, in cycles and nanoseconds; and these means, in cycles and since the origin.

    Clocks and times are whole numbers near 2^60: they are reduced before they become floats.
    """
    count = np.bincount(pairs.unit)
    base = np.full(len(count), np.iinfo(np.int64).max)
    np.minimum.at(base, pairs.unit, pairs.clock)
    cycles = (pairs.clock - base[pairs.unit]).astype(np.float64)
    time_ns = (pairs.time_ns - pairs.time_ns.min()).astype(np.float64)
    mean_cycles = np.bincount(pairs.unit, cycles) / count
    mean_ns = np.bincount(pairs.unit, time_ns) / count
    whole: I64 = base + np.rint(mean_cycles).astype(np.int64)
    return cycles - mean_cycles[pairs.unit], time_ns - mean_ns[pairs.unit], whole, mean_ns
