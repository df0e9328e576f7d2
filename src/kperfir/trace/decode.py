"""Scratch blocks -> records in the order they were written, clocks unwrapped.

Layout of the words: `kperfir.records`. Everything is vectorised over the CTAs and
warps of a chunk.

A 32-bit clock is unwrapped along each warp's records. A step back of less than
2^20 cycles is skew between reads, not a wrap: the counter needs 2^32 cycles (two
seconds) to come round. The first kept record is tied to the header: forward from
the start clock where the ring holds everything, else backward from the end clock.
A gap of more than half the range between neighbours cannot be told from a wrap
plus a gap, so what follows is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kperfir.records import (
    CTA_OFFSET,
    END_CLOCK_OFFSET,
    END_TIME_OFFSET,
    HEADER_BYTES,
    MAGIC,
    NARROW_RECORD_BYTES,
    SM_OFFSET,
    START_CLOCK_OFFSET,
    START_TIME_OFFSET,
    STATE_FINISHED,
    STATE_OFFSET,
    Layout,
)

WRAP = 1 << 32
SKEW_CYCLES = 1 << 20

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Headers:
    """One entry a CTA that ran, in the order of the chunk."""

    cta: I64
    sm: I64
    start_clock: I64
    start_time_ns: I64
    end_clock: I64
    end_time_ns: I64
    finished: NDArray[np.bool_]


@dataclass(frozen=True)
class Records:
    """Records of one chunk, by CTA, then warp, then time.

    Attributes:
        row: index into the headers. warp, site: of each record.
        clock: unwrapped, on the SM's own 64-bit counter.
        ambiguous: the clock may be off by multiples of 2^32 cycles.
        written, kept: records of each (header row, warp), shape (rows, warps).
        missing_ctas: blocks of CTAs that never ran.
    """

    headers: Headers
    row: I64
    warp: I64
    site: I64
    clock: I64
    ambiguous: NDArray[np.bool_]
    written: I64
    kept: I64
    missing_ctas: int


def decode(payload: memoryview | bytes, layout: Layout) -> Records:
    """Decode whole scratch blocks.

    Args:
        payload: a multiple of `layout.cta_bytes` bytes; a rest is left out.
    """
    ctas = len(payload) // layout.cta_bytes
    blocks = np.frombuffer(payload, np.uint8, ctas * layout.cta_bytes).reshape(ctas, layout.cta_bytes)
    ran = _word(blocks, 0) == MAGIC
    blocks = blocks[ran]
    headers = _headers(blocks)
    counts = np.ascontiguousarray(blocks[:, HEADER_BYTES : HEADER_BYTES + 4 * layout.warps]).view(np.uint32)
    written = counts.astype(np.int64).reshape(len(blocks), layout.warps)
    written[~headers.finished] = 0
    kept = np.minimum(written, layout.slots)
    row, warp, slot, first = _slots(written, kept, layout.slots)
    site, low, wide = _words(blocks, layout, row, warp, slot)
    if layout.record_bytes == NARROW_RECORD_BYTES:
        clock, ambiguous = _unwrap(low, first, headers, row, warp, written, kept)
    else:
        clock, ambiguous = wide, np.zeros(len(row), np.bool_)
    return Records(headers, row, warp, site, clock, ambiguous, written, kept, int(ctas - ran.sum()))


def _word(blocks: NDArray[np.uint8], offset: int) -> U32:
    return np.ascontiguousarray(blocks[:, offset : offset + 4]).view(np.uint32)[:, 0]


def _long(blocks: NDArray[np.uint8], offset: int) -> I64:
    return np.ascontiguousarray(blocks[:, offset : offset + 8]).view(np.int64)[:, 0]


def _headers(blocks: NDArray[np.uint8]) -> Headers:
    return Headers(
        cta=_word(blocks, CTA_OFFSET).astype(np.int64),
        sm=_word(blocks, SM_OFFSET).astype(np.int64),
        start_clock=_long(blocks, START_CLOCK_OFFSET),
        start_time_ns=_long(blocks, START_TIME_OFFSET),
        end_clock=_long(blocks, END_CLOCK_OFFSET),
        end_time_ns=_long(blocks, END_TIME_OFFSET),
        finished=_word(blocks, STATE_OFFSET) == STATE_FINISHED,
    )


def _slots(written: I64, kept: I64, slots: int) -> tuple[I64, I64, I64, NDArray[np.bool_]]:
    """Header row, warp and ring slot of every kept record, oldest first; and whether it is its warp's first."""
    flat = kept.ravel()
    total = int(flat.sum())
    owner = np.repeat(np.arange(flat.size), flat)
    starts = np.cumsum(flat) - flat
    position = np.arange(total) - starts[owner]
    oldest = np.where(written.ravel() > slots, written.ravel() % slots, 0)
    slot = (oldest[owner] + position) % slots
    warps = written.shape[1] if written.ndim == 2 else 1
    return owner // warps, owner % warps, slot, position == 0


def _words(blocks: NDArray[np.uint8], layout: Layout, row: I64, warp: I64, slot: I64) -> tuple[I64, I64, I64]:
    rings = np.ascontiguousarray(blocks[:, layout.rings_offset_bytes : layout.cta_bytes]).view(np.uint32)
    words = layout.record_bytes // 4
    rings = rings.reshape(len(blocks), layout.warps, layout.slots, words)
    found = rings[row, warp, slot]
    site, low = found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)
    wide = np.ascontiguousarray(found[:, 2:4]).view(np.int64)[:, 0] if words == 4 else low
    return site, low, wide


def _unwrap(
    low: I64, first: NDArray[np.bool_], headers: Headers, row: I64, warp: I64, written: I64, kept: I64
) -> tuple[I64, NDArray[np.bool_]]:
    """Low halves of the clock -> the SM's 64-bit clock."""
    if not len(low):
        return low, np.zeros(0, np.bool_)
    forward = (np.diff(low, prepend=low[:1])) % WRAP
    step = np.where(forward >= WRAP - SKEW_CYCLES, forward - WRAP, forward)
    step[first] = 0
    total = np.cumsum(step)
    begin = np.maximum.accumulate(np.where(first, np.arange(len(low)), 0))
    relative = total - total[begin]
    whole = (written == kept)[row, warp]
    anchored = _near(low[begin], headers.start_clock[row])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)
    group = np.cumsum(first) - 1
    end = _before(low[last], headers.end_clock[row[last]])
    backward = (end - relative[last])[group]
    clock = np.where(whole, anchored + relative, backward + relative)
    wide_gap = (step > WRAP // 2) & ~first
    after_gap = np.cumsum(wide_gap) - np.cumsum(wide_gap)[begin] > 0
    span = (headers.end_clock - headers.start_clock)[row]
    return clock, after_gap | (~whole & (span > WRAP))


def _near(low: I64, reference: I64) -> I64:
    """The 64-bit clock with these low bits at or after the reference, or slightly before it."""
    ahead = (low - reference) % WRAP
    return reference + np.where(ahead >= WRAP - SKEW_CYCLES, ahead - WRAP, ahead)


def _before(low: I64, reference: I64) -> I64:
    """The 64-bit clock with these low bits at or before the reference, or slightly after it."""
    behind = (reference - low) % WRAP
    return reference - np.where(behind >= WRAP - SKEW_CYCLES, behind - WRAP, behind)
