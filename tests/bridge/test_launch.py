"""What becomes of a launch, with kernels and a driver that are stand-ins: no GPU is needed to go wrong."""

from __future__ import annotations

import ctypes
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from triton import knobs
from triton.compiler import CompiledKernel
from triton.runtime import _allocation

import kperfir as kp
from kperfir.bridge import launch
from kperfir.bridge.build import Twin
from kperfir.bridge.replaced import wrapped
from kperfir.capture.policy import LaunchTally, Policy
from kperfir.capture.schema import Problem, Session
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import BridgeError, DeviceError
from kperfir.plan import Plan
from kperfir.records import Layout

PLAN = Plan.make("auto", buffer="global", slots=32, launches="0-9")


class FakeDriver:
    """Answers like a device on which everything works, but for the calls named in `broken`."""

    broken: tuple[str, ...] = ()
    memory = ctypes.create_string_buffer(1 << 16)

    capture_unharmed = staticmethod(nullcontext)

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> Any:
            if name in self.broken:
                raise DeviceError(f"{name} failed with a broken device.")
            memory = ctypes.addressof(self.memory)
            answers = {"is_capturing": False, "has_passed": True, "pinned": memory, "mapped": (memory, 1 << 40)}
            return answers.get(name, 1)

        return call


def kernel(name: str, ran: list[str], error: BaseException | None = None) -> Any:
    """A compiled kernel whose launcher notes that it ran."""
    made = CompiledKernel.__new__(CompiledKernel)

    def run(*_: Any) -> None:
        ran.append(name)
        if error is not None:
            raise error

    made.name, made.hash, made.function, made.packed_metadata = "add", name, 1, ()
    made.metadata = SimpleNamespace(num_ctas=1, target=SimpleNamespace(backend="cuda", arch=90))
    made._run, made.module = run, None
    return made


class Stage:
    """One open recording over stand-ins."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.ran: list[str] = []
        self.tally = LaunchTally()
        self.twin: Any = None
        self.policy = Policy(PLAN)
        self.layout = Layout(1, 32)
        self.held = threading.Event()
        self.device = FakeDriver()
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(CompiledKernel, "run", property(lambda kernel: kernel._run))
        monkeypatch.setattr(launch, "Driver", lambda: self.device)
        monkeypatch.setattr(launch, "self_check", lambda: None)
        monkeypatch.setattr(launch, "check_conflicts", lambda: None)
        monkeypatch.setattr(launch, "device_limits", lambda *_: None)
        monkeypatch.setattr(launch, "driver", SimpleNamespace(active=SimpleNamespace(get_current_device=lambda: 0)))
        monkeypatch.setattr(launch, "instrument", lambda *_: Twin(self.twin, layout=self.layout))

    @contextmanager
    def recording(self) -> Iterator[launch.Launches]:
        with CaptureWriter(self.path) as writer:
            writer.write(Session("gpu", "regions=auto"))
            with launch.Launches(writer, self.policy, self.tally) as launches:
                yield launches

    def launch(self, plain: Any, grid: tuple[int, int, int] = (2, 1, 1)) -> None:
        plain.run(*grid, 7, plain.function, plain.packed_metadata)

    @property
    def counts(self) -> dict[str, int]:
        return self.tally.snapshot().get("add", {})

    @property
    def problems(self) -> list[Problem]:
        return list(kp.load(self.path).problems())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path / "x.kperf", monkeypatch)


def test_a_twin_that_the_driver_refuses_gives_way_to_the_plain_kernel(stage: Stage) -> None:
    stage.twin = kernel("twin", stage.ran, RuntimeError("Triton Error [CUDA]: out of resource"))
    plain = kernel("plain", stage.ran)
    with stage.recording():
        stage.launch(plain)
        stage.launch(plain)
    assert stage.ran == ["twin", "plain", "plain"]
    assert stage.counts == {"not-instrumented": 2}
    (problem,) = (p for p in stage.problems if p.code == "not-recorded")
    assert "out of resource" in problem.what and "without records" in problem.cure


def test_an_error_that_is_the_programs_own_goes_through_and_nothing_runs_twice(stage: Stage) -> None:
    stage.twin = kernel("twin", stage.ran, KeyboardInterrupt())
    with stage.recording(), pytest.raises(KeyboardInterrupt):
        stage.launch(kernel("plain", stage.ran))
    assert stage.ran == ["twin"]


def test_a_launch_that_fails_plain_too_shows_the_drivers_error(stage: Stage) -> None:
    error = RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")
    stage.twin = kernel("twin", stage.ran, error)
    with stage.recording(), pytest.raises(RuntimeError, match="illegal memory access"):
        stage.launch(kernel("plain", stage.ran, error))


@pytest.mark.parametrize("call", ["ensure_context", "is_capturing", "current_context", "stream", "pinned"])
def test_what_goes_wrong_in_the_decision_leaves_the_plain_kernel(stage: Stage, call: str) -> None:
    stage.twin, stage.device.broken = kernel("twin", stage.ran), (call,)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran))
        stage.launch(kernel("plain", stage.ran))
    assert stage.ran == ["plain", "plain"]
    assert stage.counts == {"not-instrumented": 2}
    assert [p.code for p in stage.problems if call in p.what] == ["not-recorded"]


def test_what_goes_wrong_behind_a_launch_leaves_the_launch(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AttributeError("something unforeseen")

    monkeypatch.setattr(launch, "_message", fail)
    freed: list[Any] = []
    stage.twin, stage.device.free = kernel("twin", stage.ran), lambda *_: freed.append(1)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran))
    assert (stage.ran, stage.counts, freed) == (["twin"], {"recorded": 1}, [1])
    (lost,) = (p for p in stage.problems if p.code == "lost-launch")
    assert "something unforeseen" in lost.what


def test_a_profiler_that_is_started_behind_the_recording(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is active nothing is instrumented; afterwards it is."""
    active: list[str] = []

    def check() -> None:
        if active:
            raise BridgeError("Proton's instrumentation is active in this process.")

    monkeypatch.setattr(launch, "check_conflicts", check)
    stage.twin, plain = kernel("twin", stage.ran), kernel("plain", stage.ran)
    with stage.recording():
        active.append("proton")
        stage.launch(plain)
        active.clear()
        stage.launch(plain)
    assert stage.ran == ["plain", "twin"]
    assert stage.counts == {"not-instrumented": 1, "recorded": 1}
    assert [p.what for p in stage.problems if p.code == "not-recorded"] == [
        "Proton's instrumentation is active in this process."
    ]


