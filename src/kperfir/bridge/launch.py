"""Records launches: decides for each whether the plain kernel or its instrumented twin runs.

Triton launches through the property `CompiledKernel.run`. While a session is open
it answers with a launcher of ours; the kernels in Triton's caches stay as they are.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from triton.compiler import CompiledKernel
from triton.runtime import driver

from kperfir.bridge import compat, trials
from kperfir.bridge.allocator import TooSmall, giving, routed
from kperfir.bridge.build import Twin, instrument, not_recorded
from kperfir.bridge.conflicts import check_conflicts
from kperfir.bridge.inductor import inductor_followed
from kperfir.bridge.limits import device_limits
from kperfir.bridge.occupancy import DeviceLimits
from kperfir.bridge.replaced import Replacing, replaced
from kperfir.bridge.selfcheck import self_check
from kperfir.bridge.shares import write_shares
from kperfir.capture.device.drain import Buffer, Drain, lost_launch
from kperfir.capture.device.driver import Driver
from kperfir.capture.policy import LaunchTally, Outcome, Policy
from kperfir.capture.schema import Kernel, Launch, Problem, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import DeviceError
from kperfir.passes.patched import passes_for
from kperfir.passes.user import Bound
from kperfir.plan import Plan

_STATIC = "torch.compile launches it with its static launcher, which starts the binary without Triton."
_STATIC_CURE = (
    "Set TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER=0 before torch is imported, as `kperfir record` does. "
    "It ran as it is, without records."
)


def check_ready() -> None:
    """Check that launches can be recorded here.

    Raises:
        BridgeError: this Triton does not pass the self-check, or another profiler is active.
    """
    compat.check_version()
    check_conflicts()
    self_check()


@dataclass
class _Seen:
    """What is known of one plain kernel on one device, as recorded with some of the users' passes."""

    kernel: Any
    device: int
    passes: tuple[Bound, ...] = ()
    twin: Twin | None = None
    id: int = -1
    launches: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class _Grid:
    x: int
    y: int
    z: int
    ctas: int


@dataclass(frozen=True)
class _Chosen:
    """A launch that is recorded: the twin that runs, and where its records go."""

    seen: _Seen
    twin: Twin
    drain: Drain
    buffer: Buffer
    number: int


