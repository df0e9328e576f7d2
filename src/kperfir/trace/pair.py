"""Records -> spans: a start and its end, with the pieces of one instance joined.

In each warp the records of one region are a bracket sequence: an end belongs to the
newest start of its region that is still open. Regions are paired independently, so
they may cross. Vectorised over a whole launch: with every bracket's nesting level
known, partners are neighbours in the order (warp, region, level, time). Events are
paired by their ids instead (`kperfir.trace.async_pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kperfir.records import Table
from kperfir.trace.async_pairs import event_partners
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
        version: of the start, -1 where it has none. scalar: 32 bits that it carries, -1 where it carries none.
        instance: number of the span among those kept of its warp and region.
        depth: spans that are open around it in its warp.
        start, end: clock; equal for a mark. busy: its parts' lengths added up.
        pieces: parts it consists of; 0 for a mark. end_warp: number of the ring that its end is in.
        cut: region id -> ends whose start was overwritten, or instances whose end found no slot.
        standing: where warps stood that did not end.
        unpaired: region id -> other records without partner.
        headless: region id -> pieces whose instance began before the oldest kept record.
        unknown_sites: records of a site that the table does not have.
    """

    row: I64
    warp: I64
    region: I64
    version: I64
    scalar: I64
    instance: I64
    depth: I64
    start: I64
    end: I64
    busy: I64
    pieces: I64
    end_warp: I64
    ambiguous: Flags
    parts: Parts
    standing: Standing
    cut: dict[int, int]
    unpaired: dict[int, int]
    headless: dict[int, int]
    unknown_sites: int


@dataclass(frozen=True)
class _Known:
    """Records of sites that the table has, one entry each.

    Attributes:
        row, warp, clock, ambiguous: as in `Records`. version, scalar: -1 where the site has none.
        site: its place in the table. region, piece, opens, mark, event: of the site.
        is_last: the piece is the last of its region.
        group: number of its warp and region.
        full: its warp wrote more records than were kept. unfinished: its warp did not end.
    """

    row: I64
    warp: I64
    clock: I64
    ambiguous: Flags
    version: I64
    scalar: I64
    site: I64
    region: I64
    piece: I64
    opens: Flags
    mark: Flags
    event: Flags
    is_last: Flags
    group: I64
    full: Flags
    unfinished: Flags


@dataclass(frozen=True)
class _Instances:
    """Pairs of records and marks, by group and then time, an instance's pieces side by side.

    Attributes:
        starts, ends: index of both records of each part; of a mark the same.
        heads: index of each instance's first part. number: of each instance in its group.
    """

    starts: I64
    ends: I64
    heads: I64
    number: I64

    @property
    def owner(self) -> I64:
        """Instance of each part."""
        found: I64 = np.repeat(np.arange(len(self.heads)), np.diff(np.append(self.heads, len(self.starts))))
        return found

    def fold(self, how: np.ufunc, values: I64) -> I64:
        """Fold a value of each part by instance."""
        folded: I64 = how.reduceat(values, self.heads) if len(self.heads) else values[:0]
        return folded


def pair(records: Records, table: Table) -> Spans:
    """Pair the records of one launch."""
    known, unknown_sites = _known(records, table)
    starts, ends = _partners(known.group, known.opens, known.mark | known.event)
    depth = _depth(len(known.row), starts, ends)
    event_starts, event_ends = _event_partners(known)
    starts, ends = np.append(starts, event_starts), np.append(ends, event_ends)
    single = np.ones(len(known.row), np.bool_)
    single[starts], single[ends], single[known.mark] = False, False, False
    full, unfinished = _beside(known, records)
    stands = single & unfinished & known.opens
    cut = single & full & (known.event | (known.opens != records.wraps))
    # a ring that is just full may have come round
    cut |= single & unfinished & ~known.opens
    instances, headless = _joined(known, starts, ends)
    unended = np.zeros(0, np.int64)
    if not records.wraps:
        instances, unended = _without_unended(known, instances, cut)
    counted = cut & ~stands & ~((known.piece > 0) & np.isin(known.group, known.group[unended]))
    return _spans(
        known,
        instances,
        depth,
        standing=_standing(known, stands & ~known.event),
        cut=_counts(np.append(known.region[counted], known.region[unended])),
        unpaired=_counts(known.region[single & ~cut & ~stands]),
        headless=_counts(known.region[headless]),
        unknown_sites=unknown_sites,
    )


