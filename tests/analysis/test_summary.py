"""The summary and its report."""

from __future__ import annotations

from pathlib import Path

import handmade
import pytest

from kperfir.analysis import summarise
from kperfir.analysis.report import report
from kperfir.capture.schema import End, Kernel, Problem, Resources
from kperfir.opened import load
from kperfir.records import Layout

LONG = {"clocks": (0, 1_000_000), "times_ns": (0, 500_000)}  # 2 GHz


def _block(spans: list[list[tuple[int, int]]], **more: object) -> bytes:
    return handmade.block(handmade.LAYOUT, **({"warps": spans} | LONG | more))  # type: ignore[arg-type]


def test_figures_of_regions(tmp_path: Path) -> None:
    """Warp 0 loads for 100 and 300 thousand cycles in two launches, warp 1 never does."""
    first = _block([handmade.span(0, 1_000_000, (10, 100_010)), handmade.span(0, 900_000)])
    second = _block([handmade.span(0, 1_000_000, (10, 300_010)), handmade.span(0, 900_000)])
    path = handmade.write(tmp_path / "a", [(handmade.launch(0, 1), first), (handmade.launch(1, 1), second)])
    (kernel,) = summarise(load(path)).kernels
    whole, loads, here = kernel.regions
    assert (kernel.launches, kernel.ctas, kernel.written, kernel.kept, kernel.unit) == (2, 2, 12, 12, "cycles")
    assert kernel.ghz == pytest.approx(2.0)
    assert (whole.count, whole.total, whole.median, whole.depth) == (4, 3_800_000, 950_000, 0)
    assert whole.share == pytest.approx(3.8 / 4)
    assert (loads.count, loads.total, loads.median, loads.depth) == (2, 400_000, 200_000, 1)
    assert loads.p95 == pytest.approx(290_000)
    assert loads.share == pytest.approx(0.4 / 2), "of warp 0's time alone"
    assert (here.count, here.total, here.median, here.share) == (0, None, None, None)


def test_share_is_of_the_whole_kernel_where_nothing_is_lost(tmp_path: Path) -> None:
    path = handmade.write(tmp_path / "a", [(handmade.launch(0, 1), _block([[], handmade.span(400_000, 500_000)]))])
    assert summarise(load(path)).kernels[0].regions[0].share == pytest.approx(0.1)


def test_share_where_the_ring_wrapped_is_of_what_was_kept(tmp_path: Path) -> None:
    words = [w for i in range(10) for w in [(2, 100_000 * i), (3, 100_000 * i + 50_000)]]
    path = handmade.write(tmp_path / "a", [(handmade.launch(0, 1), _block([words, []]))])
    (kernel,) = summarise(load(path)).kernels
    assert (kernel.written, kernel.kept, kernel.regions[1].count) == (20, 8, 4)
    assert kernel.regions[1].share == pytest.approx(200_000 / 400_000)


def test_share_where_the_oldest_kept_record_has_lost_its_partner(tmp_path: Path) -> None:
    """Its span is left out, but the ring reaches back to it."""
    words = [(0, 10), *[(2, 20), (3, 30)] * 7, (3, 40), (1, 100_000), (2, 900_000), (3, 950_000)]
    path = handmade.write(tmp_path / "a", [(handmade.launch(0, 1), _block([words, []]))])
    (kernel,) = summarise(load(path)).kernels
    assert (kernel.kept, kernel.regions[1].count) == (8, 3)
    assert kernel.regions[1].share == pytest.approx(50_020 / 999_980)


def test_records_beside_the_header_do_not_make_more_than_all(tmp_path: Path) -> None:
    path = handmade.write(tmp_path / "a", [(handmade.launch(0, 1), _block([[], handmade.span(-500, 1_000_700)]))])
    assert summarise(load(path)).kernels[0].regions[0].share == 1.0


def test_one_binary_in_two_processes_is_one_kernel(tmp_path: Path) -> None:
    for name in ("1", "2"):
        data = _block([handmade.span(0, 10)] * 2)
        handmade.write(tmp_path / f"{name}.kperf", [(handmade.launch(0, 1), data)], tally={"add": {"recorded": 1}})
    summary = summarise(load(tmp_path))
    assert [k.launches for k in summary.kernels] == [2]
    assert summary.tally == {"add": {"recorded": 2}}
    assert "2 processes" in report(summary)


def test_report_says_what_must_be_said(tmp_path: Path) -> None:
    kernel = Kernel(
        0, "add", "h", "cuda:90", handmade.LAYOUT, handmade.TABLE, "global memory: shared is full",
        plain=Resources(1024, 30, 0, 4, 8), instrumented=Resources(2048, 40, 2, 4, 7),
    )  # fmt: skip
    words = [w for i in range(10) for w in [(2, 100_000 * i), (3, 100_000 * i + 50_000)]]
    problems = [Problem("no-anchor", "add, k.py:2", "Scope 'x' has no anchor.", "Move it.")]
    tally = {"add": {"recorded": 1, "sampled-out": 41}, "mul": {"excluded": 7}}
    path = handmade.write(
        tmp_path / "a", [(handmade.launch(0, 1), _block([words, []]))], kernel, problems=problems, tally=tally
    )
    text = report(summarise(load(path)))
    assert "a GPU, Triton unknown, regions=auto" in text
    assert "Times are raw" in text
    assert "20 written, 12 overwritten, 8 slots a warp; global memory: shared is full" in text
    assert "clock: 2.0000 GHz measured; SMs agree within 0 ns median, 0 ns at most; timer step unknown" in text
    assert "plain:        30 registers, 0 spills, 1024 B shared, 8 CTAs/SM" in text
    assert "with records: 40 registers, 2 spills, 2048 B shared, 7 CTAs/SM" in text
    assert [line.split() for line in text.splitlines() if line.startswith("  add")] == [["add", "1", "0", "41"]]
    assert "[no-anchor] add, k.py:2: Scope 'x' has no anchor. Move it." in text
    assert "[overwritten]" in text
    assert "interpreter" not in text
    assert max(map(len, text.splitlines())) <= 118
    assert str(summarise(load(path))) == text


def test_report_of_interpreter_times(tmp_path: Path) -> None:
    layout = Layout(1, 8, "host", 16)
    kernel = Kernel(0, "add", "", "interpreter", layout, handmade.TABLE, clock="ns")
    data = handmade.block(layout, warps=[handmade.span(1000, 2000)])
    path = handmade.write(tmp_path / "a", [(handmade.launch(0, 1), data)], kernel, "interpreter")
    text = report(summarise(load(path)))
    assert "Times are those of Triton's interpreter" in text
    assert "total ns" in text
    assert "GHz" not in text
    assert "registers" not in text


def test_report_of_a_capture_that_was_cut(tmp_path: Path) -> None:
    text = report(summarise(load(handmade.write(tmp_path / "a", [], last=()))))
    assert "No launch was recorded." in text
    assert "[truncated]" in text
    assert "[truncated]" not in report(summarise(load(handmade.write(tmp_path / "b", [], last=(End(1),)))))


def test_many_problems_of_one_kind_do_not_drown_the_report(tmp_path: Path) -> None:
    words = [w for i in range(10) for w in [(2, 100_000 * i), (3, 100_000 * i + 50_000)]]
    launches = [(handmade.launch(i, 1), _block([words, []])) for i in range(30)]
    text = report(summarise(load(handmade.write(tmp_path / "a", launches))))
    assert text.count("[overwritten]") == 4
    assert "[overwritten] and 27 more" in text
