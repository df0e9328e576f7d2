"""Sums that a kernel added up itself -> count, total, least and greatest of each region.

Layout of an entry: `kperfir.records`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from kperfir.records import COUNT_OFFSET, GREATEST_OFFSET, LEAST_OFFSET, SUM_OFFSET, SUMS_BYTES, Layout
from kperfir.trace.decode import I64, Payload, ran_blocks, read_headers

_WORD_BYTES = 4


@dataclass(frozen=True)
class Sums:
    """Sums of each region, shape (CTAs that ran, warps that have sums, regions), in the kernel's unit.

    Attributes:
        count: instances, or marks. total: of all their parts.
        least, greatest: of uninterrupted parts; 0 where there is none.
    """

    count: I64
    total: I64
    least: I64
    greatest: I64


def read_sums(payload: Payload, layout: Layout) -> Sums:
    """Read whole scratch blocks; a CTA that did not finish has no sums, because they may be incomplete."""
    words, rows = ran_blocks(payload, layout)
    rings = words[rows, layout.rings_offset_bytes // _WORD_BYTES :]
    entries = rings.reshape(len(rows), layout.warps, layout.slots, SUMS_BYTES // _WORD_BYTES).copy()
    entries[~read_headers(payload, layout).finished] = 0
    count, total, greatest, complement = (
        entries[..., offset // _WORD_BYTES] for offset in (COUNT_OFFSET, SUM_OFFSET, GREATEST_OFFSET, LEAST_OFFSET)
    )
    least = np.where(complement == 0, 0, ~complement)  # nothing was added yet: a part never took 2^32 - 1
    return Sums(*(values.astype(np.int64) for values in (count, total, least, greatest)))


def join_sums(parts: list[Sums]) -> Sums:
    """Sums of one launch from those of its chunks; there is at least one."""
    return Sums(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Sums)))
