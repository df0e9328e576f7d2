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
TARGETS = (("cuda", "80"), ("cuda", "90"), ("cuda", "100"), ("hip", "gfx942"))

# (Triton, target, kernel) -> what differs: [plain, with records]. Instructions are counted in the text, so a loop body
# that LLVM copied counts twice; in these three the plain build has more of them (cause not looked into).
# The local bytes are a thread's stack under the registers that the records leave.
EXCEPTIONS: dict[tuple[str, str, str], dict[str, list[int]]] = {
    ("3.9.0", "80", "attention"): {"local_bytes": [0, 16]},
    ("3.9.0", "100", "matmul-1"): {r"tcgen05\.mma": [8, 4]},
    ("3.9.0", "100", "attention"): {"local_bytes": [0, 16]},
    ("3.9.0", "gfx942", "persistent_matmul"): {"v_mfma": [48, 32]},
    ("3.6.0", "100", "matmul-1"): {r"tcgen05\.mma": [8, 4]},
}


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "arch"), TARGETS)
def test_corpus(backend: str, arch: str, tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, "-W", "ignore", str(CORPUS / "compile_all.py"), backend, arch]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert done.returncode == 0, done.stderr[-2000:]
    compiled = [r for r in results if "plain_error" not in r]
    assert len(compiled) >= 7, results
    for result in compiled:
        assert "error" not in result, result
        assert result["round_trips"] == [True, True], result
        assert result["sites"] >= 4
    found = {r["name"]: d for r in compiled if (d := _differences(r))}
    expected = {k[2]: d for k, d in EXCEPTIONS.items() if k[:2] == (triton.__version__, arch)}
    assert found == expected


def _differences(result: dict[str, Any]) -> dict[str, list[int]]:
    plain, recorded = result["plain"], result["recorded"]
    counts = plain["counts"]
    different = {k: [counts[k], recorded["counts"][k]] for k in counts if counts[k] != recorded["counts"][k]}
    if recorded["local_bytes"] > plain["local_bytes"]:
        different["local_bytes"] = [plain["local_bytes"], recorded["local_bytes"]]
    return different
