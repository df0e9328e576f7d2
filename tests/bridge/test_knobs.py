"""Each knob of a plan, in the code of each target."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kperfir.bridge.build import compile_instrumented, without_ring
from kperfir.bridge.request import Request
from kperfir.capture.schema import Resources
from kperfir.plan import Plan
from kperfir.records import Layout

KNOBS: dict[str, dict[str, Any]] = {
    "default": {},
    "clock64": {"metric": "clock64"},
    "time": {"metric": "time"},
    "every second warp": {"granularity": 2},
    "warp group": {"granularity": "warp-group"},
    "cta": {"granularity": "cta"},
    "ctas": {"ctas": "0-7+0-:100"},
    "sms": {"sms": "3"},
    "warps": {"warps": "1-2"},
    "version": {"version": "iteration"},
    "iterations": {"iterations": "0-7+0-:100"},
    "last iterations": {"iterations": "0-7+0-:100+last-8"},
    "sums of the last": {"strategy": "aggregate", "iterations": "last-1"},
    "iterations and time": {"iterations": "8-", "metric": "time", "version": "iteration"},
    "sums of iterations": {"strategy": "aggregate", "iterations": "0-7"},
    "flush": {"strategy": "flush", "buffer": "global"},
    "flush with versions": {"strategy": "flush", "buffer": "global", "version": "iteration", "iterations": "1-"},
    "host": {"buffer": "host"},
    "host, some of it": {"buffer": "host", "iterations": "8-", "metric": "time", "warps": "1-2"},
    "stack": {"buffer": "stack"},
    "stack, some of it": {"buffer": "stack", "slots": 128, "version": "iteration", "iterations": "8-", "warps": "1-2"},
    "sums": {"strategy": "aggregate"},
    "sums of 64 bits": {
        "strategy": "aggregate",
        "buffer": "global",
        "metric": "clock64",
        "granularity": "cta",
        "ctas": "0-7",
    },
    "all of it": {"metric": "time", "granularity": 4, "ctas": "0-:8", "sms": "0-65", "warps": "0-3"},
}


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n * BLOCK + tl.arange(0, BLOCK)
    for i in range(n):
        tl.store(y + at + i * BLOCK, tl.load(x + at + i * BLOCK))


def build(knobs: dict[str, Any], target: GPUTarget, buffer: str) -> Any:
    source = ASTSource(copy, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(3,): 1024}, {})
    request = Request.of(Plan.make("auto", **({"buffer": buffer} | knobs)))
    return compile_instrumented(source, target, {"num_warps": 8}, request)


def is_wide(knobs: dict[str, Any]) -> bool:
    return knobs.get("metric", "clock32") != "clock32" or "version" in knobs or knobs.get("buffer") == "host"


def expected_layout(knobs: dict[str, Any]) -> tuple[int, int, int]:
    """Rings, bytes of a record, step, for 8 warps."""
    step = {"warp-group": 4, "cta": 8}.get(knobs.get("granularity", 1), knobs.get("granularity", 1))
    record_bytes = 16 if is_wide(knobs) else 8
    return 8 // step, 16 if knobs.get("strategy") == "aggregate" else record_bytes, step


@pytest.mark.parametrize("buffer", ["shared", "global"])
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS.keys())
def test_nvidia(knobs: dict[str, Any], arch: int, buffer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    built = build(knobs, GPUTarget("cuda", arch, 32), buffer)
    ptx = built.kernel.asm["ptx"]
    layout = built.layout
    assert (layout.warps, layout.record_bytes, layout.warp_step) == expected_layout(knobs)
    assert layout.wraps == ("strategy" not in knobs)
    buffer = layout.place
    sites = len(built.table.sites)
    # entry and exit read both 64-bit counters whatever a record holds
    reads = {name: ptx.count(f", %{name};") for name in ("clock", "clock64", "globaltimer")}
    metric = knobs.get("metric", "clock32")
    metric = "clock64" if metric == "clock32" and is_wide(knobs) else metric
    assert reads["clock"] == (sites if metric == "clock32" else 0)
    assert reads["clock64"] == 2 + (sites if metric == "clock64" else 0)
    assert reads["globaltimer"] == 2 + (sites if metric == "time" else 0)
    if layout.holds_sums:
        starts = sites // 2
        assert layout.slots == starts == len(built.table.regions)
        assert ptx.count(f"red.{buffer}.max.u32") == ptx.count(f"red.{buffer}.add.u32") == 2 * starts
        assert "st.local" not in ptx and f"st.{buffer}.v2.b32" not in ptx
        return
    words = "b32" if metric == "clock32" else "b64"
    # what the kernel spills itself comes to nothing
    depot = [int(size) for size in re.findall(r"__local_depot\d+\[(\d+)\]", ptx)]
    assert depot == ([layout.slots * layout.record_bytes] if buffer == "stack" else [])
    assert ("ld.local" in ptx) == (buffer == "stack")
    # a header is written with the same store as a wide record in its memory
    spaces = {
        "shared": ("shared", 0),
        "global": ("global", 1),
        "stack": ("local", 0),
        "host": ("relaxed.sys.global", 1),
    }
    space, header = spaces[buffer]
    assert ptx.count(f" st.{space}.v2.{words} [") == sites + (header if words == "b64" else 0)
    turns = [site.versioned for site in built.table.sites]
    assert turns.count(True) == (sites - 2 if {"version", "iterations"} & knobs.keys() else 0), "the kernel has none"
    assert ("%smid" in ptx.split(".loc", 1)[-1].replace("mov.u32 s, %smid", "")) == ("sms" in knobs)


_AMD = """
import json, re, sys
sys.path.insert(0, sys.argv[1])
from test_knobs import KNOBS, GPUTarget, build
for name, knobs in KNOBS.items():
    for buffer in ("shared", "global"):
        built = build(knobs, GPUTarget("hip", sys.argv[2], 64), buffer)
        layout, text = built.layout, built.kernel.asm["amdgcn"]
        print(json.dumps({"name": name, "layout": [layout.warps, layout.record_bytes, layout.warp_step],
            "sites": len(built.table.sites), "clock": text.count("s_memtime"), "time": text.count("s_memrealtime"),
            "stack": int(re.search(r"ScratchSize: ([0-9]+)", text).group(1)),
            "ring": layout.ring_bytes if layout.place == "stack" else 0,
            "atomics": text.count("global_atomic") + text.count("ds_add_u32") + text.count("ds_max_u32")}))
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_amd_compiles(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-c", _AMD, str(Path(__file__).parent), arch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 2 * len(KNOBS)
    for line in lines:
        knobs = KNOBS[line["name"]]
        assert tuple(line["layout"]) == expected_layout(knobs)
        assert line["ring"] <= line["stack"] <= line["ring"] + 16
        if knobs.get("strategy") == "aggregate":
            assert line["atomics"] >= 2 + 4 * (line["sites"] // 2), "two of them for end times"
        is_time = knobs.get("metric") == "time"
        assert line["clock"] >= 2 + (0 if is_time else line["sites"])
        assert line["time"] >= 2 + (line["sites"] if is_time else 0)


_REFUSED = """
import sys
sys.path.insert(0, sys.argv[1])
from test_knobs import GPUTarget, build
from kperfir.errors import LoweringError
arch = int(sys.argv[3]) if sys.argv[2] == "cuda" else sys.argv[3]
try:
    build({}, GPUTarget(sys.argv[2], arch, int(sys.argv[4])), "global")
except LoweringError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("vendor", "arch", "warp"), [("hip", "gfx90a", 64), ("hip", "gfx1100", 32), ("cuda", "75", 32)]
)
def test_other_architectures_are_refused(vendor: str, arch: str, warp: int, tmp_path: Path) -> None:
    """In a process of its own, because a target that Triton does not know may end it."""
    command = [sys.executable, "-c", _REFUSED, str(Path(__file__).parent), vendor, arch, str(warp)]
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert f"no lowering for target '{vendor}:{arch}'. It knows cuda:80" in done.stdout, done.stderr


def test_a_ring_on_the_stack_is_no_spilled_register() -> None:
    layout = Layout(warps=8, slots=64, place="stack")
    assert without_ring(Resources(spills=130), layout) == Resources(spills=2)
    assert without_ring(Resources(spills=130), Layout(warps=8, slots=64)) == Resources(spills=130)
    assert without_ring(Resources(), layout) == Resources()
