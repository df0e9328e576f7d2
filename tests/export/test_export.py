"""Timelines and tables in files."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import handmade
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kperfir.errors import ExportError
from kperfir.export import chrome, export
from kperfir.export.slots import Slots
from kperfir.opened import load
from kperfir.records import Layout, Region, Site, Table
from kperfir.trace import Trace

SPAN = handmade.span(2000, 100_000, (4000, 6000))
KERNEL_AND_LOAD = [SPAN, []]


def _cta(cta: int, sm: int, start: int, length: int = 2_000_000, **more: Any) -> bytes:
    """A CTA whose SM clock starts at `start` cycles of 2 GHz; global time began at 1 ms."""
    times_ns = (1_000_000 + start // 2, 1_000_000 + (start + length) // 2)
    moved = [[(site, clock + start) for site, clock in w] for w in more.get("warps", KERNEL_AND_LOAD)]
    return handmade.block(more.get("layout", handmade.LAYOUT), cta, sm, (start, start + length), times_ns, moved)


def _trace(path: Path, *launches: list[bytes], **more: Any) -> Trace:
    parts = [(handmade.launch(i, len(blocks)), b"".join(blocks)) for i, blocks in enumerate(launches)]
    return load(handmade.write(path / "a.kperf", parts, **more))


def _timeline(trace: Trace, path: Path) -> list[dict[str, Any]]:
    export(trace, path / "t.json")
    events: list[dict[str, Any]] = json.loads((path / "t.json").read_text())["traceEvents"]
    return events


def _names(events: list[dict[str, Any]], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == what}


def _nests(events: list[dict[str, Any]]) -> bool:
    """Whether the slices of every track nest, in whole nanoseconds, as viewers demand."""
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            start_ns = round(e["ts"] * 1000)
            tracks[e["pid"], e["tid"]].append((start_ns, start_ns + round(e["dur"] * 1000)))
    for slices in tracks.values():
        open_ends: list[int] = []
        for start_ns, end_ns in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start_ns:
                open_ends.pop()
            if open_ends and end_ns > open_ends[-1]:
                return False
            open_ends.append(end_ns)
    return True


def test_a_span_lies_at_its_time_on_its_track(tmp_path: Path) -> None:
    events = _timeline(_trace(tmp_path, [_cta(0, 5, 0), _cta(1, 2, 1_000_000)]), tmp_path)
    assert sorted(set(_names(events, "process_name").values())) == ["SM 2", "SM 5"]
    assert set(_names(events, "thread_name").values()) == {"slot 0 warp 0"}
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    names = {pid: name for (pid, _), name in _names(events, "process_name").items()}
    assert [names[pid] for pid in sorted(order, key=order.__getitem__)] == ["SM 2", "SM 5"]
    load_of = {e["args"]["cta"]: e for e in events if e["name"] == "load"}
    assert (load_of[0]["ph"], load_of[0]["cat"]) == ("X", "add")
    assert (load_of[0]["ts"], load_of[0]["dur"]) == pytest.approx((2.0, 1.0), abs=0.01)
    assert load_of[1]["ts"] == pytest.approx(502.0, abs=0.01)
    assert load_of[0]["args"] == {
        "launch": 0, "role": "sync", "source": "k.py:2", "cta": 0, "instance": 0, "span_clocks": 2000,
    }  # fmt: skip


def test_ctas_that_overlap_on_an_sm_get_slots_and_give_them_back(tmp_path: Path) -> None:
    ctas = [_cta(0, 5, 0), _cta(1, 5, 50_000), _cta(2, 5, 200_000)]
    events = _timeline(_trace(tmp_path, ctas), tmp_path)
    names = _names(events, "thread_name")
    assert {e["args"]["cta"]: names[e["pid"], e["tid"]] for e in events if e["ph"] == "X"} == {
        0: "slot 0 warp 0",
        1: "slot 1 warp 0",
        2: "slot 0 warp 0",
    }


def test_launches_lie_at_the_devices_time_and_may_overlap(tmp_path: Path) -> None:
    events = _timeline(_trace(tmp_path, [_cta(0, 5, 0)], [_cta(0, 5, 50_000)]), tmp_path)
    kernels = {e["args"]["launch"]: e for e in events if e["name"] == "kernel"}
    assert kernels[1]["ts"] - kernels[0]["ts"] == pytest.approx(25, abs=0.01)
    assert kernels[0]["tid"] != kernels[1]["tid"]


def test_marks_are_instants(tmp_path: Path) -> None:
    marked = [SPAN[0], (handmade.HERE, 3000), SPAN[-1]]
    events = _timeline(_trace(tmp_path, [_cta(0, 0, 0, warps=[marked, []])]), tmp_path)
    (mark,) = [e for e in events if e["name"] == "here"]
    assert (mark["ph"], mark["s"], "dur" in mark) == ("i", "t", False)


def test_an_interrupted_span_is_drawn_in_parts(tmp_path: Path) -> None:
    """Siblings a and b take turns: whole spans would cross, parts do not."""
    table = Table(
        (Region(0, "a"), Region(1, "b")),
        tuple(Site(4 * r + 2 * p + k, r, ("start", "end")[k], p) for r in (0, 1) for p in (0, 1) for k in (0, 1)),
    )
    layout = Layout(1, 16, "global")
    from kperfir.capture.schema import Kernel

    words = [(site, 10_000 + 1000 * i) for i, site in enumerate([0, 1, 4, 5, 2, 3, 6, 7])]
    data = handmade.block(layout, clocks=(0, 2_000_000), times_ns=(0, 1_000_000), warps=[words])
    trace = _trace(tmp_path, [data], kernel=Kernel(0, "add", "", "", layout, table))
    events = _timeline(trace, tmp_path)
    assert [e["name"] for e in events if e["ph"] == "X"] == ["a", "b", "a", "b"]
    assert len(_names(events, "thread_name")) == 1
    assert trace.events().num_rows == 2


def test_a_slice_that_crosses_another_goes_beside_it(tmp_path: Path) -> None:
    crossing = [(handmade.KERNEL_START, 1000), (handmade.LOAD_START, 2000), (handmade.KERNEL_END, 3000)]
    crossing.append((handmade.LOAD_END, 4000))
    events = _timeline(_trace(tmp_path, [_cta(0, 0, 0, warps=[crossing, []])]), tmp_path)
    names = _names(events, "thread_name")
    found = {e["name"]: names[e["pid"], e["tid"]] for e in events if e["ph"] == "X"}
    assert found == {"kernel": "slot 0 warp 0", "load": "slot 0 warp 0 +1"}


def test_of_slices_that_start_together_the_longer_is_outside(tmp_path: Path) -> None:
    words = handmade.span(2000, 9000, (2000, 4000))
    events = _timeline(_trace(tmp_path, [_cta(0, 0, 0, warps=[words, []])]), tmp_path)
    assert [e["name"] for e in events if e["ph"] == "X"] == ["kernel", "load"]
    assert list(_names(events, "thread_name").values()) == ["slot 0 warp 0"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=6, max_size=16))
@settings(max_examples=60, deadline=None)
def test_slices_nest_whatever_the_records_are(
    tmp_path_factory: pytest.TempPathFactory, words: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    clock, placed = 1000, []
    for site, gap in words:
        clock += gap
        placed.append((site, clock))
    trace = _trace(folder, [_cta(0, 0, 0, warps=[placed[-8:], placed[:8]])])
    events = _timeline(trace, folder)
    assert _nests(events)
    assert sum(e["ph"] == "X" for e in events) == trace.events().num_rows


def test_cycles_are_not_shown_as_nanoseconds_without_a_word(tmp_path: Path) -> None:
    data = handmade.block(handmade.LAYOUT, clocks=(0, 10), times_ns=(0, 32), warps=KERNEL_AND_LOAD)
    events = _timeline(_trace(tmp_path, [data]), tmp_path)
    assert list(_names(events, "process_name").values()) == ["SM 0 (cycles, not ns; SMs not aligned)"]


def test_the_number_of_events_is_bounded_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "MAX_EVENTS", 3)
    trace = _trace(tmp_path, [_cta(0, 0, 0)], [_cta(0, 0, 3_000_000)], [_cta(0, 0, 6_000_000)])
    exported = export(trace, tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text())
    assert sum(e["ph"] == "X" for e in data["traceEvents"]) == 3
    assert (exported.events, exported.left_out) == (3, 3)
    assert data["otherData"]["left_out"].startswith("3 events")
    assert "3 later ones are left out" in str(exported)


def test_two_processes_do_not_share_tracks(tmp_path: Path) -> None:
    for name in ("1", "2"):
        handmade.write(tmp_path / f"{name}.kperf", [(handmade.launch(0, 1), _cta(0, 5, 0))])
    assert len(_names(_timeline(load(tmp_path), tmp_path), "process_name")) == 2


def test_an_empty_trace_is_a_file_too(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    assert _timeline(trace, tmp_path) == []
    for suffix in (".csv", ".parquet", ".arrow", ".json.gz"):
        assert export(trace, tmp_path / f"t{suffix}").events == 0


def test_compressed_json_is_the_same(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [_cta(0, 5, 0)])
    events = _timeline(trace, tmp_path)
    exported = export(trace, tmp_path / "t.json.gz")
    assert json.loads(gzip.decompress(Path(os.fspath(exported)).read_bytes()))["traceEvents"] == events


def test_tables_hold_the_events(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [_cta(0, 5, 0)], [_cta(0, 5, 50_000)])
    rows = trace.events().to_pylist()
    for suffix in ("csv", "parquet", "arrow"):
        assert export(trace, str(tmp_path / f"t.{suffix}")).events == 4
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist() == rows
    with pa.memory_map(str(tmp_path / "t.arrow")) as source:
        assert pa.ipc.open_file(source).read_all().to_pylist() == rows
    assert pyarrow.parquet.read_schema(tmp_path / "t.parquet").metadata[b"times"].startswith(b"Times are raw")
    from_csv = pyarrow.csv.read_csv(tmp_path / "t.csv").to_pylist()
    assert [r["region"] for r in from_csv] == [r["region"] for r in rows]
    assert [r["start_ns"] for r in from_csv] == pytest.approx([r["start_ns"] for r in rows])


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet", "arrow"])
def test_interpreters_times_are_said_to_be_so(tmp_path: Path, suffix: str) -> None:
    trace = _trace(tmp_path, [_cta(0, 5, 0)], source="interpreter")
    exported = export(trace, tmp_path / f"t.{suffix}")
    assert "times of Triton's interpreter" in str(exported)
    if suffix != "csv":
        assert b"Times are those of Triton's interpreter on the host" in exported.path.read_bytes()


@pytest.mark.parametrize("name", ["t.txt", "t", "t.gz", "json"])
def test_an_unknown_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportError, match=r"names no format that can be written\. Use \.json"):
        export(_trace(tmp_path), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_perfettos_own_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"cannot be written yet\. Use \.json"):
        export(_trace(tmp_path), tmp_path / "t.pftrace")


@pytest.mark.parametrize("suffix", ["json", "json.gz", "csv", "parquet", "arrow"])
def test_a_place_that_cannot_be_written(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ExportError, match=r"cannot be written: No such file or directory\. Choose another place"):
        export(_trace(tmp_path), tmp_path / "none" / f"t.{suffix}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("suffix", ["json", "json.gz", "csv", "parquet", "arrow"])
def test_a_full_disk(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"t.{suffix}").symlink_to("/dev/full")
    with pytest.raises(ExportError, match=r"cannot be written: No space left on device\."):
        export(_trace(tmp_path, [_cta(0, 5, 0)]), tmp_path / f"t.{suffix}")


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=20))
def test_slots_never_overlap(ctas: list[tuple[int, int]]) -> None:
    slots, ends = Slots(), dict[int, int]()
    for start, length in ctas:
        slot = slots.take(start, start + length)
        assert ends.get(slot, 0) <= start
        ends[slot] = start + length