def test_a_drain_that_fails_to_close_does_not_keep_the_others_open(stage: Stage) -> None:
    """Nor does what stood before it."""
    closed: list[str] = []

    class Failing:
        in_flight_bytes = 0

        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            closed.append(self.name)
            raise RuntimeError(self.name)

    with CaptureWriter(stage.path) as writer:
        launches = launch.Launches(writer, stage.policy, stage.tally)
        with pytest.raises(RuntimeError), launches:
            launches._drains.update({0: Failing("a"), 1: Failing("b")})  # type: ignore[dict-item]
    assert sorted(closed) == ["a", "b"]


@pytest.mark.parametrize(
    ("layout", "ctas", "words"),
    [
        (Layout(4, 1 << 22), 1, "a CTA's 128 MiB of records are more than the 64 MiB that are copied at once"),
        (Layout(4, 1 << 16), 1 << 20, "0 MiB of records wait to be written, and 4096 MiB is the most"),
    ],
)
def test_records_that_are_too_large_are_said_to_be(stage: Stage, layout: Layout, ctas: int, words: str) -> None:
    stage.twin, stage.layout, stage.policy = kernel("twin", stage.ran), layout, Policy(PLAN, 1 << 50)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (ctas, 1, 1))
    assert stage.counts == {"no-buffer": 1}
    (problem,) = (p for p in stage.problems if p.code == "no-buffer")
    assert words in problem.what


@pytest.mark.parametrize("call", ["allocate", "clear"])
def test_without_memory_the_plain_kernel_runs_and_is_counted(stage: Stage, call: str) -> None:
    stage.twin, stage.device.broken = kernel("twin", stage.ran), (call,)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran))
    assert stage.ran == ["plain"]
    assert stage.counts == {"no-buffer": 1}


@pytest.mark.parametrize("call", ["record_event", "set_context", "copy_to_host", "has_passed"])
def test_records_that_are_lost_are_reported_and_the_launch_stands(stage: Stage, call: str) -> None:
    stage.twin, stage.device.broken = kernel("twin", stage.ran), (call,)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran))
    assert stage.ran == ["twin"]
    lost = [p for p in stage.problems if p.code == "lost-launch"]
    assert len(lost) == 1 and "broken device" in lost[0].what


def asking(twin: Any, size_bytes: int, got: list[Any], meanwhile: Callable[[], None] = lambda: None) -> Any:
    """The twin asks for its scratch memory, as Triton's launcher does for one with records."""
    run = twin._run

    def ask_and_run(*_: Any) -> None:
        meanwhile()
        got.append(_allocation._profile_allocator(size_bytes, 128, 7))
        run()

    twin._run = ask_and_run
    return twin


