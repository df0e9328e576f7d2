"""Rings in host memory of kernels that did not end: what was written is read, and where each warp stood."""

from __future__ import annotations

from pathlib import Path

import handmade
import pytest
from handmade import HERE, KERNEL_END, KERNEL_START, LOAD_END, LOAD_START
from hypothesis import given, settings
from hypothesis import strategies as st

import kperfir as kp
from kperfir.analysis.standing import Stand, standing, together
from kperfir.capture.schema import Kernel
from kperfir.records import Layout
from kperfir.trace.decode import decode

LAYOUT = Layout(warps=3, slots=4, place="host", record_bytes=16)
LATE = "It had not finished 10 s after it was launched."
GLOBAL = Layout(warps=3, slots=4, place="global", record_bytes=16)


def turns(count: int, start: int = 1000) -> list[tuple[int, int]]:
    """A kernel that loads again and again; the last load has not ended."""
    words = [(KERNEL_START, start)]
    for i in range(count):
        words += [(LOAD_START, start + 10 + 20 * i), (LOAD_END, start + 20 + 20 * i)]
    return [*words[:-1], (HERE, words[-1][1])] if count else words


def kernel(layout: Layout = LAYOUT) -> Kernel:
    return Kernel(0, "spin", "hash", "cuda:90", layout, handmade.TABLE, place_reason="host memory: asked for")


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.sampled_from([2, 4, 8]),
    st.integers(1, 1 << 40),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_the_newest_records_come_back_in_order(steps: list[int], slots: int, start: int, hangs: bool) -> None:
    """Clocks of two records may be the same, but not of all in a ring that came round."""
    layout = Layout(1, slots, "host", 16)
    words, clock = [], start
    for n, step in enumerate(steps):
        clock += step + (n % slots == 0)
        words.append((n, clock))
    records = decode(handmade.block(layout, warps=[words], state=1 + (not hangs), hanging=[0] * hangs), layout)
    assert records.site.tolist() == [site for site, _ in words[-slots:]]
    assert records.unfinished.tolist() == [[hangs]]
    if not hangs or len(words) <= slots:
        assert records.written.tolist() == [[len(words)]]
    else:
        assert slots <= records.written.item() <= len(words)


def test_a_warp_that_ended_keeps_its_count_beside_one_that_hangs() -> None:
    block = handmade.block(LAYOUT, warps=[handmade.span(1000, 1100), turns(3), []], hanging=[1])
    records = decode(block, LAYOUT)
    assert records.written.tolist() == [[2, 7, 0]]
    assert records.unfinished.tolist() == [[False, True, False]]
    assert records.site.tolist() == [KERNEL_START, KERNEL_END, LOAD_START, LOAD_END, LOAD_START, HERE]


