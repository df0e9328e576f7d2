"""Records -> spans, against a plain stack machine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import handmade
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kperfir.records import Layout, Region, Site, Table
from kperfir.trace.decode import decode
from kperfir.trace.pair import Spans, pair

TABLE = Table(
    tuple(Region(i, f"r{i}", origin="mark" if i == 3 else "scope") for i in range(4)),
    (
        *(Site(4 * r + 2 * p + k, r, ("start", "end")[k], p) for r in range(3) for p in range(2) for k in range(2)),
        Site(12, 3, "mark"),
    ),
)


def _pair(warps: list[list[int]], slots: int = 64, record_bytes: int = 8) -> Spans:
    """Pair sites that are written ten cycles apart."""
    layout = Layout(len(warps), slots, "global", record_bytes)
    words = [[(site, 1000 + 10 * i) for i, site in enumerate(w)] for w in warps]
    return pair(decode(handmade.block(layout, clocks=(1000, 9000), warps=words), layout), TABLE)


def _reference(sites: list[int], slots: int) -> tuple[list[dict[str, Any]], list[Counter[int]]]:
    """Spans of one warp; its cut ends, unpaired records and pieces without head, one record at a time."""
    records = list(enumerate(sites))[-slots:]
    stacks: dict[int, list[int]] = {r: [] for r in range(4)}
    pairs, cut, unpaired, headless = [], Counter[int](), Counter[int](), Counter[int]()
    for i, site in records:
        info = TABLE.sites[site]
        if info.kind == "start":
            stacks[info.region].append(i)
        elif info.kind == "end":
            if stacks[info.region]:
                pairs.append((stacks[info.region].pop(), i))
            else:
                (cut if len(sites) > slots else unpaired)[info.region] += 1
        else:
            pairs.append((i, i))
    for region, left in stacks.items():
        unpaired[region] += len(left)
    spans: list[dict[str, Any]] = []
    newest: dict[int, dict[str, Any]] = {}
    number: Counter[int] = Counter()
    for s, e in sorted(pairs):
        info = TABLE.sites[sites[s]]
        if info.piece and info.region not in newest:
            headless[info.region] += 1
        elif info.piece:
            span = newest[info.region]
            span |= {"end": max(span["end"], e), "busy": span["busy"] + e - s, "pieces": span["pieces"] + 1}
        else:
            depth = sum(a < s < b for a, b in pairs)
            span = {"region": info.region, "instance": number[info.region], "depth": depth, "start": s, "end": e}
            newest[info.region] = span | {"busy": e - s, "pieces": int(s != e)}
            number[info.region] += 1
            spans.append(newest[info.region])
    return spans, [cut, +unpaired, headless]


@given(st.lists(st.lists(st.integers(0, 12), max_size=40), min_size=1, max_size=3), st.sampled_from([4, 16, 64]))
@settings(max_examples=300, deadline=None)
def test_any_stream_pairs_as_a_stack_machine_pairs_it(warps: list[list[int]], slots: int) -> None:
    spans = _pair(warps, slots)
    found, losses = [], [Counter[int]() for _ in range(3)]
    for warp, sites in enumerate(warps):
        expected, lost = _reference(sites, slots)
        found += [e | {"warp": warp} for e in expected]
        losses = [a + b for a, b in zip(losses, lost)]
    for i, expected_span in enumerate(found):
        clocks = {"start": 1000 + 10 * expected_span["start"], "end": 1000 + 10 * expected_span["end"]}
        for name, value in (expected_span | clocks | {"busy": 10 * expected_span["busy"]}).items():
            assert getattr(spans, name)[i] == value, name
    assert len(spans.row) == len(found)
    assert [spans.cut, spans.unpaired, spans.headless] == losses


@given(st.lists(st.integers(0, 2), max_size=12), st.sampled_from([2, 4, 8, 16]))
@settings(max_examples=300, deadline=None)
def test_instances_whose_pieces_found_no_slot_are_cut(regions: list[int], slots: int) -> None:
    """Regions 0 and 1 have two pieces in the table and always take both; region 2 has one."""
    table = Table(TABLE.regions, tuple(s for s in TABLE.sites if s.id not in (10, 11)))
    words, expected, cut = [], [], Counter[int]()
    for region in regions:
        sites = [8, 9] if region == 2 else [4 * region, 4 * region + 1, 12, 4 * region + 2, 4 * region + 3]
        first = len(words)
        words += [(site, 1000 + 10 * (first + i)) for i, site in enumerate(sites)]
        if len(words) <= slots:
            expected.append((region, 1000 + 10 * first, words[-1][1], 20 if region < 2 else 10))
        elif first < slots:
            cut[region] += 1
    layout = Layout(1, slots, "global", wraps=False)
    spans = pair(decode(handmade.block(layout, clocks=(1000, 9000), warps=[words]), layout), table)
    found = zip(spans.region, spans.start, spans.end, spans.busy)
    assert [row for row in found if row[0] != 3] == expected
    assert (spans.cut, spans.unpaired, spans.headless) == (cut, {}, {})


@given(st.lists(st.integers(0, 12), max_size=40))
@settings(max_examples=100, deadline=None)
def test_parts_add_up_to_busy(sites: list[int]) -> None:
    spans = _pair([sites])
    for i in range(len(spans.row)):
        mine = spans.parts.span == i
        assert (spans.parts.end[mine] - spans.parts.start[mine]).sum() == spans.busy[i]
        assert mine.sum() == max(spans.pieces[i], 1)


@pytest.mark.parametrize("record_bytes", [8, 16])
def test_an_interrupted_instance_is_one_span(record_bytes: int) -> None:
    """Region 0 is interrupted by region 1 and goes on."""
    spans = _pair([[0, 1, 4, 5, 2, 3]], record_bytes=record_bytes)
    assert spans.region.tolist() == [0, 1]
    assert spans.start.tolist() == [1000, 1020]
    assert spans.end.tolist() == [1050, 1030]
    assert spans.busy.tolist() == [20, 10]
    assert spans.pieces.tolist() == [2, 1]
    assert not spans.unpaired


def test_regions_may_cross() -> None:
    spans = _pair([[0, 4, 1, 5]])
    assert spans.start.tolist() == [1000, 1010]
    assert spans.end.tolist() == [1020, 1030]
    assert not spans.unpaired


def test_sites_of_no_table_are_counted() -> None:
    spans = _pair([[0, 99, 1]])
    assert spans.unknown_sites == 1
    assert spans.region.tolist() == [0]


def test_sites_go_by_their_ids() -> None:
    table = Table((Region(0, "a"), Region(1, "b")), (Site(9, 1, "end"), Site(4, 1, "start"), Site(2, 0, "mark")))
    layout = Layout(1, 8, "global")
    words = [(4, 1100), (2, 1110), (0, 1120), (9, 1130), (10, 1140)]
    spans = pair(decode(handmade.block(layout, warps=[words]), layout), table)
    assert (spans.region.tolist(), spans.start.tolist(), spans.end.tolist()) == ([1, 0], [1100, 1110], [1130, 1110])
    assert (spans.unknown_sites, spans.unpaired) == (2, {})


def test_an_empty_table() -> None:
    layout = Layout(1, 4, "global")
    spans = pair(decode(handmade.block(layout, warps=[[(0, 1100)]]), layout), Table((), ()))
    assert (len(spans.row), spans.unknown_sites) == (0, 1)
