"""What an interpreted launch records, and that a program's own errors stay its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import interpreted_kernels as k
import pytest
import torch
import triton
from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime import autotuner, interpreter

import kperfir as kp
from kperfir import language
from kperfir.capture.policy import Policy
from kperfir.errors import CaptureError, PlanError, ProgramError
from kperfir.plan import Plan
from kperfir.session import record_program

REPLACED = (
    interpreter.GridExecutor,
    interpreter.InterpreterBuilder,
    interpreter.ReduceScanOpInterface,
    interpreter.ASTTransformer,
    interpreter.FunctionRewriter,
    interpreter.InterpretedFunction,
    autotuner.Autotuner,
    GluonJITFunction,
)


@pytest.fixture(autouse=True)
def everything_is_put_back() -> Iterator[None]:
    before = [dict(vars(owner)) for owner in REPLACED]
    yield
    assert [dict(vars(owner)) for owner in REPLACED] == before
    assert "_kperfir_loop" not in vars(k)
    assert language.active.get() is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.kperf"


def counts(path: Path) -> dict[str, int]:
    return dict(Counter(kp.load(path).events()["region"].to_pylist()))


def codes(path: Path) -> list[str]:
    return [p.code for p in kp.load(path).problems()]


def tally(path: Path) -> dict[str, dict[str, int]]:
    return kp.load(path).captures[0].tally


def add(n: int = 100) -> None:
    x, y, out = torch.randn(n), torch.randn(n), torch.zeros(n)
    k.add[(2,)](x, y, out, n, 64)
    assert torch.equal(out, x + y)


# --- counts


def test_scopes_marks_and_rules(path: Path) -> None:
    with kp.record(path):
        add()
    assert counts(path) == {"kernel": 2, "body": 2, "load": 4, "store": 2, "done": 2}
    assert codes(path) == []


def test_scopes_alone(path: Path) -> None:
    with kp.record(path, regions=None):
        add()
    assert counts(path) == {"body": 2, "done": 2}


def test_a_kernel_without_loops_is_recorded_everywhere(path: Path) -> None:
    x, out = torch.randn(3, 10), torch.zeros(3, 10)
    with kp.record(path):
        k.softmax[(3,)](x, out, 10, 16)
    assert torch.allclose(out, x.softmax(1), atol=1e-6)
    assert counts(path) == {"kernel": 3, "load": 3, "reduce": 6, "store": 3}


@pytest.mark.parametrize(
    ("regions", "more"),
    [("auto", {}), ("kernel+load+store+dot+loop", {"loop": 4, "store": 4})],
)
def test_a_kernel_with_loops(regions: str, more: dict[str, int], path: Path) -> None:
    a, b, c = torch.randn(32, 48), torch.randn(48, 32), torch.zeros(32, 32)
    with kp.record(path, regions=regions):
        k.matmul[(2, 2)](a, b, c, 48, 32, 16)
    assert torch.allclose(c, a @ b, atol=1e-4)
    assert counts(path) == {"kernel": 4, "step": 12, "load": 24, "dot": 12} | more


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("count_up", (5,), {"kernel": 1, "loop": 1, "step": 5, "load": 5, "store": 5}),
        ("count_up", (0,), {"kernel": 1, "loop": 1}),
        ("leaves_loops", (3,), {"kernel": 1, "loop": 4, "in": 6, "load": 6, "store": 6}),
        ("assigns_in_a_condition", (), {"kernel": 1, "in": 4, "load": 4, "store": 4}),
        ("returns_from_a_loop", (), {"kernel": 1, "loop": 1, "in": 3, "load": 2, "store": 2}),
        ("calls_a_helper", (), {"kernel": 1, "outer": 1, "loop": 1, "helped": 3, "load": 3, "store": 3}),
    ],
)
def test_loops_of_all_sorts(name: str, arguments: tuple[int, ...], expected: dict[str, int], path: Path) -> None:
    plain, x = torch.zeros(1), torch.zeros(1)
    getattr(k, name)[(1,)](plain, *arguments)
    for regions in ("kernel+loop+load+store", "auto"):
        with kp.record(path, regions=regions):
            getattr(k, name)[(1,)](x.zero_(), *arguments)
        assert x == plain
        if regions == "auto":
            expected = {name: n for name, n in expected.items() if name != "loop"}
        assert counts(path) == expected
        assert codes(path) == []


def test_a_ring_that_wraps_keeps_the_end(path: Path) -> None:
    with kp.record(path, regions="store", slots=32):
        k.count_up[(1,)](torch.zeros(1), 100)
    (launch,) = kp.load(path).launches
    assert (launch.written, launch.kept) == (400, 32)
    assert counts(path)["step"] == 8 == counts(path)["store"]


def test_regions_that_appear_later_make_a_new_kernel(path: Path) -> None:
    with kp.record(path, first=10):
        for flag in (0, 1, 0):
            k.marks_later[(1,)](torch.zeros(1), flag)
    trace = kp.load(path)
    assert len(trace.kernels) == 2 and counts(path) == {"kernel": 3, "store": 3, "new": 1}


def test_an_empty_kernel_and_an_empty_grid(path: Path) -> None:
    with kp.record(path, regions=None, first=10):
        k.nothing[(2,)](torch.zeros(1))
        k.nothing[(0,)](torch.zeros(1))
    assert tally(path) == {"nothing": {"recorded": 2}}


# --- sources


@pytest.mark.parametrize("folder", ["triton", "kperfir/bridge", "kperfir/language"])
def test_lines_are_the_programs_whatever_its_folders_are_called(folder: str, tmp_path: Path, path: Path) -> None:
    place = tmp_path / folder / "mine.py"
    place.parent.mkdir(parents=True)
    shutil.copy(k.__file__, place)
    spec: Any = importlib.util.spec_from_file_location("mine", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, out = torch.randn(64), torch.zeros(64)
    with kp.record(path):
        module.add[(1,)](x, x, out, 64, 64)
    regions = kp.load(path).kernels[0].table.regions
    assert {r.file for r in regions} == {str(place)}
    lines = Path(place).read_text().splitlines()
    for region in regions:
        if region.name in ("load", "store"):
            assert f"tl.{region.name}(" in lines[region.line - 1]


# --- wrong programs


@pytest.mark.parametrize("regions", ["auto", "loop+store", None])
@pytest.mark.parametrize("kernel", k.WRONG, ids=lambda kernel: kernel.fn.__name__)
def test_a_scope_that_is_wrong_is_named_and_the_kernel_runs(kernel: Any, regions: str | None, path: Path) -> None:
    x = torch.zeros(1)
    with kp.record(path, regions=regions):
        kernel[(2,)](x)
        kernel[(2,)](x)
    assert x == 1
    assert codes(path) == ["not-recorded"]
    (problem,) = kp.load(path).problems()
    assert "'a'" in problem.what and "interpreted_kernels.py:" in problem.what
    assert tally(path) == {kernel.fn.__name__: {"not-instrumented": 2}}


def test_a_kernels_own_error_is_no_scope_error_and_no_end(path: Path) -> None:
    x = torch.zeros(1)
    with kp.record(path, regions="kernel+loop+load", first=10):
        for bad in (0, 1, 0):
            try:
                k.fails_if[(2,)](x, bad)
            except interpreter.InterpreterError:
                assert bad
    assert tally(path) == {"fails_if": {"recorded": 3}}
    assert "not-recorded" not in codes(path)
    good, failed, again = kp.load(path).launches
    assert (good.unfinished_ctas, failed.unfinished_ctas, again.unfinished_ctas) == (0, 1, 0)
    assert good.written == again.written and good.unpaired == again.unpaired == {}


def test_an_argument_that_triton_refuses_stops_nothing(path: Path) -> None:
    with kp.record(path):
        with pytest.raises(Exception):  # noqa: B017
            k.add[(1,)](torch.zeros(1), None, None, 1, 64)
        add()
    assert counts(path)["body"] >= 2


def test_a_launch_that_would_pass_the_limit_is_counted(path: Path) -> None:
    with kp.record(path, limit_bytes=4000, first=100):
        k.nothing[(1,)](torch.zeros(1))
        k.nothing[(1000,)](torch.zeros(1))
        k.nothing[(1000,)](torch.zeros(1))
    assert tally(path) == {"nothing": {"recorded": 1, "file-full": 2}}
    assert codes(path).count("file-full") == 1
    assert os.path.getsize(path) < 20_000


def test_autotuning_is_refused_but_one_configuration_is_not(path: Path) -> None:
    one = triton.autotune([triton.Config({"BLOCK": 64})], key=[])(k.add)
    two = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], key=[])(k.add)
    x, out = torch.randn(64), torch.zeros(64)
    with kp.record(path):
        one[(1,)](x, x, out, 64)
        with pytest.raises(ProgramError, match="autotuned over 2"):
            two[(1,)](x, x, out, 64)
    assert counts(path)["kernel"] == 1


def test_a_tuner_that_brings_its_own_measurement_works(path: Path) -> None:
    def do_bench(run: Any, quantiles: Any = None) -> list[float]:
        run()
        return [1.0, 1.0, 1.0]

    configurations = [triton.Config({"BLOCK": b}) for b in (8, 16, 32, 64)]
    tuned = triton.autotune(configurations, key=[], do_bench=do_bench)(k.add)
    x, out = torch.randn(64), torch.zeros(64)
    with kp.record(path, first=2, every=0):
        for _ in range(3):
            tuned[(8,)](x, x, out, 64)
    assert torch.equal(out, x + x)
    assert tally(path) == {"add": {"autotune-trial": 4, "recorded": 2, "sampled-out": 1}}


WORKS_HERE = {"regions": "auto", "slots": "64", "kernels": "add*", "launches": "0-7"}
OF_GPUS = {
    "buffer": "global",
    "metric": "time",
    "strategy": "flush",
    "version": "iteration",
    "granularity": "cta",
    "ctas": "0",
    "sms": "0",
    "warps": "0",
    "iterations": "0",
}


def test_every_knob_is_known_here() -> None:
    assert {f.name for f in fields(Plan)} == WORKS_HERE.keys() | OF_GPUS.keys() | {"addresses"}, "that is refused"


@pytest.mark.parametrize("knob", [*WORKS_HERE, *OF_GPUS])
def test_a_knob_works_or_is_said_to_have_no_effect(path: Path, knob: str) -> None:
    with kp.record(path, **({"regions": "none"} | {knob: (WORKS_HERE | OF_GPUS)[knob]})):
        add()
    said = [p.what for p in kp.load(path).problems() if p.code == "no-knob"]
    assert said == ([f"Triton's interpreter knows no {knob}, so that has no effect."] if knob in OF_GPUS else [])
    assert counts(path)["body"] == 2, "of both programs"


def test_a_program_recorded_whole_rests_while_it_records_itself(path: Path, tmp_path: Path) -> None:
    with record_program(path, "a run", Policy(Plan.make("auto"))):
        add()
        with kp.record(tmp_path / "own.kperf"):
            add()
        add()
    assert tally(path) == {"add": {"recorded": 2}} and codes(path) == ["own-recording"]
    assert tally(tmp_path / "own.kperf") == {"add": {"recorded": 1}}


@pytest.mark.parametrize("spelled", ["the same", "a link", "the folder"])
def test_a_program_recorded_whole_records_itself_into_another_place(tmp_path: Path, spelled: str) -> None:
    outer = tmp_path / "whole"
    if spelled == "the folder":
        outer.mkdir()
    with record_program(outer, "a run", Policy(Plan.make("auto"))) as path:
        add()
        if spelled == "a link":
            (tmp_path / "own").symlink_to(outer)
        own = tmp_path / "own" if spelled == "a link" else outer
        with pytest.raises(CaptureError, match="the whole program is being recorded into"), kp.record(own):
            add()
        add()
    assert tally(path) == {"add": {"recorded": 2}} and codes(path) == []


@pytest.mark.parametrize("end", ["close", "rest"])
def test_a_launch_that_another_thread_has_under_way_is_waited_for(path: Path, tmp_path: Path, end: str) -> None:
    inside, ending = threading.Event(), threading.Event()
    whole = interpreter.InterpreterBuilder.set_grid_idx

    def slow(builder: Any, *place: int) -> Any:
        inside.set()
        ending.wait(10)
        time.sleep(0.05)  # the end goes on meanwhile
        return whole(builder, *place)

    thread = threading.Thread(target=add)
    with pytest.MonkeyPatch.context() as patch, record_program(path, "a run", Policy(Plan.make("kernel"))):
        whole = interpreter.InterpreterBuilder.set_grid_idx
        patch.setattr(interpreter.InterpreterBuilder, "set_grid_idx", slow)
        thread.start()
        assert inside.wait(10)
        patch.undo()
        ending.set()
        if end == "rest":
            with kp.record(tmp_path / "own.kperf"):
                assert not thread.is_alive() or tally(path) == {"add": {"recorded": 1}}
    thread.join()
    (launch,) = kp.load(path).launches
    assert launch.unfinished_ctas == launch.missing_ctas == 0
    assert tally(path) == {"add": {"recorded": 1}}


def test_an_error_that_leaves_the_recording_is_named(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), kp.record(path):
        add(1 // 0)
    (problem,) = (p for p in kp.load(path).problems() if p.code == "failed")
    assert "ZeroDivisionError" in problem.what and "exit code" not in problem.what


def test_gluon_is_refused(path: Path) -> None:
    from triton.experimental import gluon

    @gluon.jit
    def kernel() -> None:
        pass

    with kp.record(path), pytest.raises(ProgramError, match="Gluon kernel 'kernel'"):
        kernel[(1,)]()


# --- callback and passes


def test_each_launch_is_delivered_decoded(path: Path) -> None:
    seen: list[Any] = []
    with kp.record(path, first=2, every=0, on_launch=seen.append):
        for n in (100, 120, 128):
            add(n)
    assert [(launch.kernel.name, launch.launch.number) for launch in seen] == [("add", 0), ("add", 1)]
    expected = kp.load(path).launches
    assert [launch.table.to_pylist() for launch in seen] == [launch.table.to_pylist() for launch in expected]
    assert codes(path) == []


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)])
def test_a_callback_that_fails_is_told_of_once_and_reaches_nobody(path: Path, error: BaseException) -> None:
    calls: list[Any] = []

    def fail(launch: Any) -> None:
        calls.append(launch)
        raise error

    with kp.record(path, on_launch=fail):
        add()
        add()
    (problem,) = (p for p in kp.load(path).problems() if p.code == "callback-failed")
    assert len(calls) == 2
    assert type(error).__name__ in problem.what and problem.where == "add, launch 0"


def test_passes_that_the_interpreter_cannot_run_are_told_of_once(path: Path) -> None:
    class Mine(kp.Pass):
        name = "mine"

        def run(self, module: Any, context: kp.PassContext) -> None: ...

    kp.patch(Mine, kernels="add")
    try:
        with kp.record(path):
            add()
            add()
    finally:
        kp.unpatch()
    (problem,) = (p for p in kp.load(path).problems() if p.code == "pass-skipped")
    assert "Pass 'mine' at ttgir:after-place" in problem.what


def test_addresses_are_refused_before_a_capture_is_made(path: Path) -> None:
    with pytest.raises(PlanError, match="has no lanes"), kp.record(path, addresses="load"):
        pass
    assert not path.exists()
