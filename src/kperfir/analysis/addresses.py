"""How each memory operation of a kernel accesses global memory: sectors, lines and stride of its requests.

A request is one instruction of one warp. A sector has 32 bytes and a line 128, the
units in which an NVIDIA GPU moves memory to its caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kperfir.records import Access
from kperfir.trace import LaunchTrace
from kperfir.trace.addresses import U64
from kperfir.trace.decode import I64, Flags

SECTOR_BYTES = 32
LINE_BYTES = 128
_AT_ONCE = 1 << 16  # requests; each needs some kilobytes meanwhile

Pattern = Literal["constant", "tiled", "gather", "single", "none"]


@dataclass(frozen=True)
class MemoryOperation:
    """One memory operation of one kernel, over all traced requests.

    Attributes:
        kind, width_bytes, instruction, region, file, line: as in `kperfir.records.Access`.
        requests: that were traced. inactive: those of them in which no lane makes an access.
        active_lanes: mean over the others; so are the following.
        sectors, lines: distinct ones that a request touches.
        ideal_sectors: that its bytes would fill if they lay together; lanes with the same address count once.
        pattern: "constant": neighbouring lanes are `stride_bytes` apart, in every request;
            "tiled": so they are in rows of one length, and the rows are equally far apart;
            "gather": neither; "single": no request has two lanes; "none": none has any.
        stride_bytes: None where it is not constant.
    """

    kind: str
    width_bytes: int
    instruction: str
    region: str
    file: str
    line: int
    requests: int
    inactive: int
    active_lanes: float | None
    sectors: float | None
    lines: float | None
    ideal_sectors: float | None
    pattern: Pattern
    stride_bytes: int | None


def memory_operations(launches: list[LaunchTrace]) -> tuple[MemoryOperation, ...]:
    """All memory operations of one kernel, those without a traced request too.

    Args:
        launches: of this kernel; others, whose addresses were not traced, add nothing.
    """
    traced = [launch.addresses for launch in launches if launch.addresses is not None]
    if not traced:
        return ()
    accesses = launches[0].kernel.table.accesses
    number = np.array([a.operation for a in accesses], np.int64)
    lanes = np.concatenate([t.lanes for t in traced])
    operation = number[np.concatenate([t.access for t in traced])]
    first = {a.operation: a for a in reversed(accesses)}
    return tuple(_operation(first[n], lanes[operation == n]) for n in sorted(first))


def distinct_units(lanes: U64, width_bytes: int, unit_bytes: int) -> I64:
    """How many units of memory each request touches.

    Args:
        lanes: addresses, shape (requests, lanes), 0 where a lane makes no access.
        width_bytes: what a lane accesses, at most one unit more than it begins in.
    """
    parts = [lanes[at : at + _AT_ONCE] for at in range(0, len(lanes), _AT_ONCE)]
    counts = [_distinct_units(part, width_bytes, unit_bytes) for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *counts])


def _distinct_units(lanes: U64, width_bytes: int, unit_bytes: int) -> I64:
    first = lanes // np.uint64(unit_bytes)
    last = (lanes + np.uint64(width_bytes - 1)) // np.uint64(unit_bytes)
    active = lanes != 0
    units = np.concatenate([np.where(active, first, 0), np.where(active, last, 0)], axis=1)
    units.sort(axis=1)
    fresh = np.diff(units, axis=1, prepend=np.uint64(0)) != 0  # unit 0 holds no data
    count: I64 = fresh.sum(axis=1, dtype=np.int64)
    return count


def _operation(access: Access, lanes: U64) -> MemoryOperation:
    active = lanes != 0
    some = active.any(axis=1)
    used, used_lanes = lanes[some], active[some]
    width = access.width_bytes
    apart = distinct_units(used, 1, 1)
    ideal = -(-apart * width // SECTOR_BYTES)
    pattern, stride = _pattern(used, used_lanes)
    return MemoryOperation(
        kind=access.kind,
        width_bytes=width,
        instruction=access.instruction,
        region=access.region,
        file=access.file,
        line=access.line,
        requests=len(lanes),
        inactive=len(lanes) - len(used),
        active_lanes=_mean(used_lanes.sum(axis=1)),
        sectors=_mean(distinct_units(used, width, SECTOR_BYTES)),
        lines=_mean(distinct_units(used, width, LINE_BYTES)),
        ideal_sectors=_mean(ideal),
        pattern=pattern,
        stride_bytes=stride,
    )


def _mean(values: I64) -> float | None:
    return float(values.mean()) if len(values) else None


def _pattern(lanes: U64, active: Flags) -> tuple[Pattern, int | None]:
    """Pattern and stride of all requests together."""
    if not len(lanes):
        return "none", None
    several = active.sum(axis=1) > 1
    if not several.any():
        return "single", None
    addresses, active = lanes[several].astype(np.int64), active[several]
    strides = _strides(addresses, active)
    if strides is not None and (strides == strides[0]).all():
        return "constant", int(strides[0])
    row = 2
    while row < lanes.shape[1]:
        if _tiled(addresses, active, row):
            return "tiled", None
        row *= 2
    return "gather", None


def _strides(addresses: I64, active: Flags) -> I64 | None:
    """Bytes between neighbouring lanes of each request; None where those of one differ."""
    lane = np.arange(addresses.shape[1])
    first = active.argmax(axis=1)
    last = len(lane) - 1 - active[:, ::-1].argmax(axis=1)
    request = np.arange(len(addresses))
    start = addresses[request, first]
    strides: I64 = (addresses[request, last] - start) // (last - first)
    expected = start[:, None] + strides[:, None] * (lane - first[:, None])
    return strides if ((addresses == expected) | ~active).all() else None


def _tiled(addresses: I64, active: Flags, row: int) -> bool:
    """Whether all lanes are active, and lie in rows of so many."""
    if not active.all():
        return False
    rows = addresses.reshape(len(addresses), -1, row)
    within, between = np.diff(rows, axis=2), np.diff(rows[:, :, 0], axis=1)
    return bool((within == within[0, 0, 0]).all() and (between == between[:, :1]).all())
