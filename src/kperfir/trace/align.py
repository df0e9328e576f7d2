"""All SMs of a launch on one axis of nanoseconds.

Every header holds the SM's clock and the device's global time, at entry and at exit.
All SMs run at one frequency but their counters differ by millions of cycles, so one
slope and an offset per SM are fitted to all these pairs by least squares. The global
timer advances in steps (32 ns on an H200), which is part of the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kperfir.trace.decode import I64, Headers

F64 = NDArray[np.float64]
MIN_SPAN_NS = 2000.0


@dataclass(frozen=True)
class Axis:
    """Clock of an SM -> nanoseconds since the launch's first entry.

    Attributes:
        origin_ns: global time of that entry.
        ghz: measured frequency, cycles a nanosecond; None where the launch was too
            short to measure it, and then there are no nanoseconds.
        offset_cycles: SM -> its clock at `origin_ns`.
        error_ns: median and greatest distance of the header's pairs from the fit.
    """

    origin_ns: int
    ghz: float | None
    offset_cycles: dict[int, float]
    error_ns: tuple[float, float]

    def to_ns(self, sm: I64, clock: I64) -> F64 | None:
        """Nanoseconds of clocks, or None where the frequency is not known."""
        if self.ghz is None:
            return None
        units, inverse = np.unique(sm, return_inverse=True)
        offsets = np.array([self.offset_cycles[int(u)] for u in units])
        result: F64 = (clock - offsets[inverse]) / self.ghz
        return result


def align(headers: Headers) -> Axis:
    """Fit the axis of one launch."""
    ok = headers.finished
    if not ok.any():
        return Axis(0, None, {}, (0.0, 0.0))
    sm = np.concatenate([headers.sm[ok], headers.sm[ok]])
    clock = np.concatenate([headers.start_clock[ok], headers.end_clock[ok]])
    time = np.concatenate([headers.start_time_ns[ok], headers.end_time_ns[ok]])
    origin_ns = int(time.min())
    elapsed = (time - origin_ns).astype(np.float64)
    _, unit = np.unique(sm, return_inverse=True)
    count = np.bincount(unit)
    base = np.zeros(len(count), np.int64)
    base[unit[::-1]] = clock[::-1]
    cycles = (clock - base[unit]).astype(np.float64)
    mean_time, mean_cycles = np.bincount(unit, elapsed) / count, np.bincount(unit, cycles) / count
    dt, dc = elapsed - mean_time[unit], cycles - mean_cycles[unit]
    spread = float((dt * dt).sum())
    if spread == 0 or np.ptp(elapsed) < MIN_SPAN_NS:
        return Axis(origin_ns, None, {}, (0.0, 0.0))
    ghz = float((dt * dc).sum() / spread)
    offset = base + mean_cycles - ghz * mean_time
    residual = np.abs((cycles + base[unit] - offset[unit]) / ghz - elapsed)
    offsets = {int(s): float(offset[u]) for s, u in zip(sm, unit, strict=True)}
    return Axis(origin_ns, ghz, offsets, (float(np.median(residual)), float(residual.max())))
