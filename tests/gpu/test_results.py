"""Records change no result, none is missing, and a ring that wraps keeps the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import reference

torch = pytest.importorskip("torch")
from runs import Run, runs  # noqa: E402

import kperfir as kp  # noqa: E402

NAMES = ("matmul-1", "matmul-3", "matmul-4", "attention", "layernorm", "softmax")
WHOLE = {"buffer": "global", "slots": 1024}


def run_of(name: str, seed: int, **sizes: int) -> Run:
    return next(run for run in runs(seed, small=True, **sizes) if run.name == name)


@pytest.mark.parametrize("plan", [WHOLE, {}, {"buffer": "shared", "slots": 32}, {"regions": "none"}], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_the_same_bit_for_bit(name: str, plan: dict[str, Any], tmp_path: Path) -> None:
    if plan == {"regions": "none"} and name in ("layernorm", "softmax"):
        pytest.skip("it has no scope")
    for seed in range(3):
        run = run_of(name, seed)
        plain = run.launch().clone()
        assert torch.equal(plain, run.launch()), "this kernel is not deterministic"
        run.launch().zero_()
        with kp.record(tmp_path / f"{seed}.kperf", first=1, every=0, **plan):
            recorded = run.launch().clone()
        trace = kp.load(tmp_path / f"{seed}.kperf")
        assert len(trace.launches) == 1 and "not-recorded" not in {p.code for p in trace.problems()}
        assert torch.equal(plain, recorded)
        assert torch.equal(plain, run.launch()), "the plain kernel runs on as before"


@pytest.mark.parametrize("depth", [64, 128, 512])
@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_the_reference(name: str, depth: int, tmp_path: Path) -> None:
    """Loops of 1, 2 and 8 iterations: fewer than stages, and more."""
    if (name, depth) == ("attention", 64):
        pytest.skip("its trip count is a constant, and a loop of one iteration is no loop")
    run = run_of(name, 0, depth=depth)
    path = tmp_path / "x.kperf"
    with kp.record(path, first=1, every=0, **WHOLE):
        run.launch()
    (launch,) = kp.load(path).launches
    assert launch.kept == launch.written
    function = getattr(reference, name.split("-")[0])
    expected = function(run.iterations, run.stages)
    found: dict[tuple[str, str], np.ndarray] = {}
    for region in launch.kernel.table.regions:
        spans = launch.spans
        mine = spans.region == region.id
        counts = np.zeros((run.ctas, run.warps), np.int64)
        np.add.at(counts, (launch.headers.cta[spans.row[mine]], spans.warp[mine]), 1)
        key = (region.origin, region.name)
        found[key] = found.get(key, 0) + counts
    assert {key: np.unique(counts).tolist() for key, counts in found.items()} == {k: [n] for k, n in expected.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_ring_that_wraps_counts_everything_and_keeps_the_end(name: str, tmp_path: Path) -> None:
    run = run_of(name, 0)
    launches = []
    for slots in (1024, 4):
        path = tmp_path / f"{slots}.kperf"
        with kp.record(path, first=1, every=0, buffer="global", slots=slots):
            run.launch()
        launches.append(kp.load(path).launches[0])
    whole, wrapped = (_sites(launch) for launch in launches)
    assert whole.keys() == wrapped.keys() and len(whole) == run.ctas * run.warps
    written = {
        (int(c), w): n
        for c, row in zip(launches[1].headers.cta, launches[1].written_by_warp)
        for w, n in enumerate(row)
    }
    for warp, sites in whole.items():
        assert written[warp] == len(sites)
        assert wrapped[warp] == sites[-4:]


def _sites(launch: Any) -> dict[tuple[int, int], list[int]]:
    """(CTA, warp) -> sites of its kept records in their order."""
    records = launch._records
    found: dict[tuple[int, int], list[int]] = {}
    for row, warp, site in zip(launch.headers.cta[records.row].tolist(), records.warp.tolist(), records.site.tolist()):
        found.setdefault((row, warp), []).append(site)
    return found
