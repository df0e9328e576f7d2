"""Blocks -> records, against what was written."""

from __future__ import annotations

import struct

import handmade
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kperfir.records import Layout
from kperfir.trace.decode import SKEW_CYCLES, WRAP_CYCLES, decode, join, read_headers

LARGEST_GAP = WRAP_CYCLES - SKEW_CYCLES - 1
gaps = st.one_of(st.integers(0, 2000), st.integers(0, LARGEST_GAP))
streams = st.lists(st.tuples(st.integers(0, 200), gaps), max_size=20)
layouts = st.builds(
    Layout, st.integers(1, 3), st.sampled_from([2, 4, 8, 32]), st.just("global"), st.sampled_from([8, 16])
)


def _clocks(start: int, stream: list[tuple[int, int]]) -> list[tuple[int, int]]:
    words, clock = [], start
    for site, gap in stream:
        clock += gap
        words.append((site, clock))
    return words


@given(st.data(), layouts, st.integers(1 << 21, 1 << 50))
@settings(max_examples=150, deadline=None)
def test_every_kept_record_comes_back(data: st.DataObject, layout: Layout, origin: int) -> None:
    blocks, expected = b"", []
    for cta in range(data.draw(st.integers(0, 3))):
        start = origin + data.draw(st.integers(0, 1 << 40))
        skew = data.draw(st.integers(0, SKEW_CYCLES // 2))
        warps = [_clocks(start - skew, data.draw(streams)) for _ in range(layout.warps)]
        latest = max([start] + [w[-1][1] for w in warps if w])
        # The header is closed by a warp that ends with the latest one, give or take the skew.
        end = latest + data.draw(st.integers(-SKEW_CYCLES // 2, 5000))
        short = end - start < LARGEST_GAP or all(not w or end - w[-1][1] < LARGEST_GAP for w in warps)
        warps = warps if short else [warps[0], *[[] for _ in warps[1:]]]
        end = end if short else (warps[0][-1][1] if warps[0] else start)
        blocks += handmade.block(layout, cta, cta + 7, (start, end), warps=warps)
        expected += [(cta, warp, site, clock) for warp, w in enumerate(warps) for site, clock in w[-layout.slots :]]
    records = decode(blocks, layout)
    cta = records.headers.cta[records.row]
    found = list(zip(cta.tolist(), records.warp.tolist(), records.site.tolist(), records.clock.tolist(), strict=True))
    sure = [f for f, doubt in zip(found, records.ambiguous.tolist(), strict=True) if not doubt]
    assert [f[:3] for f in found] == [e[:3] for e in expected]
    assert set(sure) <= set(expected)
    if layout.slots == 32:
        assert found == expected
        assert not records.ambiguous.any()


@given(st.lists(st.integers(0, 5 << 32), min_size=1, max_size=8), st.sampled_from([2, 8]), st.integers(0, 5 << 32))
@settings(max_examples=300, deadline=None)
def test_a_clock_is_right_or_flagged(steps: list[int], slots: int, tail: int) -> None:
    """Gaps of several turns of the counter cannot be told from short ones, but they can be noticed."""
    layout = Layout(1, slots, "global")
    words = _clocks(1 << 40, [(i, step) for i, step in enumerate(steps)])
    end = words[-1][1] + tail
    records = decode(handmade.block(layout, clocks=(1 << 40, end), warps=[words]), layout)
    right = records.clock == np.array([clock for _, clock in words[-slots:]])
    assert (right | records.ambiguous).all()
    if end - (1 << 40) < LARGEST_GAP:
        assert right.all() and not records.ambiguous.any()


def test_a_step_back_is_skew_not_a_turn() -> None:
    layout = Layout(1, 8, "global")
    words = [(0, 10_000), (1, 9_990), (2, 10_020)]
    records = decode(handmade.block(layout, clocks=(10_005, 10_010), warps=[words]), layout)
    assert records.clock.tolist() == [10_000, 9_990, 10_020]
    assert not records.ambiguous.any()


def test_a_warp_that_outlives_its_header_by_seconds_is_placed() -> None:
    layout = Layout(1, 2, "global")
    words = [(0, 100), (1, 200), (2, 3_000_000_000), (3, 3_000_000_100)]
    records = decode(handmade.block(layout, clocks=(50, 1000), warps=[words]), layout)
    assert records.clock.tolist() == [3_000_000_000, 3_000_000_100]
    assert not records.ambiguous.any()


def test_missing_and_unfinished_ctas() -> None:
    layout = handmade.LAYOUT
    ran = handmade.block(layout, cta=2, warps=[[(0, 1100)], []])
    died = handmade.block(layout, cta=1, warps=[[(0, 1100)], []], state=1)
    records = decode(bytes(layout.cta_bytes) + died + ran + b"rest", layout)
    assert records.headers.cta.tolist() == [1, 2]
    assert records.headers.finished.tolist() == [False, True]
    assert records.written.tolist() == [[0, 0], [1, 0]]
    assert records.row.tolist() == [1]


@pytest.mark.parametrize("payload", [b"", b"short"])
def test_nothing_gives_nothing(payload: bytes) -> None:
    records = decode(payload, handmade.LAYOUT)
    assert len(records.headers) == len(records.row) == len(records.clock) == 0
    assert records.written.shape == (0, 2)


def test_header_words_are_where_the_page_says() -> None:
    data = bytearray(handmade.LAYOUT.cta_bytes)
    struct.pack_into("<IIII", data, 0, 0x4B504631, 11, 12, 2)
    struct.pack_into("<QQQQ", data, 16, 1 << 40, (1 << 60) + 1, (1 << 40) + 5, (1 << 60) + 33)
    headers = read_headers(bytes(data), handmade.LAYOUT)
    assert (headers.cta[0], headers.sm[0], headers.finished[0]) == (11, 12, True)
    assert (headers.start_clock[0], headers.start_time_ns[0]) == (1 << 40, (1 << 60) + 1)
    assert (headers.end_clock[0], headers.end_time_ns[0]) == ((1 << 40) + 5, (1 << 60) + 33)


def test_chunks_join_to_the_whole() -> None:
    layout = handmade.LAYOUT
    blocks = [handmade.block(layout, cta=i, warps=[handmade.span(1100 + i, 1900)] * 2) for i in range(3)]
    whole, joined = decode(b"".join(blocks), layout), join([decode(b, layout) for b in blocks])
    assert joined.row.tolist() == whole.row.tolist()
    assert joined.clock.tolist() == whole.clock.tolist()
    assert joined.headers.cta.tolist() == whole.headers.cta.tolist()
