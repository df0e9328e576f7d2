"""Traced accesses, made by hand: read back, as a table, as figures of each memory operation."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import handmade
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from kperfir.analysis.addresses import distinct_units
from kperfir.capture.schema import Kernel
from kperfir.errors import ExportError
from kperfir.opened import OpenedTrace, load
from kperfir.records import Access, Layout, Table

LAYOUT = Layout(2, 4, "global", 256, wraps=False, lanes=32)
TABLE = Table(
    (),
    (),
    (
        Access(0, 0, "load", 4, "ld.global.b32", "mine", "k.py", 3),
        Access(1, 0, "load", 4, "ld.global.b32", "mine", "k.py", 3),
        Access(2, 1, "store", 16, "st.global.v4.b32", "", "k.py", 9),
        Access(3, 2, "atomic", 8, "atom.global.add.u64", "", "k.py", 11),
    ),
)
BASE = 0x7F00_0000_1000
Record = tuple[int, Sequence[int]]


def block(warps: Sequence[Sequence[Record]], cta: int = 0, written: Sequence[int] = (), state: int = 2) -> bytes:
    """A block whose rings hold these accesses; `written` says how many came by."""
    data = bytearray(handmade.block(LAYOUT, cta, state=state))
    for warp, records in enumerate(warps):
        struct.pack_into("<I", data, 64 + 4 * warp, written[warp] if written else len(records))
        ring = LAYOUT.ring_offset_bytes(warp)
        for n, (site, lanes) in enumerate(records):
            struct.pack_into("<I", data, ring + 4 * n, site)
            struct.pack_into("<32Q", data, ring + 16 + 256 * n, *lanes)
    return bytes(data)


def trace_of(path: Path, *blocks: bytes) -> OpenedTrace:
    kernel = Kernel(0, "k", "h", "cuda:90", LAYOUT, TABLE, "global memory: addresses are written to it")
    return load(handmade.write(path, [(handmade.launch(0, len(blocks)), b"".join(blocks))], kernel))


def lanes(stride: int, base: int = BASE, count: int = 32) -> list[int]:
    return [base + stride * n if n < count else 0 for n in range(32)]


def test_the_layout() -> None:
    assert LAYOUT.heads_bytes == 16 and LAYOUT.ring_bytes == 16 + 4 * 256
    assert LAYOUT.rings_offset_bytes == 80 and LAYOUT.cta_bytes == 80 + 2 * 1040
    assert LAYOUT.cleared_bytes == 80, "headers alone"
    for wrong in ({"place": "shared"}, {"wraps": True}, {"record_bytes": 8}, {"holds_sums": True}):
        given = {"place": "global", "record_bytes": 256, "wraps": False, "lanes": 32} | wrong
        with pytest.raises(ValueError, match="no such"):
            Layout(2, 4, **given)  # type: ignore[arg-type]


def test_every_lane_of_every_access(tmp_path: Path) -> None:
    first = block([[(0, lanes(4)), (2, lanes(16, BASE + 4096))], [(1, lanes(8, count=5))]])
    second = block([[], [(3, lanes(0))]], cta=1)
    table = trace_of(tmp_path / "a.kperf", first, second).addresses()
    columns = table.select(["cta", "warp", "order", "operation", "access", "kind", "width_bytes", "region", "line"])
    assert [tuple(row.values()) for row in columns.to_pylist()] == [
        (0, 0, 0, 0, 0, "load", 4, "mine", 3),
        (0, 0, 1, 1, 2, "store", 16, "", 9),
        (0, 1, 0, 0, 1, "load", 4, "mine", 3),
        (1, 1, 0, 2, 3, "atomic", 8, "", 11),
    ]
    assert table["addresses"].to_pylist() == [lanes(4), lanes(16, BASE + 4096), lanes(8, count=5), lanes(0)]
    assert table["active_lanes"].to_pylist() == [(1 << 32) - 1, (1 << 32) - 1, 0b11111, (1 << 32) - 1]


def test_lost_and_unknown_accesses_are_counted(tmp_path: Path) -> None:
    many = block([[(0, lanes(4))] * 4, [(9, lanes(4))]], written=[70, 1])
    trace = trace_of(tmp_path / "a.kperf", many, block([[(0, lanes(4))]], cta=1, state=1))
    (launch,) = trace.launches
    assert (launch.written, launch.kept, launch.unknown_sites) == (71, 5, 1)
    assert trace.addresses().num_rows == 4, "of the CTA that finished, and of a known instruction"
    assert [p.code for p in trace.problems()] == ["unfinished-ctas", "dropped", "unknown-site"]
    assert "66 of 71 records found no slot: a warp has 4. 128 slots would keep all." in str(trace.summary())


def test_other_traces_have_no_addresses(tmp_path: Path) -> None:
    data = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)])
    trace = load(handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), data)]))
    assert trace.addresses().num_rows == 0 and trace.launches[0].addresses is None
    assert trace.summary().kernels[0].memory == ()


TILE = [BASE + 1024 * (n // 4) + 16 * (n % 4) for n in range(32)]
GATHER = [BASE + 128 * ((7 * n) % 32) for n in range(32)]
# accesses of the store, 16 bytes a lane -> lanes, sectors, lines, ideal sectors, pattern, stride
FIGURES = {
    "coalesced": ([lanes(16)], (32, 16, 4, 16, "constant", 16)),
    "misaligned": ([lanes(16, BASE + 16)], (32, 17, 5, 16, "constant", 16)),
    "strided": ([lanes(64)], (32, 32, 16, 16, "constant", 64)),
    "backward": ([lanes(-16)], (32, 17, 5, 16, "constant", -16)),
    "broadcast": ([lanes(0)], (32, 1, 1, 1, "constant", 0)),
    "half of the lanes": ([lanes(16, count=16)], (16, 8, 2, 8, "constant", 16)),
    "tiled": ([TILE], (32, 16, 8, 16, "tiled", None)),
    "gather": ([GATHER], (32, 32, 32, 16, "gather", None)),
    "two strides": ([lanes(16), lanes(64)], (32, 24, 10, 16, "gather", None)),
    "one lane": ([lanes(0, count=1)], (1, 1, 1, 1, "single", None)),
    "some off": ([lanes(16), lanes(16, count=0)], (32, 16, 4, 16, "constant", 16)),
    "all off": ([lanes(16, count=0)], (None, None, None, None, "none", None)),
}


@pytest.mark.parametrize(("requests", "figures"), FIGURES.values(), ids=FIGURES.keys())
def test_figures(requests: list[list[int]], figures: tuple[object, ...], tmp_path: Path) -> None:
    summary = trace_of(tmp_path / "a.kperf", block([[(2, r) for r in requests]])).summary()
    (kernel,) = summary.kernels
    assert kernel.holds_addresses and [o.requests for o in kernel.memory] == [0, len(requests), 0]
    store = kernel.memory[1]
    found = (store.active_lanes, store.sectors, store.lines, store.ideal_sectors, store.pattern, store.stride_bytes)
    assert found == figures
    assert store.inactive == sum(not any(r) for r in requests)


def test_units_agree_with_bytes_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kperfir.analysis.addresses._AT_ONCE", 64)
    random = np.random.default_rng(0)
    addresses = random.integers(1 << 40, (1 << 40) + 4096, (200, 32), np.uint64)
    addresses[random.random(addresses.shape) < 0.3] = 0
    for width, unit in ((1, 32), (4, 32), (16, 32), (16, 128), (32, 32)):
        counted = [len({(int(a) + byte) // unit for a in row if a for byte in range(width)}) for row in addresses]
        assert distinct_units(addresses, width, unit).tolist() == counted


def test_the_report_says_what_was_accessed(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "a.kperf", block([[(0, lanes(4)), (2, GATHER)]], written=[9, 0]))
    text = str(trace.summary())
    assert "9 requests for memory, 4 traced: the first 4 of each warp" in text
    rows = [line.split() for line in text.split("\n")]
    assert ["access", "bytes", "requests", "lanes", "sectors", "ideal", "lines", "stride", "scope", "source"] in rows
    assert ["store", "16", "1", "32.0", "32.0", "16.0", "32.0", "gather", "k.py:9"] in rows
    assert "Times are raw" not in text and "clock:" not in text


def test_the_accesses_are_exported(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "a.kperf", block([[(0, lanes(4)), (2, lanes(16, count=2))]]))
    rows = trace.addresses().to_pylist()
    trace.export(tmp_path / "t.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist() == rows
    trace.export(tmp_path / "t.csv")
    read = pyarrow.csv.read_csv(tmp_path / "t.csv").to_pylist()
    assert [[int(a, 16) for a in row["addresses"].split()] for row in read] == [row["addresses"] for row in rows]
    assert [(row["kind"], row["active_lanes"]) for row in read] == [("load", (1 << 32) - 1), ("store", 3)]
    with pytest.raises(ExportError, match="has no times, so there is no timeline"):
        trace.export(tmp_path / "t.json")
