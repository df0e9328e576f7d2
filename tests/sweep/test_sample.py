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


_TUTORIAL = """
import torch
import triton
import triton.language as tl
import triton.testing

DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)

def double(x):
    y = torch.empty_like(x)
    kernel = doubled.warmup(x, y, x.numel(), BLOCK=256, grid=(1,))
    kernel._init_handles()
    kernel[(kernel.n_regs, 1, 1)](x, y, x.numel(), 256)
    doubled[(1,)](x, y, x.numel(), BLOCK=512)
    return y

x = torch.rand(1000, device=DEVICE)
assert torch.allclose(double(x), 2 * x)

@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["n"], x_vals=[64, 1 << 40], line_arg="unroll", line_vals=[1024], line_names=["a"], plot_name="p", args={},
))
def benchmark(n, unroll):
    x = torch.rand(n, device=DEVICE)
    return triton.testing.do_bench(lambda: doubled[(1,)](x, x, n, BLOCK=unroll))

if __name__ == "__main__":
    benchmark.run(print_data=True)
"""


@pytest.mark.slow
def test_a_program_like_triton_s_tutorials_runs_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "01-double.py").write_text(_TUTORIAL)
    monkeypatch.setenv("TUTORIALS", str(tmp_path))
    lines = _launched("tutorials", "cuda:90", ("01-double.py",), tmp_path)
    assert [line.cause for line in lines if line.launch < 0] == [""]
    assert [line.outcome for line in lines if line.launch >= 0 and line.outcome != "begun"] == ["instrumented"] * 3
