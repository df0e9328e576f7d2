"""What the sweep counts: a loop without a record is seen, and so is a process that ended in the middle of a compile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks" / "sweep"))

from journal import Journal, Line
from loops import unrecorded
from summary import summed, table
from sweep import _note_crash


@triton.jit
def _copy_in_two_loops(x, y, n):
    for i in range(n):
        for j in range(n):
            tl.store(y + i * n + j, tl.load(x + i * n + j))
    for i in range(n):
        tl.store(y + i, i)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    return ASTSource(_copy_in_two_loops, {"x": "*i32", "y": "*i32", "n": "i32"})


@pytest.mark.parametrize(("regions", "bare"), [(("auto",), 0), (("kernel",), 2), (("load",), 1)])
def test_loops_without_a_record_are_seen(source: Any, regions: tuple[str, ...], bare: int) -> None:
    built = compile_instrumented(source, GPUTarget("cuda", 80, 32), {}, Request(regions))
    working, wrong = unrecorded(built.kernel)
    assert working == 2  # the outer one of the nest has nothing of its own
    assert len(wrong) == bare


def test_a_plain_kernel_is_bare(source: Any) -> None:
    working, wrong = unrecorded(triton.compile(source, target=GPUTarget("cuda", 80, 32), options={}))
    assert (working, wrong[-1]) == (2, "no record in the kernel")


def test_a_process_that_ends_in_a_compile_crashed_in_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "liger-cuda-90.jsonl")
    assert not _note_crash(journal, "exit status -6")
    journal.write(Line("a", 0, "instrumented", "k", "1", loops=1, sites=4, seconds=[1.0, 2.0]))
    journal.write(Line("a", 1, "begun", "l", "2", "with records"))
    assert _note_crash(journal, "exit status -6")
    assert not _note_crash(journal, "exit status -6")
    target = summed(tmp_path)["targets"]["cuda:90"]
    assert (target["kernels"], target["instrumented"], target["share_instrumented"]) == (2, 1, 0.5)
    crash = {"kernel": "l", "case": "a", "cause": "exit status -6 while it compiled with records"}
    assert target["crashes"] == [crash]


def test_a_process_that_ends_in_a_plain_compile_failed_plain(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "liger-cuda-90.jsonl")
    journal.write(Line("a", 0, "begun", "k", "", "plain"))
    assert _note_crash(journal, "no result in time")
    target = summed(tmp_path)["targets"]["cuda:90"]
    assert target["crashes"] == []
    assert [f["cause"] for f in target["plain_failures"]] == ["no result in time while it compiled plain"]


def test_a_kernel_is_counted_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "fla-cuda-90.jsonl")
    for case in ("a", "b"):
        journal.write(Line(case, 0, "exception", "k", "1", "KperfError: no"))
    journal.write(Line("b", 0, "begun", "k", "", "plain"))  # a second process came by and found it known
    result = summed(tmp_path)
    assert result["targets"]["cuda:90"]["kernels"] == 1
    assert not result["complete"] and not result["reached"]
    assert "cuda:90 exceptions: k: KperfError: no" in table(result | {"triton": "3.9.0"})
