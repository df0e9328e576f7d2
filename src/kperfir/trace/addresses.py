"""Traced accesses: from scratch blocks to arrays, and to an Arrow table.

Layout of the words: `kperfir.records`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kperfir.capture.schema import Kernel, Launch
from kperfir.records import ADDRESS_BYTES, COUNT_BYTES, HEADER_BYTES, SITE_BYTES, Access, Layout
from kperfir.trace.decode import I64, Headers, Payload, ran_blocks, read_headers
from kperfir.trace.events import spelled

LANES = 32
_WORD_BYTES = 4
_NAME = pa.dictionary(pa.int32(), pa.string())

U64 = NDArray[np.uint64]

ADDRESSES = pa.schema(
    [
        ("capture", pa.int32()),
        ("launch", pa.int64()),
        ("kernel", _NAME),
        ("cta", pa.int64()),
        ("sm", pa.int64()),
        ("warp", pa.int32()),
        ("order", pa.int64()),
        ("operation", pa.int32()),
        ("access", pa.int32()),
        ("kind", _NAME),
        ("width_bytes", pa.int32()),
        ("instruction", _NAME),
        ("region", _NAME),
        ("file", _NAME),
        ("line", pa.int32()),
        ("active_lanes", pa.uint64()),
        ("addresses", pa.list_(pa.uint64(), LANES)),
    ]
)
"""Columns of the addresses table, a row an access of a warp.

capture: number of the capture file, `launch` of the launch in it. order: number of the
access among those traced of its warp, from 0. operation: number of the memory operation
in the kernel; access: of the instruction, of which an operation may have several.
width_bytes: what a lane accesses. region: the innermost scope around it, else empty.
active_lanes: bit n is set where lane n makes the access. addresses: of each lane, of its
lowest byte, 0 where it makes no access.
"""


@dataclass(frozen=True)
class Addresses:
    """Accesses of a launch or of a part of it, by CTA, then warp, then order.

    Attributes:
        row: index into the headers. warp: number of the warp's ring. order: among those of its warp.
        access: id of the instruction in the kernel's table.
        lanes: address of each lane, shape (accesses, lanes); 0 where it makes none.
        written: accesses that came by, of each header row and ring, shape (rows, rings).
    """

    row: I64
    warp: I64
    order: I64
    access: I64
    lanes: U64
    written: I64


def read_addresses(payload: Payload, layout: Layout) -> Addresses:
    """Read whole scratch blocks; of a CTA that did not finish nothing is known."""
    words, rows = ran_blocks(payload, layout)
    first = HEADER_BYTES // _WORD_BYTES
    assert COUNT_BYTES == SITE_BYTES == _WORD_BYTES
    written = words[rows, first : first + layout.warps].astype(np.int64)
    written[~read_headers(payload, layout).finished] = 0
    kept = np.minimum(written, layout.slots)
    row, warp, order = np.nonzero(np.arange(layout.slots) < kept[..., None])
    shape = (len(words), layout.warps, layout.ring_bytes // _WORD_BYTES)
    rings = words[:, layout.rings_offset_bytes // _WORD_BYTES :].reshape(shape)
    heads, lanes = rings[..., : layout.slots], rings[..., layout.heads_bytes // _WORD_BYTES :]
    lanes = lanes.reshape(*lanes.shape[:2], layout.slots, layout.lanes, ADDRESS_BYTES // _WORD_BYTES)
    halves = lanes[rows[row], warp, order].astype(np.uint64)
    sites = heads[rows[row], warp, order].astype(np.int64)
    return Addresses(row, warp, order, sites, halves[..., 0] | (halves[..., 1] << np.uint64(32)), written)


def join_addresses(parts: list[Addresses]) -> Addresses:
    """Accesses of one launch from those of its chunks; there is at least one."""
    sizes = np.cumsum([0] + [len(part.written) for part in parts])
    joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Addresses)}
    joined["row"] = np.concatenate([part.row + size for part, size in zip(parts, sizes, strict=False)])
    return Addresses(**joined)


def known_accesses(addresses: Addresses, accesses: tuple[Access, ...]) -> Addresses:
    """Those of instructions that the kernel's table has."""
    known = addresses.access < len(accesses)
    kept = {f.name: getattr(addresses, f.name)[known] for f in fields(Addresses)[:-1]}
    return Addresses(**kept, written=addresses.written)


def addresses_table(capture: int, launch: Launch, kernel: Kernel, headers: Headers, addresses: Addresses) -> pa.Table:
    """Rows of one launch, with the columns `ADDRESSES`."""
    count, accesses = len(addresses.row), kernel.table.accesses

    def each(name: str) -> pa.Array:
        values = [getattr(a, name) for a in accesses]
        values = [spelled(v) if isinstance(v, str) else v for v in values]
        return pa.array(values, ADDRESSES.field(name).type).take(pa.array(addresses.access))

    bits = np.uint64(1) << np.arange(kernel.layout.lanes, dtype=np.uint64)
    columns = {
        "capture": np.full(count, capture),
        "launch": np.full(count, launch.id),
        "kernel": pa.array([spelled(kernel.name)], _NAME).take(pa.array(np.zeros(count, np.int64))),
        "cta": headers.cta[addresses.row],
        "sm": headers.sm[addresses.row],
        "warp": addresses.warp * kernel.layout.warp_step,
        "order": addresses.order,
        "access": addresses.access,
        **{name: each(name) for name in ("operation", "kind", "width_bytes", "instruction", "region", "file", "line")},
        "active_lanes": ((addresses.lanes != 0) * bits).sum(axis=1, dtype=np.uint64),
        "addresses": pa.FixedSizeListArray.from_arrays(pa.array(addresses.lanes.ravel()), LANES),
    }
    arrays = [c if isinstance(c, pa.Array) else pa.array(c, f.type) for f in ADDRESSES for c in [columns[f.name]]]
    return pa.table(arrays, schema=ADDRESSES)