@pytest.mark.parametrize("end", ["close", "rest"])
def test_a_launch_that_another_thread_has_under_way_keeps_its_memory(stage: Stage, end: str) -> None:
    """Closing a recording, and resting, wait for it."""
    launched, ending, got = threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

    def wait() -> None:
        launched.set()
        ending.wait(10)
        time.sleep(0.05)  # the end goes on meanwhile

    stage.twin = asking(kernel("twin", stage.ran), 2 * stage.layout.cta_bytes, got, wait)
    plain = kernel("plain", stage.ran)
    thread = threading.Thread(target=stage.launch, args=(plain,))
    with stage.recording() as launches:
        thread.start()
        assert launched.wait(10)
        ending.set()
        if end == "rest":
            with launches.resting():
                assert stage.ran == ["twin"] and plain.run is plain._run
            stage.launch(plain)
    thread.join()
    launches_made = 1 + (end == "rest")
    assert stage.ran == ["twin"] * launches_made
    assert stage.counts == {"recorded": launches_made}
    assert [buffer.size_bytes for buffer in got] == [2 * stage.layout.cta_bytes] * launches_made
    assert len(list(kp.load(stage.path).launches)) == launches_made


def test_a_launcher_kept_from_before_a_rest_runs_the_plain_kernel_in_it(stage: Stage) -> None:
    got: list[Any] = []
    stage.twin, plain = asking(kernel("twin", stage.ran), 64, got), kernel("plain", stage.ran)
    with stage.recording() as launches:
        kept = plain.run
        with launches.resting():
            kept(2, 1, 1, 7, plain.function, plain.packed_metadata)
        kept(2, 1, 1, 7, plain.function, plain.packed_metadata)
    assert stage.ran == ["plain", "twin"] and stage.counts == {"recorded": 1}


def test_a_twin_that_asks_for_more_memory_than_was_expected_gives_way_to_the_plain_kernel(stage: Stage) -> None:
    got: list[Any] = []
    stage.twin = asking(kernel("twin", stage.ran), 2 * stage.layout.cta_bytes + 1, got)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran))
    assert (stage.ran, got, stage.counts) == (["plain"], [], {"not-instrumented": 1})
    (problem,) = (p for p in stage.problems if p.code == "not-recorded")
    assert f"{2 * stage.layout.cta_bytes} were expected" in problem.what


def test_a_wrapper_that_somebody_put_over_ours_stays_and_runs_the_plain_kernel(stage: Stage) -> None:
    seen: list[str] = []
    stage.twin, plain = kernel("twin", stage.ran), kernel("plain", stage.ran)
    with stage.recording():
        under: Any = CompiledKernel.__dict__["run"]

        def theirs(self: Any) -> Any:
            seen.append("theirs")
            return under.fget(self)

        over = property(theirs)
        stage.monkeypatch.setattr(CompiledKernel, "run", over)
        stage.launch(plain)
    stage.launch(plain)
    assert CompiledKernel.__dict__["run"] is over
    assert (stage.ran, seen, stage.counts) == (["twin", "plain"], ["theirs"] * 2, {"recorded": 1})


def test_a_method_that_somebody_wrapped_over_ours_stays_and_calls_the_original(stage: Stage) -> None:
    class Owner:
        def method(self) -> list[str]:
            return ["original"]

    def wrapper(original: Any, *args: Any) -> list[str]:
        return ["ours", *original(*args)]

    with wrapped(Owner, "method", wrapper):
        under = Owner.method
        Owner.method = lambda self: ["theirs", *under(self)]  # type: ignore[method-assign]
        assert Owner().method() == ["theirs", "ours", "original"]
    assert Owner().method() == ["theirs", "original"]


def test_devices_that_come_up_while_another_threads_memory_is_counted(stage: Stage) -> None:
    """The dictionary of drains grows in one thread while another adds them up."""
    with CaptureWriter(stage.path) as writer:
        launches = launch.Launches(writer, stage.policy, stage.tally)
        other = threading.Thread(target=launches._drain, args=(1,))

        class Slow:
            @property
            def in_flight_bytes(self) -> int:
                if not other.ident:
                    other.start()
                    other.join(0.2)
                return 3

            def close(self) -> None: ...

        with launches:
            launches._drains.update({0: Slow(), 2: Slow()})  # type: ignore[dict-item]
            assert launches._in_flight_bytes() == 6
            other.join()
            assert sorted(launches._drains) == [0, 1, 2]


