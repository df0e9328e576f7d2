"""Kernels of all kinds on all targets: the round trip is exact, and records change nothing they should not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import triton

CORPUS = Path(__file__).parent.parent / "corpus"
COSTS = CORPUS.parent.parent / "benchmarks" / "results" / "code-cost.json"
UPDATE = "`python benchmarks/code_cost.py benchmarks/results/code-cost.json`"
SLACK, MORE_REGISTERS = 0.1, 8  # older versions of ptxas make other code for sm_100 each time
TARGETS = (("cuda", "80"), ("cuda", "90"), ("cuda", "100"), ("hip", "gfx942"))

PEELED = (
    "LLVM peels the first iteration of the plain build's loop, whose dot does not accumulate; with records it does not"
)
UNPEELED = (
    "LLVM peels the first iteration of the loop in one of the builds alone (llvm.loop.peeled.count in its LLVM IR): "
    "the text holds the loop's body twice, and an iteration does the same in both"
)
REGISTERS = "records around a dot keep its operands' loads before it, so all operands are in registers at once"
FULL = "the plain build takes 239 to 250 of a thread's 255 registers; what the records need does not fit beside it"
SPILLS = "the plain build spills already; records keep loads and dots apart, so more is live between them"

# (Triton, target, kernel) -> what differs as [plain, with records], and why. Instructions are counted in the text, so
# a block of which LLVM makes copies counts once a copy. Local bytes are a thread's stack.
EXCEPTIONS: dict[tuple[str, str, str], tuple[dict[str, list[int]], str]] = {
    ("3.6.0", "100", "matmul-1"): ({r"tcgen05\.mma": [8, 4]}, PEELED),
    ("3.9.0", "100", "matmul-1"): ({r"tcgen05\.mma": [8, 4]}, PEELED),
    ("3.9.0", "100", "attention"): ({"local_bytes": [0, 16]}, FULL),
    ("3.9.0", "80", "attention"): ({"local_bytes": [0, 16]}, FULL),
    ("3.6.0", "80", "attention_backward_keys"): ({"local_bytes": [0, 552]}, REGISTERS),
    ("3.9.0", "80", "attention_backward_keys"): ({"local_bytes": [0, 552]}, REGISTERS),
    ("3.6.0", "80", "attention_backward_queries"): ({"local_bytes": [0, 56]}, REGISTERS),
    ("3.9.0", "80", "attention_backward_queries"): ({"local_bytes": [0, 48]}, REGISTERS),
    ("3.6.0", "gfx942", "attention_backward_keys"): ({"local_bytes": [176, 372]}, SPILLS),
    ("3.9.0", "gfx942", "attention_backward_keys"): ({"local_bytes": [220, 356]}, SPILLS),
    ("3.6.0", "gfx942", "attention_backward_queries"): ({"v_mfma": [80, 120], "s_barrier": [7, 9]}, UNPEELED),
    ("3.9.0", "gfx942", "persistent_matmul"): ({"v_mfma": [48, 32], "s_barrier": [6, 4]}, UNPEELED),
}
# Gluon kernels are written for one architecture
KERNELS = {"80": 11, "90": 13, "100": 11, "gfx942": 9}


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "arch"), TARGETS)
def test_corpus(backend: str, arch: str, tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, "-W", "ignore", str(CORPUS / "compile_all.py"), backend, arch]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert done.returncode == 0, done.stderr[-2000:]
    compiled = [r for r in results if "plain_error" not in r]
    assert len(compiled) == len(results) == KERNELS[arch], results
    for result in compiled:
        assert "error" not in result, result
        assert result["round_trips"] == [True] * (1 if result["name"].startswith("gluon") else 2), result
        assert result["sites"] >= 4
        assert result["doubts"] == [], "records stand around what was marked, and nothing is moved out of them"
    found = {r["name"]: d for r in compiled if (d := _differences(r))}
    expected = {k[2]: d for k, (d, _) in EXCEPTIONS.items() if k[:2] == (triton.__version__, arch)}
    assert found == expected
    _assert_no_dearer({r["name"]: r["cost"] for r in compiled}, f"{backend}:{arch}")


def _assert_no_dearer(costs: dict[str, dict[str, Any]], target: str) -> None:
    """A record has about as many instructions, and a kernel no more registers, than in the committed figures."""
    committed = json.loads(COSTS.read_text())[triton.__version__]["targets"][target]
    assert costs.keys() == committed.keys(), f"run {UPDATE}"
    for name, cost in costs.items():
        before = committed[name]
        known = before["instructions_per_record"]  # below 0 where the plain build has more copies of a loop
        most = known + abs(known) * SLACK + SLACK
        assert cost["records"] == before["records"], f"{name}: run {UPDATE} if that is meant"
        assert cost["instructions_per_record"] <= most, f"{name} on {target}: a record became dearer"
        assert cost["registers"][1] <= before["registers"][1] + MORE_REGISTERS, f"{name} on {target}"


def _differences(result: dict[str, Any]) -> dict[str, list[int]]:
    plain, recorded = result["plain"], result["recorded"]
    counts = plain["counts"]
    different = {k: [counts[k], recorded["counts"][k]] for k in counts if counts[k] != recorded["counts"][k]}
    if recorded["local_bytes"] > plain["local_bytes"]:
        different["local_bytes"] = [plain["local_bytes"], recorded["local_bytes"]]
    return different
