"""Twenty of the kernels that `benchmarks/sweep` compiles: launched by other people's libraries, every loop recorded."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks" / "sweep"))

from journal import Journal, Line
from summary import LIBRARIES

WORKER = Path(__file__).parent.parent.parent / "benchmarks" / "sweep" / "worker.py"

# (library, target) -> wrappers, and how many kernels they launch
SAMPLE = {
    ("liger", "cuda:80"): (("CrossEntropy", "GroupNorm", "Sparsemax"), 6),
    ("liger", "hip:gfx942"): (("LayerNorm", "Softmax"), 4),
    ("fla", "cuda:90"): (("chunk_hgrn", "fused_recurrent_gla"), 6),
    ("fla", "cuda:100"): (("parallel_attn",), 4),
}


def _launched(library: str, target: str, cases: tuple[str, ...], folder: Path) -> list[Line]:
    journal = Journal(folder / "journal.jsonl")
    command = [sys.executable, "-W", "ignore", str(WORKER), library, target, str(journal.path), *cases]
    environment = os.environ | {"TRITON_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return journal.lines()


@pytest.mark.slow
@pytest.mark.parametrize(("library", "target"), SAMPLE)
def test_kernels_of_libraries_are_instrumented(library: str, target: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(LIBRARIES[library].module) is None:
        pytest.skip(f"{LIBRARIES[library].package} is not installed")
    cases, count = SAMPLE[library, target]
    lines = _launched(library, target, cases, tmp_path)
    ended = {line.case: line.cause for line in lines if line.launch < 0}
    assert ended == dict.fromkeys(cases, "")
    kernels = [line for line in lines if line.launch >= 0 and line.outcome != "begun"]
    assert [k for k in kernels if k.outcome != "instrumented"] == []
    assert len(kernels) == count
