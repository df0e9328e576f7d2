"""Sums of regions, made by hand and read back; a property test against adding them up one by one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import handmade
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kperfir.capture.schema import Kernel
from kperfir.opened import OpenedTrace, load
from kperfir.records import SUMS_BYTES, Layout

REGIONS = len(handmade.TABLE.regions)
LAYOUT = Layout(2, REGIONS, "global", SUMS_BYTES, holds_sums=True)
CLOCKS = {"clocks": (1000, 11_000), "times_ns": (500, 5500)}
Taken = dict[tuple[int, int], list[int]]  # (warp, region) -> what each part took


def block(taken: Taken, cta: int = 0, **more: Any) -> bytes:
    """A block whose entries hold what a kernel adds up."""
    data = bytearray(handmade.block(LAYOUT, cta, **(CLOCKS | more)))
    for (warp, region), parts in taken.items():
        at = LAYOUT.ring_offset_bytes(warp) + region * SUMS_BYTES
        sums = (sum(parts), len(parts), max(parts, default=0), max(((1 << 32) - 1 - p for p in parts), default=0))
        struct.pack_into("<IIII", data, at, *sums)
    return bytes(data)


def trace_of(path: Path, *blocks: bytes) -> OpenedTrace:
    kernel = Kernel(0, "add", "h", "cuda:90", LAYOUT, handmade.TABLE, "global memory: sums are added up there")
    return load(handmade.write(path, [(handmade.launch(0, len(blocks)), b"".join(blocks))], kernel))


def test_figures(tmp_path: Path) -> None:
    first = block({(0, 0): [9000], (1, 0): [8000], (0, 1): [100, 300], (0, 2): [0, 0, 0]})
    second = block({(0, 1): [50]}, cta=1)
    trace = trace_of(tmp_path / "a", first, second)
    (kernel,) = trace.summary().kernels
    whole, loads, here = kernel.regions
    assert (whole.count, whole.total, whole.mean, whole.least, whole.greatest) == (2, 17_000, 8500, 8000, 9000)
    assert whole.share == pytest.approx(17 / 20)
    assert (loads.count, loads.total, loads.mean, loads.least, loads.greatest) == (3, 450, 150, 50, 300)
    assert loads.share == pytest.approx(450 / 20_000), "of warp 0 in two CTAs"
    assert (here.count, here.total, here.mean, here.median) == (3, None, None, None)
    assert (kernel.written, kernel.kept, kernel.holds_sums) == (0, 0, True)
    text = str(trace.summary())
    assert "each warp added up what its regions took" in text and "greatest" in text and "p95" not in text
    assert trace.events().num_rows == 0 and trace.problems() == ()
    trace.export(tmp_path / "t.json")


def test_a_cta_that_did_not_finish_has_no_sums(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "a", block({(0, 1): [100]}, state=1), block({(0, 1): [7]}, cta=1))
    assert trace.summary().kernels[0].regions[1].total == 7
    assert [p.code for p in trace.problems()] == ["unfinished-ctas"]


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 1), st.integers(0, REGIONS - 1)),
            st.lists(st.integers(0, 1 << 29), min_size=1, max_size=5),
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_sums_are_those_of_the_parts(tmp_path_factory: pytest.TempPathFactory, ctas: list[Taken]) -> None:
    path = tmp_path_factory.mktemp("sums") / "a.kperf"
    trace = trace_of(path, *(block(taken, cta) for cta, taken in enumerate(ctas)))
    sums = trace.launches[0].sums
    assert sums is not None
    for cta, taken in enumerate(ctas):
        for warp in range(2):
            for region in range(REGIONS):
                parts = taken.get((warp, region), [])
                at = (cta, warp, region)
                found = (sums.count[at], sums.total[at], sums.least[at], sums.greatest[at])
                assert found == (len(parts), sum(parts), min(parts, default=0), max(parts, default=0))


def test_a_kernel_that_ran_for_seconds_is_doubted(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "a", block({(0, 1): [7]}, clocks=(0, 1 << 33), times_ns=(0, 1 << 32)))
    assert [p.code for p in trace.problems()] == ["long-sums"]
