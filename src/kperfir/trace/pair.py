"""Records -> spans: a start and its end, with the pieces of one instance joined.

In each warp the records of one region are a bracket sequence. A start whose end is
missing, or an end whose start was overwritten, is counted and left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kperfir.records import Kind, Table
from kperfir.trace.decode import I64, Records


@dataclass
class Spans:
    """Columns of spans and marks: one entry each, in the order of their starts.

    Attributes:
        row: index into the headers. depth: spans open around it in its warp.
        start, end: clock; equal for a mark. busy: sum of its pieces' lengths.
        pieces: records pairs joined into it.
        unpaired: region id -> records that found no partner.
    """

    row: list[int] = field(default_factory=list)
    warp: list[int] = field(default_factory=list)
    region: list[int] = field(default_factory=list)
    instance: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    ambiguous: list[bool] = field(default_factory=list)
    unpaired: Counter[int] = field(default_factory=Counter)
    unknown_sites: int = 0


def pair(records: Records, table: Table) -> Spans:
    """Pair the records of one chunk."""
    spans = Spans()
    known = len(table.sites)
    region = [s.region for s in table.sites]
    kind = [s.kind for s in table.sites]
    piece = [s.piece for s in table.sites]
    good = (records.site >= 0) & (records.site < known)
    spans.unknown_sites = int((~good).sum())
    row, warp = records.row[good], records.warp[good]
    sites, clocks = records.site[good].tolist(), records.clock[good].tolist()
    doubtful = records.ambiguous[good].tolist()
    for begin, end in _warps(row, warp):
        where = int(row[begin]), int(warp[begin])
        _Warp(spans, region, kind, piece, where).run(sites[begin:end], clocks[begin:end], doubtful[begin:end])
    return spans


def _warps(row: I64, warp: I64) -> list[tuple[int, int]]:
    """Ranges of records of one warp."""
    if not len(row):
        return []
    changes = np.flatnonzero((np.diff(row) != 0) | (np.diff(warp) != 0)) + 1
    edges: NDArray[np.int64] = np.concatenate([[0], changes, [len(row)]])
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


class _Warp:
    def __init__(
        self, spans: Spans, region: list[int], kind: list[Kind], piece: list[int], where: tuple[int, int]
    ) -> None:
        self.spans = spans
        self.region = region
        self.kind = kind
        self.piece = piece
        self.row, self.warp = where
        self.open: list[tuple[int, int, bool, int, int]] = []
        self.newest: dict[int, int] = {}
        self.counts: Counter[int] = Counter()

    def run(self, sites: list[int], clocks: list[int], doubtful: list[bool]) -> None:
        for site, clock, doubt in zip(sites, clocks, doubtful, strict=True):
            kind = self.kind[site]
            if kind == "start":
                self.open.append((self.region[site], clock, doubt, self.piece[site], len(self.open)))
            elif kind == "end":
                self.close(self.region[site], clock, doubt)
            else:
                self.add(self.region[site], clock, clock, doubt, len(self.open))
        for region, *_ in self.open:
            self.spans.unpaired[region] += 1

    def close(self, region: int, clock: int, doubt: bool) -> None:
        """Starts above the matching one lost their ends."""
        at = next((i for i in range(len(self.open) - 1, -1, -1) if self.open[i][0] == region), None)
        if at is None:
            self.spans.unpaired[region] += 1
            return
        for lost, *_ in self.open[at + 1 :]:
            self.spans.unpaired[lost] += 1
        _, start, start_doubt, piece, depth = self.open[at]
        del self.open[at:]
        if piece and region in self.newest:
            index = self.newest[region]
            self.spans.end[index] = clock
            self.spans.busy[index] += clock - start
            self.spans.pieces[index] += 1
            self.spans.ambiguous[index] |= doubt or start_doubt
            return
        self.add(region, start, clock, doubt or start_doubt, depth)

    def add(self, region: int, start: int, end: int, doubt: bool, depth: int) -> None:
        spans = self.spans
        self.newest[region] = len(spans.row)
        spans.row.append(self.row)
        spans.warp.append(self.warp)
        spans.region.append(region)
        spans.instance.append(self.counts[region])
        self.counts[region] += 1
        spans.depth.append(depth)
        spans.start.append(start)
        spans.end.append(end)
        spans.busy.append(end - start)
        spans.pieces.append(1)
        spans.ambiguous.append(doubt)
