"""Records -> spans: a start and its end, with the pieces of one instance joined.

In each warp the records of one region are a bracket sequence: an end belongs to the
newest start of its region that is still open. Regions are paired independently, so
they may cross. Vectorised over a whole launch: with every bracket's nesting level
known, partners are neighbours in the order (warp, region, level, time).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kperfir.records import Table
from kperfir.trace.decode import I64, Flags, Records


@dataclass(frozen=True)
class Parts:
    """Uninterrupted parts of spans: one for most, one a piece for an instance that a sibling interrupts.

    Attributes:
        span: index into the spans. start, end: clock.
    """

    span: I64
    start: I64
    end: I64


@dataclass(frozen=True)
class Standing:
    """Warps that had not ended, one entry each.

    Attributes:
        row: index into the headers. warp: number of the warp's ring.
        open_region: of its starts without an end the newest; -1 where there is none.
        site, version, clock: of its newest record; version -1 where it has none.
    """

    row: I64
    warp: I64
    open_region: I64
    site: I64
    version: I64
    clock: I64


@dataclass(frozen=True)
class Spans:
    """Spans and marks, one entry each, by CTA, warp and start.

    Attributes:
        row: index into the headers. warp: number of the warp's ring. region: what.
        version: of the start, -1 where it has none.
        instance: number of the span among those kept of its warp and region.
        depth: spans that are open around it in its warp.
        start, end: clock; equal for a mark. busy: its parts' lengths added up.
        pieces: parts it consists of; 0 for a mark.
        cut: region id -> ends whose start was overwritten, or starts whose end found no slot.
        standing: where warps stood that did not end.
        unpaired: region id -> other records without partner.
        headless: region id -> pieces whose instance began before the oldest kept record.
        unknown_sites: records of a site that the table does not have.
    """

    row: I64
    warp: I64
    region: I64
    version: I64
    instance: I64
    depth: I64
    start: I64
    end: I64
    busy: I64
    pieces: I64
    ambiguous: Flags
    parts: Parts
    standing: Standing
    cut: dict[int, int]
    unpaired: dict[int, int]
    headless: dict[int, int]
    unknown_sites: int


def pair(records: Records, table: Table) -> Spans:
    """Pair the records of one launch."""
    place_of = np.full(max((s.id + 1 for s in table.sites), default=0) + 1, -1)
    place_of[[s.id for s in table.sites]] = np.arange(len(table.sites))
    sites = place_of[np.minimum(records.site, len(place_of) - 1)]
    known = sites >= 0
    row, warp, site = records.row[known], records.warp[known], sites[known]
    clock, doubt = records.clock[known], records.ambiguous[known]
    region = _column([s.region for s in table.sites])[site]
    piece = _column([s.piece for s in table.sites])[site]
    versioned = np.array([s.versioned for s in table.sites], np.bool_)[site]
    version = np.where(versioned, records.version[known], -1)
    mark = np.array([s.kind == "mark" for s in table.sites], np.bool_)[site]
    opens = np.array([s.kind == "start" for s in table.sites], np.bool_)[site]
    group = (row * records.written.shape[1] + warp) * max(len(table.regions), 1) + region
    starts, ends = _partners(group, opens, mark)
    single = np.ones(len(row), np.bool_)
    single[starts], single[ends], single[mark] = False, False, False
    wrapped = (records.written > records.kept)[row, warp]
    cut = single & wrapped & (opens != records.wraps)
    unfinished = records.unfinished[row, warp]
    stands = single & unfinished & opens
    # a ring that is just full may have come round
    cut |= single & unfinished & ~opens
    depth = _depth(len(row), starts, ends)

    open_region = np.where(stands, region, -1)
    standing = _standing(np.flatnonzero(unfinished), row, warp, open_region, site, version, clock)

    # From here on parts: (start, end) of every pair and mark, an instance's pieces side by side.
    marks = np.flatnonzero(mark)
    starts, ends = np.concatenate([starts, marks]), np.concatenate([ends, marks])
    order = np.lexsort((starts, group[starts]))
    starts, ends = starts[order], ends[order]
    opener = piece[starts] == 0
    number = _number(group[starts], opener)
    headless = region[starts[number < 0]]
    starts, ends, opener, number = (a[number >= 0] for a in (starts, ends, opener, number))
    heads = np.flatnonzero(opener)
    first = starts[heads]
    by_time = np.argsort(first, kind="stable")
    place = np.empty_like(by_time)
    place[by_time] = np.arange(len(by_time))
    sorted_first = first[by_time]
    return Spans(
        row=row[sorted_first],
        warp=warp[sorted_first],
        region=region[sorted_first],
        version=version[sorted_first],
        instance=number[heads][by_time],
        depth=depth[sorted_first],
        start=clock[sorted_first],
        end=_reduce(np.maximum, clock[ends], heads)[by_time],
        busy=_reduce(np.add, clock[ends] - clock[starts], heads)[by_time],
        pieces=_reduce(np.add, (~mark[starts]).astype(np.int64), heads)[by_time],
        ambiguous=_reduce(np.add, (doubt[starts] | doubt[ends]).astype(np.int64), heads)[by_time] > 0,
        parts=Parts(place[np.cumsum(opener) - 1], clock[starts], clock[ends]),
        standing=standing,
        cut=_counts(region[cut & ~stands]),
        unpaired=_counts(region[single & ~cut & ~stands]),
        headless=_counts(headless),
        unknown_sites=int((~known).sum()),
    )


def _standing(of: I64, row: I64, warp: I64, open_region: I64, site: I64, version: I64, clock: I64) -> Standing:
    """From records, in the order of warps and time; `of`: those of warps that had not ended."""
    begins = np.flatnonzero(np.append(True, (np.diff(row[of]) != 0) | (np.diff(warp[of]) != 0))[: len(of)])
    last = of[np.append(begins[1:], len(of))[: len(begins)] - 1]
    # of each warp the place of its newest start without an end, before the first record where it has none
    newest = _reduce(np.maximum, np.where(open_region[of] >= 0, of, -1), begins)
    region = np.where(newest >= 0, open_region[newest], -1)
    return Standing(row[last], warp[last], region, site[last], version[last], clock[last])


def _column(values: list[int]) -> I64:
    return np.array(values, np.int64)


def _partners(group: I64, opens: Flags, mark: Flags) -> tuple[I64, I64]:
    """Indices of starts and of their ends."""
    brackets = np.flatnonzero(~mark)
    order = brackets[np.argsort(group[brackets], kind="stable")]
    of, opening = group[order], opens[order]
    height = np.cumsum(np.where(opening, 1, -1))
    level = np.where(opening, height, height + 1)
    # The level's origin differs by group and does not matter: only brackets of one group are compared.
    nested = np.lexsort((level, of))
    order, of, level, opening = order[nested], of[nested], level[nested], opening[nested]
    match = opening[:-1] & ~opening[1:] & (of[:-1] == of[1:]) & (level[:-1] == level[1:])
    at = np.flatnonzero(match)
    return order[at], order[at + 1]


def _depth(count: int, starts: I64, ends: I64) -> I64:
    """Spans open before each record. Both records of a span lie in one warp, so no warp starts inside one."""
    change = np.zeros(count, np.int64)
    change[starts], change[ends] = 1, -1
    depth: I64 = np.cumsum(change) - change
    return depth


def _number(group: I64, opener: Flags) -> I64:
    """Instance of each part within its group, from 0; -1 before the group's first opener."""
    if not len(group):
        return group
    total = np.cumsum(opener)
    first = np.append(True, group[1:] != group[:-1])
    before: I64 = (total - opener)[first]
    number: I64 = total - before[np.cumsum(first) - 1] - np.int64(1)
    return number


def _reduce(how: np.ufunc, values: I64, heads: I64) -> I64:
    """Fold the parts of each span."""
    folded: I64 = how.reduceat(values, heads) if len(heads) else values[:0]
    return folded


def _counts(regions: I64) -> dict[int, int]:
    found, counts = np.unique(regions, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))