def _known(records: Records, table: Table) -> tuple[_Known, int]:
    """The records with what the table says of their sites, and how many of them it does not know."""
    place_of = np.full(max((s.id + 1 for s in table.sites), default=0) + 1, -1)
    place_of[[s.id for s in table.sites]] = np.arange(len(table.sites))
    sites = place_of[np.minimum(records.site, len(place_of) - 1)]
    known = sites >= 0
    row, warp, site = records.row[known], records.warp[known], sites[known]
    region_of, piece_of = _column([s.region for s in table.sites]), _column([s.piece for s in table.sites])
    last_piece = np.zeros(max(region_of, default=0) + 1, np.int64)
    np.maximum.at(last_piece, region_of, piece_of)
    versioned, carries, event, mark, opens = (
        np.array(flags, np.bool_)[site]
        for flags in (
            [s.versioned for s in table.sites],
            [table.regions[s.region].scalar is not None for s in table.sites],
            [table.regions[s.region].origin == "event" for s in table.sites],
            [s.kind in ("mark", "value") for s in table.sites],
            [s.kind == "start" for s in table.sites],
        )
    )
    region, piece = region_of[site], piece_of[site]
    found = _Known(
        row=row,
        warp=warp,
        clock=records.clock[known],
        ambiguous=records.ambiguous[known],
        version=np.where(versioned, records.version[known], -1),
        scalar=np.where(carries, records.version[known], -1),
        site=site,
        region=region,
        piece=piece,
        opens=opens,
        mark=mark,
        event=event,
        is_last=piece == last_piece[region],
        group=(row * records.written.shape[1] + warp) * max(len(table.regions), 1) + region,
        full=(records.written > records.kept)[row, warp],
        unfinished=records.unfinished[row, warp],
    )
    return found, int((~known).sum())


def _joined(known: _Known, starts: I64, ends: I64) -> tuple[_Instances, I64]:
    """Pairs and marks as instances; and the starts of pieces whose instance began before the oldest kept record."""
    marks = np.flatnonzero(known.mark)
    starts, ends = np.concatenate([starts, marks]), np.concatenate([ends, marks])
    order = np.lexsort((starts, known.group[starts]))
    starts, ends = starts[order], ends[order]
    opener = known.piece[starts] == 0
    number = _number(known.group[starts], opener)
    has_head = number >= 0
    heads = np.flatnonzero(opener[has_head])
    return _Instances(starts[has_head], ends[has_head], heads, number[has_head][heads]), starts[~has_head]


def _without_unended(known: _Known, found: _Instances, cut: Flags) -> tuple[_Instances, I64]:
    """Leave out instances whose later pieces found no slot; also the first record of each of these.

    It can only be the newest of its group: one that another follows had all its pieces.
    """
    first = found.starts[found.heads]
    group = known.group[first]
    newest = np.append(group[1:] != group[:-1], True)[: len(group)]
    newest &= ~np.isin(group, known.group[cut & (known.piece == 0)])
    ended = found.fold(np.maximum, known.is_last[found.starts].astype(np.int64)) > 0
    unended = newest & known.full[first] & ~ended
    kept = ~unended[found.owner]
    heads = np.flatnonzero(known.piece[found.starts[kept]] == 0)
    return _Instances(found.starts[kept], found.ends[kept], heads, found.number[~unended]), first[unended]


def _spans(known: _Known, found: _Instances, depth: I64, **losses: Any) -> Spans:
    """Spans of instances, by time."""
    starts, ends = found.starts, found.ends
    first = starts[found.heads]
    by_time = np.argsort(first, kind="stable")
    place = np.empty_like(by_time)
    place[by_time] = np.arange(len(by_time))
    first = first[by_time]
    doubtful = (known.ambiguous[starts] | known.ambiguous[ends]).astype(np.int64)
    return Spans(
        row=known.row[first],
        warp=known.warp[first],
        region=known.region[first],
        version=known.version[first],
        scalar=known.scalar[first],
        instance=found.number[by_time],
        depth=depth[first],
        start=known.clock[first],
        end=found.fold(np.maximum, known.clock[ends])[by_time],
        busy=found.fold(np.add, known.clock[ends] - known.clock[starts])[by_time],
        pieces=found.fold(np.add, (~known.mark[starts]).astype(np.int64))[by_time],
        end_warp=found.fold(np.maximum, known.warp[ends])[by_time],
        ambiguous=found.fold(np.add, doubtful)[by_time] > 0,
        parts=Parts(place[found.owner], known.clock[starts], known.clock[ends]),
        **losses,
    )


def _standing(known: _Known, stands: Flags) -> Standing:
    """Where each warp stood that had not ended; `stands`: its starts without an end."""
    of = np.flatnonzero(known.unfinished)
    row, warp = known.row[of], known.warp[of]
    begins = np.flatnonzero(np.append(True, (np.diff(row) != 0) | (np.diff(warp) != 0))[: len(of)])
    last = of[np.append(begins[1:], len(of))[: len(begins)] - 1]
    newest = np.maximum.reduceat(np.where(stands[of], of, -1), begins) if len(begins) else of
    region = np.where(newest >= 0, known.region[newest], -1)
    return Standing(known.row[last], known.warp[last], region, known.site[last], known.version[last], known.clock[last])


def _beside(known: _Known, records: Records) -> tuple[Flags, Flags]:
    """Whether the warp of each record's partner lost records, or did not end; of an event it may be any of its CTA."""
    full: Flags = np.any(records.written > records.kept, axis=1)
    unfinished: Flags = np.any(records.unfinished, axis=1)
    return (
        np.where(known.event, full[known.row], known.full),
        np.where(known.event, unfinished[known.row], known.unfinished),
    )


def _event_partners(known: _Known) -> tuple[I64, I64]:
    """Indices of starts and ends of events."""
    of = np.flatnonzero(known.event)
    key = (known.scalar[of], known.region[of], known.row[of])
    starts, ends = event_partners(key, known.clock[of], known.opens[of])
    return of[starts], of[ends]


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


def _counts(regions: I64) -> dict[int, int]:
    found, counts = np.unique(regions, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))
