"""Scratch blocks -> records in the order they were written, clocks unwrapped.

Layout of the words: `kperfir.records`. Everything is vectorised over the CTAs and
warps of a chunk.

A 32-bit clock is unwrapped along each warp's records. A step back of less than 2^20
cycles is skew between reads, not a wrap: the counter needs 2^32 cycles, about two
seconds, to come round. A warp whose ring holds everything is tied forward from the
header's 64-bit start clock, one whose ring wrapped backward from its end clock. What
is left between the records and the other end of the header tells whether a whole turn
of the counter can be hidden in a gap; if it can, the warp's clocks are ambiguous.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from kperfir.records import (
    CTA_OFFSET,
    END_CLOCK_OFFSET,
    END_TIME_OFFSET,
    HEADER_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    NARROW_RECORD_BYTES,
    SM_OFFSET,
    START_CLOCK_OFFSET,
    START_TIME_OFFSET,
    STATE_FINISHED,
    STATE_OFFSET,
    Layout,
)

WRAP_CYCLES = 1 << 32
SKEW_CYCLES = 1 << 20
_WORD_BYTES = 4

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Payload = memoryview | bytes


@dataclass(frozen=True)
class Headers:
    """CTAs that ran: one entry each, in the order of their blocks.

    Attributes:
        start_time_ns, end_time_ns: global time.
        finished: whether the CTA reached its end, after its start; only then are its end and counts known.
    """

    cta: I64
    sm: I64
    start_clock: I64
    start_time_ns: I64
    end_clock: I64
    end_time_ns: I64
    finished: Flags

    def __len__(self) -> int:
        return len(self.cta)


@dataclass(frozen=True)
class Records:
    """Records of a launch or of a part of it, by CTA, then warp, then time.

    Attributes:
        row: index into the headers. warp: number of the warp's ring. site: of each record.
        version: of each record, or the 32 bits of what it carries; -1 where a record has no room for one.
        wraps: newer records took the place of older ones.
        clock: unwrapped, on the SM's own 64-bit counter.
        ambiguous: the clock may be off by multiples of 2^32 cycles.
        written, kept: records of each header row and warp, shape (rows, warps).
        unfinished: warps that have written and did not end, as rings in host memory show them; what they
            have written is at least `written`.
    """

    headers: Headers
    row: I64
    warp: I64
    site: I64
    version: I64
    clock: I64
    ambiguous: Flags
    written: I64
    kept: I64
    unfinished: Flags
    wraps: bool = True


def read_headers(payload: Payload, layout: Layout) -> Headers:
    """Headers alone, without a look at the rings.

    Args:
        payload: scratch blocks; a rest that fills no block is left out.
    """
    return _headers(_ran(payload, layout))


def ran_blocks(payload: Payload, layout: Layout) -> tuple[NDArray[np.uint32], I64]:
    """All words, shape (blocks, words of a block), and the rows of CTAs that ran."""
    blocks = _ran(payload, layout)
    return blocks.words, blocks.rows


def decode(payload: Payload, layout: Layout) -> Records:
    """Decode whole scratch blocks; those of sums and of addresses hold no records of times.

    Args:
        payload: scratch blocks; a rest that fills no block is left out.
    """
    blocks = _ran(payload, layout)
    headers = _headers(blocks)
    first_count = HEADER_BYTES // _WORD_BYTES
    written = blocks.words[blocks.rows, first_count : first_count + layout.warps].astype(np.int64)
    unfinished = np.zeros(written.shape, np.bool_)
    if layout.is_read_early:
        written, unfinished = _so_far(blocks, written, layout)
    else:
        written[~headers.finished | layout.holds_sums | layout.holds_addresses] = 0
    kept = np.minimum(written, layout.slots)
    row, warp, slot, first = _slots(written, kept, layout)
    word = layout.rings_offset_bytes + warp * layout.ring_bytes + slot * layout.record_bytes
    word //= _WORD_BYTES
    site = blocks.at(row, word)
    starts = (written == kept) | (not layout.wraps)
    is_narrow = layout.record_bytes == NARROW_RECORD_BYTES
    version = np.full_like(site, -1) if is_narrow else blocks.at(row, word + 1)
    if is_narrow:
        clock, ambiguous = _unwrap(blocks.at(row, word + 1), first, headers, row, starts[row, warp])
    else:
        clock, ambiguous = _long(blocks.at(row, word + 2), blocks.at(row, word + 3)), np.zeros(len(row), np.bool_)
    return Records(headers, row, warp, site, version, clock, ambiguous, written, kept, unfinished, layout.wraps)


def join(parts: list[Records]) -> Records:
    """Records of one launch from those of its chunks; there is at least one."""
    sizes = np.cumsum([0] + [len(part.headers) for part in parts])
    joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Records)[1:-1]}
    joined["row"] = np.concatenate([part.row + size for part, size in zip(parts, sizes, strict=False)])
    return Records(join_headers([part.headers for part in parts]), **joined, wraps=parts[0].wraps)


def join_headers(parts: list[Headers]) -> Headers:
    """Headers of one launch from those of its chunks; there is at least one."""
    return Headers(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Headers)})


@dataclass(frozen=True)
class _Blocks:
    """All words, shape (blocks, words of a block), and the rows of CTAs that ran."""

    words: NDArray[np.uint32]
    rows: I64

    def at(self, row: I64, word: I64) -> I64:
        found: I64 = self.words[self.rows[row], word].astype(np.int64)
        return found

    def column(self, offset_bytes: int) -> I64:
        found: I64 = self.words[self.rows, offset_bytes // _WORD_BYTES].astype(np.int64)
        return found

    def long_column(self, offset_bytes: int) -> I64:
        return _long(self.column(offset_bytes), self.column(offset_bytes + _WORD_BYTES))


def _ran(payload: Payload, layout: Layout) -> _Blocks:
    count = len(payload) // layout.cta_bytes
    block_words = layout.cta_bytes // _WORD_BYTES
    words = np.frombuffer(payload, np.dtype("<u4"), count * block_words).reshape(count, block_words)
    return _Blocks(words, np.flatnonzero(words[:, MAGIC_OFFSET // _WORD_BYTES] == MAGIC))


def _long(low: I64, high: I64) -> I64:
    return low | (high << 32)


def _headers(blocks: _Blocks) -> Headers:
    clocks = blocks.long_column(START_CLOCK_OFFSET), blocks.long_column(END_CLOCK_OFFSET)
    times_ns = blocks.long_column(START_TIME_OFFSET), blocks.long_column(END_TIME_OFFSET)
    ordered = np.all([(start >= 0) & (start <= end + SKEW_CYCLES) for start, end in (clocks, times_ns)], axis=0)
    return Headers(
        cta=blocks.column(CTA_OFFSET),
        sm=blocks.column(SM_OFFSET),
        start_clock=clocks[0],
        start_time_ns=times_ns[0],
        end_clock=clocks[1],
        end_time_ns=times_ns[1],
        finished=(blocks.column(STATE_OFFSET) == STATE_FINISHED) & ordered,
    )


def _so_far(blocks: _Blocks, counts: I64, layout: Layout) -> tuple[I64, Flags]:
    """What each warp has written, of one without a count at least, and whether it had not ended.

    A warp's clocks rise round its ring, so that behind its newest record lies its oldest, or a slot
    that is not written.
    """
    row, warp = np.nonzero(counts == 0)
    rings = blocks.words[blocks.rows, layout.rings_offset_bytes // _WORD_BYTES :].reshape(
        *counts.shape, layout.ring_bytes // _WORD_BYTES
    )
    records = rings[row, warp].astype(np.int64).reshape(len(row), layout.slots, layout.record_bytes // _WORD_BYTES)
    clock = _long(records[..., 2], records[..., 3])
    used = (clock != 0).cumprod(axis=1).sum(axis=1)
    newest = (clock == clock.max(axis=1, keepdims=True)) & (np.roll(clock, -1, axis=1) != clock)
    at = np.where(newest.any(axis=1), newest.argmax(axis=1), layout.slots - 1)
    came_round = (used == layout.slots) & (at < layout.slots - 1)
    written = counts.copy()
    written[row, warp] = np.where(came_round, layout.slots + at + 1, used)
    return written, (counts == 0) & (written > 0)


def _slots(written: I64, kept: I64, layout: Layout) -> tuple[I64, I64, I64, Flags]:
    """Header row, warp and ring slot of every kept record, oldest first; and whether it is its warp's first."""
    flat = kept.ravel()
    owner = np.repeat(np.arange(flat.size), flat)
    position = np.arange(owner.size) - (np.cumsum(flat) - flat)[owner]
    slots = layout.slots
    oldest = np.where(layout.wraps & (written.ravel() > slots), written.ravel() % slots, 0)
    warps = written.shape[1]
    slot = (oldest[owner] + position) % slots
    return owner // warps, owner % warps, slot, position == 0


