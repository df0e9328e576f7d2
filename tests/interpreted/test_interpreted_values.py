"""Scalars that interpreted kernels record, from `kl.value` to report and timeline."""

from __future__ import annotations

import json
from pathlib import Path

import interpreted_kernels as k
import pytest
import torch
from triton.runtime import interpreter

import kperfir as kp

TURNS, BLOCK = 3, 16


def run() -> None:
    x = torch.arange(TURNS * BLOCK, dtype=torch.float32) + 0.1
    k.values[(2,)](x, torch.empty_like(x), TURNS, BLOCK)


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    with kp.record(tmp_path / "x.kperf", regions="none"):
        run()
    trace = kp.load(tmp_path / "x.kperf")
    rows = [r for r in trace.events().to_pylist() if r["cta"] == 1]
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["region"], []).append(row["value"])
    halves = [(torch.tensor(i + 0.1, dtype=torch.float32) / 2).item() for i in range(TURNS)]
    assert found == {
        "row": [None] * TURNS,
        "turn": [0, 1, 2],
        "half": halves,
        "block": [BLOCK],
        "top": [2**32 - 1],
    }
    assert [p.code for p in trace.problems()] == []
    regions = {r.name: r for r in trace.summary().kernels[0].regions}
    assert regions["turn"].values is not None and regions["row"].values is None
    assert (regions["turn"].values.least, regions["turn"].values.median, regions["turn"].values.greatest) == (0, 1, 2)
    assert regions["turn"].depth == 1 and regions["turn"].total is None
    assert "4.2949673e+09" not in str(trace.summary()) and "4294967295" in str(trace.summary())
    trace.export(tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    assert {e["args"]["value"] for e in events if e["name"] == "turn"} == {0, 1, 2}


def test_without_a_recording_nothing_happens_and_a_tensor_is_refused_all_the_same() -> None:
    run()
    x = torch.ones(BLOCK)
    with pytest.raises(interpreter.InterpreterError, match="'all' cannot carry a tensor"):
        k.carries_a_tensor[(1,)](x, x, 1, BLOCK)


def test_events_cross_turns(tmp_path: Path) -> None:
    x = torch.ones(TURNS * BLOCK)
    with kp.record(tmp_path / "x.kperf", regions="load"):
        k.events[(2,)](x, torch.empty_like(x), TURNS, BLOCK)
    trace = kp.load(tmp_path / "x.kperf")
    rows = [r for r in trace.events().to_pylist() if r["region"] == "row"]
    assert [(r["cta"], r["value"]) for r in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    loads = [r for r in trace.events().to_pylist() if r["region"] == "load"]
    assert rows[0]["start_clock"] <= loads[0]["start_clock"] < loads[0]["end_clock"] <= rows[0]["end_clock"]
    assert [(p.code, p.count) for p in trace.problems()] == [("unpaired", 2)]
