"""SM clocks on one axis, against clocks that were made from a known frequency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kperfir.trace.align import Slope, align, given_axis, slope, timer_step_ns
from kperfir.trace.decode import Headers

ORIGIN_NS = 1_700_000_000_000_000_000


def _headers(ghz: float, spans_ns: list[tuple[int, int, int]], step_ns: int = 32) -> Headers:
    """Headers of CTAs (SM, start, end): counters differ by millions of cycles, the timer advances in steps."""
    sm, start, end = (np.array(c, np.int64) for c in zip(*spans_ns, strict=True))
    offset = 5_000_000_000_000 + sm * 7_654_321

    def clock(time_ns: np.ndarray) -> np.ndarray:
        return offset + np.rint(time_ns * ghz).astype(np.int64)

    def timer(time_ns: np.ndarray) -> np.ndarray:
        return ORIGIN_NS + time_ns // step_ns * step_ns

    return Headers(
        np.arange(len(sm)), sm, clock(start), timer(start), clock(end), timer(end), np.ones(len(sm), np.bool_)
    )


def _grid(length_ns: int, ctas: int = 64, sms: int = 16, seed: int = 0) -> list[tuple[int, int, int]]:
    random = np.random.default_rng(seed)
    starts = random.integers(0, 2 * length_ns, ctas)
    return [(i % sms, int(s), int(s + length_ns + random.integers(0, length_ns))) for i, s in enumerate(starts)]


@pytest.mark.parametrize("ghz", [0.1, 1.1, 1.98])
@pytest.mark.parametrize("step_ns", [1, 32, 1024])
def test_frequency_and_offsets_are_found(ghz: float, step_ns: int) -> None:
    headers = _headers(ghz, _grid(100_000), step_ns)
    assert timer_step_ns([headers]) == step_ns
    axis = align(headers, step_ns, Slope())
    assert axis.frequency == "measured"
    assert axis.ghz == pytest.approx(ghz, rel=2e-3)
    assert axis.error_max_ns < 2 * step_ns + 2 / ghz
    assert axis.error_median_ns <= axis.error_max_ns
    # Two SMs' clocks of one moment come out at one moment.
    moment = _headers(ghz, [(sm, 123_456, 123_456) for sm in range(16)], 1)
    found = axis.to_ns(moment.sm, moment.start_clock)
    assert found is not None
    assert np.ptp(found) < 2 * step_ns + 4 / ghz


def test_a_short_launch_takes_the_frequency_of_all() -> None:
    launches = [_headers(1.5, [(0, 647 * i, 647 * i + 700 + 32 * (i % 3))]) for i in range(40)]
    step_ns = timer_step_ns(launches)
    assert step_ns == 32
    combined = sum(map(slope, launches), Slope())
    alone = align(launches[0], step_ns, slope(launches[0]))
    assert (alone.frequency, alone.ghz, alone.to_ns(launches[0].sm, launches[0].start_clock)) == ("unknown", None, None)
    together = align(launches[0], step_ns, combined)
    assert together.frequency == "combined"
    assert together.ghz == pytest.approx(1.5, rel=0.02)


def test_a_timer_that_stands_still_gives_no_frequency() -> None:
    headers = _headers(1.5, [(0, 0, 900), (1, 3, 800)], step_ns=1024)
    axis = align(headers, timer_step_ns([headers]), slope(headers))
    assert (axis.frequency, axis.ghz, axis.step_ns) == ("unknown", None, None)


def test_clocks_that_scatter_give_no_frequency() -> None:
    """Far more than the timer's step explains: the frequency moved, or the readings are no good."""
    headers = _headers(1.5, _grid(10_000))
    random = np.random.default_rng(1)
    scattered = headers.end_time_ns + random.integers(-20, 20, 64) * 320
    assert align(headers, 32, Slope()).frequency == "measured"
    assert align(replace(headers, end_time_ns=scattered), 32, Slope()).frequency == "unknown"


def test_one_long_cta_is_enough() -> None:
    headers = _headers(1.5, [(3, 0, 1_000_000)])
    assert timer_step_ns([headers]) is None
    assert align(headers, None, Slope()).ghz == pytest.approx(1.5, rel=1e-3)


def test_no_finished_cta() -> None:
    headers = _headers(1.5, _grid(1000, 4))
    nothing = Headers(*(getattr(headers, n) for n in list(Headers.__dataclass_fields__)[:-1]), np.zeros(4, np.bool_))
    assert align(nothing, None, Slope()).frequency == "unknown"
    assert timer_step_ns([nothing]) is None


def test_interpreter_clocks_are_nanoseconds() -> None:
    headers = _headers(1.0, [(0, 100, 200), (0, 300, 400)], 1)
    axis = given_axis(headers)
    found = axis.to_ns(headers.sm, headers.end_clock)
    assert axis.frequency == "given"
    assert found is not None
    assert found.tolist() == [100.0, 300.0]