def test_rings_elsewhere_tell_nothing_before_their_kernel_ends() -> None:
    records = decode(handmade.block(GLOBAL, warps=[turns(3)] * 3, state=1, hanging=[0, 1, 2]), GLOBAL)
    assert len(records.site) == 0 and not records.unfinished.any()


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Three CTAs: in two all warps hang, one with a ring that came round; the third ended."""
    inside = [(KERNEL_START, 1000), (LOAD_START, 1010)]
    between = [(KERNEL_START, 1000), (LOAD_START, 1010), (LOAD_END, 1020)]
    hung = [
        handmade.block(LAYOUT, cta, cta, (900, 0), (5000, 0), [inside, inside, between], 1, [0, 1, 2]) for cta in (0, 1)
    ]
    long = [
        (site, clock) for i in range(9) for site, clock in [(LOAD_START, 1100 + i * 100), (LOAD_END, 1150 + i * 100)]
    ]
    round_ = handmade.block(LAYOUT, 2, 2, (900, 2000), (5000, 5500), [long, handmade.span(950, 1999), []], 2, [0])
    launch = handmade.launch(0, 3, unfinished=LATE)
    return handmade.write(tmp_path / "x.kperf", [(launch, b"".join(hung) + round_)], kernel())


def test_where_each_warp_stood(capture: Path) -> None:
    (launch,) = kp.load(capture).launches
    stands = standing(launch)
    assert [(s.cta, s.warp, s.regions, s.last_kind, s.last_region, s.clock) for s in stands] == [
        (0, 0, ("kernel", "load"), "start", "load", 1010),
        (0, 1, ("kernel", "load"), "start", "load", 1010),
        (0, 2, ("kernel",), "end", "load", 1020),
        (1, 0, ("kernel", "load"), "start", "load", 1010),
        (1, 1, ("kernel", "load"), "start", "load", 1010),
        (1, 2, ("kernel",), "end", "load", 1020),
        (2, 0, ("kernel",), "end", "load", 1950),
    ]
    assert [(g.ctas, g.warps) for g in together(stands)] == [("0-1", "0-1"), ("0-1", "2"), ("2", "0")]


def test_what_the_report_says(capture: Path) -> None:
    text = str(kp.load(capture).summary())
    table = text.split("where its warps stood")[1].split("\n\n")[0]
    assert [line.split("  ")[-1].strip() for line in table.splitlines()[2:]] == [
        "start of load, k.py:2",
        "end of load, k.py:2",
        "end of load, k.py:2",
    ]
    assert "kernel > load" in table
    flat = " ".join(text.split())
    assert f"[unfinished-launch] spin, launch 0: {LATE} What its warps had written by then is here." in flat
    assert "2 of 3 CTAs did not reach their end" in flat and "are left out" not in flat
    assert "At least" in flat and "unpaired" not in flat


def test_spans_that_ended_are_there(capture: Path) -> None:
    events = kp.load(capture).events().to_pylist()
    assert [(e["cta"], e["warp"], e["region"], e["start_clock"], e["end_clock"]) for e in events] == [
        (0, 2, "load", 1010, 1020),
        (1, 2, "load", 1010, 1020),
        (2, 0, "load", 1800, 1850),
        (2, 0, "load", 1900, 1950),
        (2, 1, "kernel", 950, 1999),
    ]


def test_a_launch_that_ended_after_all_replaces_what_was_written_of_it(tmp_path: Path) -> None:
    hung = handmade.block(LAYOUT, warps=[turns(0)] * 3, state=1, hanging=[0, 1, 2])
    done = handmade.block(LAYOUT, warps=[handmade.span(1000, 1900)] * 3)
    launches = [(handmade.launch(0, 1, unfinished=LATE), hung), (handmade.launch(0, 1), done)]
    trace = kp.load(handmade.write(tmp_path / "x.kperf", launches, kernel()))
    (launch,) = trace.launches
    assert not launch.launch.unfinished and len(launch.standing.row) == 0 and launch.written == 6
    assert "never finished" not in str(trace.summary())
    assert [p.code for p in trace.problems()] == ["unknown-frequency"]


def test_cycles_without_a_frequency_are_explained(tmp_path: Path) -> None:
    """Where CTAs of the same SM ended there are nanoseconds, also of those that did not."""
    words = [(KERNEL_START, 1000), (LOAD_START, 1010), (LOAD_END, 101_000)]
    hung = [handmade.block(LAYOUT, cta, cta, (900, 0), (5000, 0), [words], 1, [0]) for cta in (0, 1)]
    launch = handmade.launch(0, 2, unfinished=LATE)
    alone = kp.load(handmade.write(tmp_path / "a.kperf", [(launch, b"".join(hung))], kernel()))
    assert "No CTA had ended" in next(p.what for p in alone.problems() if p.code == "unknown-frequency")
    done = handmade.block(LAYOUT, 0, 0, (900, 1_000_900), (5000, 1_005_000), [handmade.span(1000, 900_000)])
    beside = kp.load(handmade.write(tmp_path / "b.kperf", [(launch, done + hung[1])], kernel()))
    assert [round(e["start_ns"]) for e in beside.events().to_pylist()] == [100, 110]


def test_a_stand_knows_its_turn(tmp_path: Path) -> None:
    table = handmade.TABLE
    sites = tuple(s.__class__(s.id, s.region, s.kind, s.piece, versioned=s.id in (2, 3)) for s in table.sites)
    words = [(KERNEL_START, 1000), (LOAD_START | 5 << 32, 1010)]
    block = handmade.block(LAYOUT, warps=[words], state=1, hanging=[0])
    described = Kernel(0, "spin", "h", "cuda:90", LAYOUT, table.__class__(table.regions, sites))
    (launch,) = kp.load(handmade.write(tmp_path / "x.kperf", [(handmade.launch(0, 1), block)], described)).launches
    (stand,) = standing(launch)
    assert isinstance(stand, Stand) and (stand.turn, stand.regions) == (5, ("kernel", "load"))
