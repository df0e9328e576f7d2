"""The figures of a summary equal a plain computation, whatever the spans are."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path

import handmade
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kperfir.analysis import RegionSummary, summarise
from kperfir.capture.schema import Kernel
from kperfir.opened import load
from kperfir.records import Layout

LAYOUT = Layout(warps=2, slots=64, place="global")
KERNEL = Kernel(0, "add", "hash", "cuda:90", LAYOUT, handmade.TABLE)
GAP = st.integers(0, 5000)
# A warp: gaps before each of its records; in a kernel lie loads, and in each load marks.
warp = st.none() | st.tuples(GAP, st.lists(st.tuples(GAP, st.lists(GAP, max_size=2), GAP), max_size=6), GAP)
launches = st.lists(st.lists(st.tuples(warp, warp, GAP, GAP), min_size=1, max_size=3), min_size=1, max_size=3)


def _words(start: int, shape: tuple | None) -> list[tuple[int, int]]:  # type: ignore[type-arg]
    if shape is None:
        return []
    before, loads, after = shape
    gaps = [(handmade.KERNEL_START, before)]
    for opening, marks, closing in loads:
        gaps += [(handmade.LOAD_START, opening), *[(handmade.HERE, m) for m in marks], (handmade.LOAD_END, closing)]
    words, clock = [], start
    for site, gap in [*gaps, (handmade.KERNEL_END, after)]:
        clock += gap
        words.append((site, clock))
    return words


def _spans(words: list[tuple[int, int]]) -> dict[int, list[int]]:
    """Region -> lengths of its spans; no region here lies in itself."""
    found, open_from = defaultdict(list), {}
    for site, clock in words:
        if site in (handmade.KERNEL_START, handmade.LOAD_START):
            open_from[site // 2] = clock
        elif site in (handmade.KERNEL_END, handmade.LOAD_END):
            found[site // 2].append(clock - open_from[site // 2])
        else:
            found[2].append(0)
    return found


def _percentile(values: list[int], share: float) -> float:
    """Between the two nearest ranks, in proportion."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low, high = ordered[int(at)], ordered[min(int(at) + 1, len(ordered) - 1)]
    return low + (high - low) * (at - int(at))


def _check(region: RegionSummary, lengths: list[int], within: int) -> None:
    assert region.count == len(lengths)
    if region.origin == "mark" or not lengths:
        assert (region.total, region.median, region.p95, region.share) == (None,) * 4
        return
    assert region.total == sum(lengths)
    assert region.median == pytest.approx(statistics.median(lengths))
    assert region.p95 == pytest.approx(_percentile(lengths, 0.95))
    assert region.share == (pytest.approx(sum(lengths) / within) if within else None)


@given(launches, st.integers(1 << 21, 1 << 50))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_figures_equal_a_plain_computation(tmp_path: Path, shapes: list, start: int) -> None:  # type: ignore[type-arg]
    lengths: dict[int, list[int]] = defaultdict(list)
    within: dict[int, int] = defaultdict(int)
    written, messages = 0, []
    for number, ctas in enumerate(shapes):
        payload = b""
        for cta, (first, second, early, late) in enumerate(ctas):
            warps = [_words(start + early, first), _words(start + early, second)]
            end = max([start, *[clock for words in warps for _, clock in words]]) + late
            payload += handmade.block(LAYOUT, cta, cta, (start, end), (1000, 1000 + (end - start) // 2), warps)
            for words in warps:
                written += len(words)
                for region, found in _spans(words).items():
                    lengths[region] += found
                    within[region] += end - start
        messages.append((handmade.launch(number, len(ctas)), payload))
    (kernel,) = summarise(load(handmade.write(tmp_path / "a.kperf", messages, KERNEL))).kernels
    assert (kernel.launches, kernel.ctas) == (len(shapes), sum(map(len, shapes)))
    assert (kernel.written, kernel.kept) == (written, written)
    for number, region in enumerate(kernel.regions):
        _check(region, lengths[number], within[number])