def test_a_launcher_kept_from_a_recording_that_is_over_runs_the_plain_kernel(stage: Stage) -> None:
    stage.twin, plain = kernel("twin", stage.ran), kernel("plain", stage.ran)
    with stage.recording():
        kept = plain.run
    kept(2, 1, 1, 7, plain.function, plain.packed_metadata)
    assert stage.ran == ["plain"] and stage.counts == {}


@pytest.mark.parametrize("threads", [8])
def test_launches_of_many_threads_stay_below_the_limit_together(stage: Stage, threads: int) -> None:
    """Each of them alone would fit."""
    fits = Policy.fits

    def slow_fits(*arguments: Any) -> bool:
        answer = fits(*arguments)
        time.sleep(0.01)  # lets the other threads ask too
        return answer

    stage.monkeypatch.setattr(Policy, "fits", slow_fits)
    stage.twin = kernel("twin", stage.ran)
    stage.policy = Policy(PLAN, 150 * Layout(1, 32).cta_bytes)
    stage.device.has_passed = lambda _: not stage.held.is_set()
    stage.held.set()
    plain = kernel("plain", stage.ran)
    crowd = [threading.Thread(target=stage.launch, args=(plain, (100, 1, 1))) for _ in range(threads)]
    with stage.recording():
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        stage.held.clear()
    assert stage.counts == {"recorded": 1, "file-full": threads - 1}


def test_memory_that_cannot_be_cleared_is_given_back(stage: Stage) -> None:
    freed: list[Any] = []
    stage.twin, stage.device.broken = kernel("twin", stage.ran), ("clear",)
    stage.device.free = lambda *_: freed.append(1)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran))
    assert (stage.ran, freed) == (["plain"], [1])
    assert [p.code for p in stage.problems if p.code == "no-buffer"] == ["no-buffer"]


def test_a_hook_behind_the_launch_that_fails_does_not_run_the_kernel_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs.runtime, "launch_exit_hook", lambda *_: None)
    stage.twin = kernel("twin", stage.ran, RuntimeError("Triton Error [CUDA]: raised by a hook"))
    with stage.recording(), pytest.raises(RuntimeError, match="raised by a hook"):
        stage.launch(kernel("plain", stage.ran))
    assert stage.ran == ["twin"]


def test_an_empty_grid_is_left_to_triton(stage: Stage) -> None:
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (0, 1, 1))
    assert stage.ran == ["plain"] and stage.counts == {}


INDUCTOR = """
    class CachingAutotuner:
        def __init__(self, fn, launchers):
            self.fn, self.launchers = fn, launchers
        def bench(self, launcher):
            return launcher(stream=7)
        def run(self, *, stream):
            if not self.launchers:
                self.launchers.append(launcher_of(self.binary))
            return self.launchers[0](stream=stream)

    class Benchmarker:
        def benchmark(self, measured):
            return self.benchmark_gpu(measured)
        def benchmark_gpu(self, measured):
            raise NotImplementedError

    class InductorBenchmarker(Benchmarker):
        def benchmark_gpu(self, measured):
            measured()

    def launcher_of(binary):
        scope = {"bin": binary, "runner": binary.run}
        exec("def launcher(stream): runner(2, 1, 1, stream, bin.function, bin.packed_metadata)", scope)
        return scope["launcher"]

    def static_launcher_of(run):
        scope = {"runner": run}
        exec("def launcher(stream): runner()", scope)
        scope["launcher"]._is_static = True
        return scope["launcher"]
"""