class Launches(Replacing):
    """Records the launches of this process while it is entered."""

    def __init__(
        self,
        writer: CaptureWriter,
        policy: Policy,
        tally: LaunchTally,
        on_device: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._writer = writer
        self._plan = policy.plan
        self._policy = policy
        self._tally = tally
        self._on_device = on_device
        self._drains: dict[int, Drain] = {}
        self._limits: dict[int, DeviceLimits] = {}
        self._seen: dict[tuple[int, int, tuple[str, ...]], _Seen] = {}
        self._twins: dict[int, Any] = {}  # by id; kept, because the id of one that is gone can come again
        self._reported: set[object] = set()
        self._lock = threading.Lock()
        self._room = threading.Lock()
        self._kernels = 0
        self._launches = 0
        self._property: property = CompiledKernel.__dict__["run"]

    @functools.cached_property
    def _driver(self) -> Driver:
        """Made at the first launch: before it, CUDA is the program's to set up, and to fork without."""
        return Driver()

    def __enter__(self) -> Launches:
        self._replace()
        return self

    def _replace(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(routed())
            stack.callback(self._gate.close)
            stack.enter_context(trials.noticing_trials())
            stack.enter_context(inductor_followed(self._missed, self._report))
            stack.enter_context(replaced(CompiledKernel, "run", property(self._run_of)))
            self._gate.open()
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Record no launch any more, and write those that were; a second call does nothing."""
        with ExitStack() as closing:
            closing.callback(self._write_shares)
            closing.callback(self._close_drains)
            closing.callback(self._stack.close)

    def _close_drains(self) -> None:
        with ExitStack() as closing:
            while self._drains:
                closing.callback(self._drains.popitem()[1].close)

    def _write_shares(self) -> None:
        """Of kernels in the capture; in a forked process that recorded nothing there is none."""
        seen, self._seen = self._seen, {}
        if self._writer.is_own:
            built = [(s.id, s.twin) for s in seen.values() if s.id >= 0 and s.twin is not None]
            write_shares(self._writer, built)

    # --- what Triton calls

    def _run_of(self, kernel: Any) -> Any:
        """`kernel.run`: Triton's own launcher for a twin, ours for every other kernel."""
        run = self._property.fget(kernel)  # type: ignore[misc]
        if id(kernel) in self._twins:
            return run
        return functools.partial(self._launch, kernel, run)

    def _launch(self, kernel: Any, run: Any, *arguments: Any) -> Any:
        """What the program calls; it may have kept this from a recording that is over."""
        if not self._gate.enter():
            return run(*arguments)
        try:
            return self._launch_inside(kernel, run, *arguments)
        finally:
            self._gate.leave()

    def _launch_inside(self, kernel: Any, run: Any, x: int, y: int, z: int, stream: int, *rest: Any) -> Any:
        """Launch plain or recorded. `rest` is function, packed metadata and what follows, as Triton passes it."""
        grid = _Grid(x, y, z, x * y * z * getattr(kernel.metadata, "num_ctas", 1))
        chosen = self._choose(kernel, grid, stream) if grid.ctas > 0 else None
        if chosen is None:
            return run(x, y, z, stream, *rest)
        twin: Any = chosen.twin.kernel
        try:
            with giving(chosen.buffer):
                twin_run = self._property.fget(twin)  # type: ignore[misc]
                result = twin_run(x, y, z, stream, twin.function, twin.packed_metadata, *rest[2:])
        except BaseException as error:
            chosen.drain.discard(chosen.buffer, stream)
            self._tally.add(kernel.name, "not-instrumented")
            if not (isinstance(error, TooSmall) or compat.is_launch_failure(error)):
                raise
            self._give_up(chosen.seen, error)
            return run(x, y, z, stream, *rest)
        self._tally.add(kernel.name, "recorded")
        self._hand_over(chosen, grid, stream)
        return result

    def _missed(self, name: str) -> None:
        """Inductor launched a cubin without Triton."""
        wanted = self._policy.wants(name)
        self._tally.add(name, "not-instrumented" if wanted else "excluded")
        if wanted:
            self._report(Problem("not-recorded", name, _STATIC, _STATIC_CURE))

    # --- the decision

    def _choose(self, kernel: Any, grid: _Grid, stream: int) -> _Chosen | None:
        """The twin to run and its memory, or None: plain. The launch is counted here unless it is recorded."""
        try:
            outcome, chosen = self._decide(kernel, grid, stream)
        except Exception as error:
            # whatever goes wrong here is ours, and must not reach the program
            outcome, chosen = "not-instrumented", None
            self._report(not_recorded(kernel.name, error))
        if chosen is None:
            self._tally.add(kernel.name, outcome)
        return chosen

    def _decide(self, kernel: Any, grid: _Grid, stream: int) -> tuple[Outcome, _Chosen | None]:
        if not self._policy.wants(kernel.name):
            return "excluded", None
        if trials.is_trial():
            return "autotune-trial", None
        device = driver.active.get_current_device()
        self._driver.ensure_context(device)
        if self._driver.is_capturing(stream):
            return "graph-capture", None
        seen = self._seen_of(kernel, device)
        with seen.lock:
            number = seen.launches
            seen.launches += 1
        if not self._policy.samples(number):
            return "sampled-out", None
        with self._driver.capture_unharmed():
            return self._prepare(seen, number, grid, stream)

    def _prepare(self, seen: _Seen, number: int, grid: _Grid, stream: int) -> tuple[Outcome, _Chosen | None]:
        twin = self._twin(seen)
        if twin.kernel is None:
            return "not-instrumented", None
        drain, name, size_bytes = self._drain(seen.device), seen.kernel.name, twin.layout.cta_bytes * grid.ctas
        with self._room:  # one thread at a time, so that together they stay below the capture's limit
            if not self._policy.fits(self._writer.bytes_written + self._in_flight_bytes(), size_bytes):
                self._report(self._policy.full(name))
                return "file-full", None
            try:
                buffer = drain.allocate(twin.layout, grid.ctas, stream)
            except DeviceError as error:
                what = f"A launch with {size_bytes / 2**20:.0f} MiB of records was not recorded: {error.what}"
                self._report(Problem("no-buffer", name, what, "Ask for fewer slots or launches."), ("no-buffer", name))
                return "no-buffer", None
        return "recorded", _Chosen(seen, twin, drain, buffer, number)

    def _seen_of(self, kernel: Any, device: int) -> _Seen:
        passes = passes_for(kernel.name)
        key = (id(kernel), device, tuple(bound.key for bound in passes))
        with self._lock:
            return self._seen.setdefault(key, _Seen(kernel, device, passes))

    def _twin(self, seen: _Seen) -> Twin:
        """Built at the first launch that is recorded; its problems are written once."""
        with seen.lock:
            if seen.twin is None:
                check_conflicts()  # a profiler may have been started behind the recording
                seen.twin = instrument(seen.kernel, self._plan, self._device_limits(seen.device), seen.passes)
                if seen.twin.kernel is not None:
                    self._twins[id(seen.twin.kernel)] = seen.twin.kernel
                for problem in seen.twin.problems:
                    self._writer.write(problem)
            return seen.twin

    def _give_up(self, seen: _Seen, error: BaseException) -> None:
        """The driver refused the twin: from now on the plain kernel runs. If that is refused too, the user sees it."""
        with seen.lock:
            assert seen.twin is not None
            seen.twin = replace(seen.twin, kernel=None)
        self._report(not_recorded(seen.kernel.name, error))

    def _report(self, problem: Problem, key: object = None) -> None:
        """Write a problem of a kernel the first time it occurs."""
        with self._lock:
            known = (key or problem) in self._reported
            self._reported.add(key or problem)
        if not known:
            self._writer.write(problem)

    # --- after the launch

    def _hand_over(self, chosen: _Chosen, grid: _Grid, stream: int) -> None:
        """Whatever goes wrong with the records of a launch, the launch itself stands."""
        try:
            with self._driver.capture_unharmed():
                self._submit(chosen, grid, stream)
        except Exception as error:
            chosen.drain.discard(chosen.buffer, stream)
            self._report(lost_launch(f"{chosen.seen.kernel.name}, launch {chosen.number}", error))

    def _submit(self, chosen: _Chosen, grid: _Grid, stream: int) -> None:
        seen = chosen.seen
        with self._lock:
            if self._launches == 0:
                self._on_device()
            if seen.id < 0:
                seen.id = self._kernels
                self._kernels += 1
                self._writer.write(_message(seen, chosen.twin, self._plan))
            launch = Launch(
                id=self._launches,
                kernel=seen.id,
                number=chosen.number,
                grid=(grid.x, grid.y, grid.z),
                ctas=grid.ctas,
                device=seen.device,
                stream=stream,
                enqueued_unix_ns=time.time_ns(),
            )
            self._launches += 1
        chosen.drain.submit(launch, chosen.twin.layout, chosen.buffer, stream)

    def _drain(self, device: int) -> Drain:
        with self._lock:
            if device not in self._drains:
                self._drains[device] = Drain(self._driver, self._writer, self._write_tally, self._policy.hang_timeout_s)
            return self._drains[device]

    def _in_flight_bytes(self) -> int:
        with self._lock:  # another thread may be at its first launch on another device
            return sum(d.in_flight_bytes for d in self._drains.values())

    def _write_tally(self) -> None:
        self._writer.write(Tally(self._tally.snapshot()))

    def _device_limits(self, device: int) -> DeviceLimits:
        if device not in self._limits:
            self._limits[device] = device_limits(self._driver, device)
        return self._limits[device]


def _message(seen: _Seen, twin: Twin, plan: Plan) -> Kernel:
    assert twin.kernel is not None
    target = twin.kernel.metadata.target
    return Kernel(
        id=seen.id,
        name=seen.kernel.name,
        hash=twin.kernel.hash,
        target=f"{target.backend}:{target.arch}",
        layout=twin.layout,
        table=twin.table,
        place_reason=twin.place_reason,
        clock="ns" if plan.metric == "time" else "cycles",
        num_ctas=getattr(twin.kernel.metadata, "num_ctas", 1),
        plain=twin.plain,
        instrumented=twin.instrumented,
        fidelity=twin.fidelity,
    )