def _unwrap(low: I64, first: Flags, headers: Headers, row: I64, whole: Flags) -> tuple[I64, Flags]:
    """Low halves of the clock -> the SM's 64-bit clock, and whether it is ambiguous.

    Args:
        first: the record is the oldest of its warp.
        whole: the ring of the record's warp holds all that was written, from its start on.
    """
    if not len(low):
        return low, np.zeros(0, np.bool_)
    turned = np.diff(low, prepend=low[:1]) % WRAP_CYCLES
    step = np.where(turned >= WRAP_CYCLES - SKEW_CYCLES, turned - WRAP_CYCLES, turned)
    step[first] = 0
    begins = np.flatnonzero(first)
    lasts = np.append(begins[1:], len(low)) - 1
    total = np.cumsum(step)
    length = total[lasts] - total[begins]
    start, end = headers.start_clock[row[begins]], headers.end_clock[row[begins]]
    forward = _at_or_after(start - SKEW_CYCLES, low[begins])
    # A warp may end after the one that wrote the header: take the widest window that is still one turn.
    backward = _at_or_after(np.maximum(start - SKEW_CYCLES, end + SKEW_CYCLES - WRAP_CYCLES), low[lasts]) - length
    room = np.where(whole[begins], end - (forward + length), backward - start)
    doubtful = (room >= WRAP_CYCLES - SKEW_CYCLES) | (~whole[begins] & (room < -SKEW_CYCLES))
    warp = np.cumsum(first) - 1
    anchor = np.where(whole[begins], forward, backward) - total[begins]
    return anchor[warp] + total, doubtful[warp]


def _at_or_after(reference: I64, low: I64) -> I64:
    """The first 64-bit clock from the reference on that has these low bits."""
    clock: I64 = reference + (low - reference) % WRAP_CYCLES
    return clock