@pytest.fixture
def inductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that keeps launchers as Inductor does; its name."""
    (tmp_path / "likeinductor.py").write_text(textwrap.dedent(INDUCTOR))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("kperfir.bridge.inductor._HEURISTICS", "likeinductor")
    monkeypatch.setattr("kperfir.bridge.inductor._BENCHMARKING", "likeinductor")
    monkeypatch.delitem(sys.modules, "likeinductor", raising=False)
    return "likeinductor"


def test_a_launcher_that_inductor_kept_from_before_is_recorded_and_put_back(stage: Stage, inductor: str) -> None:
    module = __import__(inductor)
    stage.twin, plain = kernel("twin", stage.ran), kernel("plain", stage.ran)
    tuner = module.CachingAutotuner(SimpleNamespace(__name__="add"), [module.launcher_of(plain)])
    tuner.run(stream=7)
    with stage.recording():
        tuner.run(stream=7)
        tuner.bench(tuner.launchers[0])
    tuner.run(stream=7)
    assert stage.ran == ["plain", "twin", "plain", "plain"]
    assert stage.counts == {"recorded": 1, "autotune-trial": 1}
    assert tuner.launchers[0].__globals__["runner"] is plain._run


def test_inductor_that_is_loaded_later_is_followed(stage: Stage, inductor: str) -> None:
    stage.twin = kernel("twin", stage.ran)
    with stage.recording():
        module = __import__(inductor)
        tuner = module.CachingAutotuner(None, [module.launcher_of(kernel("plain", stage.ran))])
        tuner.bench(tuner.launchers[0])
        tuner.run(stream=7)
    assert stage.counts == {"recorded": 1, "autotune-trial": 1}
    assert isinstance(module, ModuleType) and not hasattr(module.CachingAutotuner.run, "__wrapped__")


@pytest.mark.parametrize("method", ["benchmark", "benchmark_gpu"])
@pytest.mark.parametrize("loaded", [False, True])
def test_what_inductor_measures_is_a_trial(stage: Stage, inductor: str, method: str, loaded: bool) -> None:
    """Candidates of a template are launched through `run` while they are measured."""
    if loaded:
        __import__(inductor)
    stage.twin = kernel("twin", stage.ran)
    with stage.recording():
        module = __import__(inductor)
        tuner = module.CachingAutotuner(None, [module.launcher_of(kernel("plain", stage.ran))])
        getattr(module.InductorBenchmarker(), method)(lambda: tuner.run(stream=7))
        tuner.run(stream=7)
    assert stage.ran == ["plain", "twin"]
    assert stage.counts == {"recorded": 1, "autotune-trial": 1}


def test_a_launcher_that_inductor_makes_while_recording_is_put_back(stage: Stage, inductor: str) -> None:
    module = __import__(inductor)
    stage.twin, plain = kernel("twin", stage.ran), kernel("plain", stage.ran)
    tuner = module.CachingAutotuner(None, [])
    tuner.binary = plain
    with stage.recording():
        tuner.run(stream=7)
    assert stage.counts == {"recorded": 1}
    assert tuner.launchers[0].__globals__["runner"] is plain._run


def test_a_static_launch_is_reported(stage: Stage, inductor: str) -> None:
    module = __import__(inductor)
    launcher = module.static_launcher_of(lambda: stage.ran.append("static"))
    with stage.recording():
        for _ in range(3):
            module.CachingAutotuner(SimpleNamespace(__name__="add"), [launcher]).run(stream=7)
    assert stage.ran == ["static"] * 3 and stage.counts == {"not-instrumented": 3}
    (problem,) = (p for p in stage.problems if p.code == "not-recorded")
    assert problem.where == "add" and "static launcher" in problem.what


@pytest.mark.parametrize(
    "absent", ["CachingAutotuner", "CachingAutotuner.run", "CachingAutotuner.bench", "Benchmarker"]
)
@pytest.mark.parametrize("loaded", [False, True])
def test_an_inductor_of_another_torch_is_left_alone_and_told_of(
    stage: Stage, inductor: str, tmp_path: Path, absent: str, loaded: bool
) -> None:
    owner, _, attribute = absent.partition(".")
    text = (tmp_path / f"{inductor}.py").read_text()
    (tmp_path / f"{inductor}.py").write_text(f"{text}\ndel {absent}\n")
    if loaded:
        __import__(inductor)
    with stage.recording():
        module = __import__(inductor)
    assert hasattr(module, owner) == bool(attribute)
    (problem,) = (p for p in stage.problems if p.code == "not-followed")
    assert (attribute or owner) in problem.what


def test_patching_builds_another_twin_and_unpatching_takes_the_old_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(kp.Pass):
        name = "mine"

        def run(self, module: Any, context: kp.PassContext) -> None: ...

    built: list[list[str]] = []

    def instrument(plain: Any, plan: Any, limits: Any, passes: Any) -> Twin:
        built.append([str(bound) for bound in passes])
        return Twin(kernel(f"twin {len(built)}", stage.ran), layout=stage.layout)

    monkeypatch.setattr(launch, "instrument", instrument)
    plain = kernel("plain", stage.ran)
    try:
        with stage.recording():
            stage.launch(plain)
            kp.patch(Mine, kernels="other")
            stage.launch(plain)
            kp.patch(Mine)
            stage.launch(plain)
            kp.unpatch()
            stage.launch(plain)
    finally:
        kp.unpatch()
    assert stage.ran == ["twin 1", "twin 1", "twin 2", "twin 1"]
    assert built == [[], ["Pass 'mine' at ttgir:after-place"]]
    assert sorted(k.id for k in kp.load(stage.path).kernels) == [0, 1]
