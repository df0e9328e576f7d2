"""Records launches: decides for each whether the plain kernel or its instrumented twin runs.

Triton launches through the property `CompiledKernel.run`. While a session is open
it answers with a launcher of ours; the kernels in Triton's caches stay as they are.
"""

from __future__ import annotations

import functools
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from triton.compiler import CompiledKernel

from kperfir.bridge import compat, trials
from kperfir.bridge.allocator import giving, routed
from kperfir.bridge.build import Twin, instrument
from kperfir.bridge.conflicts import check_conflicts
from kperfir.bridge.limits import device_limits
from kperfir.bridge.occupancy import DeviceLimits
from kperfir.bridge.selfcheck import self_check
from kperfir.capture.device.drain import Buffer, Drain
from kperfir.capture.device.driver import Driver
from kperfir.capture.policy import LaunchTally, Outcome, Policy
from kperfir.capture.schema import Kernel, Launch, Problem, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.plan import Plan


@dataclass
class _Seen:
    """What is known of one plain kernel on one device."""

    kernel: Any
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


class Launches:
    """Records the launches of this process while it is entered.

    Raises:
        BridgeError: this Triton does not pass the self-check, or another profiler is active.
        DeviceError: there is no GPU driver.
    """

    def __init__(self, writer: CaptureWriter, plan: Plan, policy: Policy, tally: LaunchTally) -> None:
        self._writer = writer
        self._plan = plan
        self._policy = policy
        self._tally = tally
        self._driver = Driver()
        self._drains: dict[int, Drain] = {}
        self._limits: dict[int, DeviceLimits] = {}
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._twins: set[int] = set()
        self._lock = threading.Lock()
        self._kernels = 0
        self._launches = 0
        self._open = False
        self._stack = ExitStack()
        self._property: property = CompiledKernel.__dict__["run"]

    def __enter__(self) -> Launches:
        compat.check_version()
        check_conflicts()
        self_check()
        with ExitStack() as stack:
            stack.enter_context(routed())
            stack.enter_context(trials.noticing_trials())
            CompiledKernel.run = property(self._run_of)
            stack.callback(setattr, CompiledKernel, "run", self._property)
            self._stack = stack.pop_all()
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._stack.close()
        for drain in self._drains.values():
            drain.close()

    # --- what Triton calls

    def _run_of(self, kernel: Any) -> Any:
        """`kernel.run`: Triton's own launcher for a twin, ours for every other kernel."""
        run = self._property.fget(kernel)  # type: ignore[misc]
        if not self._open or id(kernel) in self._twins:
            return run
        return functools.partial(self._launch, kernel, run)

    def _launch(self, kernel: Any, run: Any, x: int, y: int, z: int, stream: int, *rest: Any) -> Any:
        """Launch plain or recorded. `rest` is function, packed metadata and what follows, as Triton passes it."""
        grid = _Grid(x, y, z, x * y * z * getattr(kernel.metadata, "num_ctas", 1))
        chosen = self._choose(kernel, grid, stream) if self._open and grid.ctas > 0 else None
        if chosen is None:
            return run(x, y, z, stream, *rest)
        seen, twin, buffer, number = chosen
        _, _, launch_metadata, *others = rest
        assert twin.kernel is not None
        try:
            with giving(buffer):
                result = self._twin_run(twin)(
                    x, y, z, stream, twin.kernel.function, twin.kernel.packed_metadata, launch_metadata, *others
                )
        except BaseException:
            self._drain().discard(buffer, stream)
            self._tally.add(kernel.name, "not-instrumented")
            raise
        self._submit(seen, twin, buffer, number, grid, stream)
        return result

    def _twin_run(self, twin: Twin) -> Any:
        return self._property.fget(twin.kernel)  # type: ignore[misc]

    # --- the decision

    def _choose(self, kernel: Any, grid: _Grid, stream: int) -> tuple[_Seen, Twin, Buffer, int] | None:
        """The twin to run and its memory, or None: plain. The launch is counted here unless it is recorded."""
        outcome, chosen = self._decide(kernel, grid, stream)
        if chosen is None:
            self._tally.add(kernel.name, outcome)
        return chosen

    def _decide(self, kernel: Any, grid: _Grid, stream: int) -> tuple[Outcome, tuple[_Seen, Twin, Buffer, int] | None]:
        if not self._policy.wants(kernel.name):
            return "excluded", None
        if trials.is_trial():
            return "autotune-trial", None
        if self._driver.is_capturing(stream):
            return "graph-capture", None
        seen = self._seen_of(kernel)
        with seen.lock:
            number = seen.launches
            seen.launches += 1
        if not self._policy.samples(number):
            return "sampled-out", None
        twin = self._twin(seen)
        if twin.kernel is None:
            return "not-instrumented", None
        size_bytes = twin.layout.cta_bytes * grid.ctas
        if not self._policy.fits(self._writer.bytes_written + self._drain().in_flight_bytes, size_bytes):
            return "file-full", None
        buffer = self._drain().allocate(twin.layout, grid.ctas, stream)
        return ("recorded", (seen, twin, buffer, number)) if buffer else ("no-buffer", None)

    def _seen_of(self, kernel: Any) -> _Seen:
        key = (id(kernel), self._driver.current_device())
        with self._lock:
            return self._seen.setdefault(key, _Seen(kernel))

    def _twin(self, seen: _Seen) -> Twin:
        """Built at the first launch that is recorded; its problems are written once."""
        with seen.lock:
            if seen.twin is None:
                seen.twin = instrument(seen.kernel, self._plan, self._device_limits())
                if seen.twin.kernel is not None:
                    self._twins.add(id(seen.twin.kernel))
                for problem in seen.twin.problems:
                    self._writer.write(problem)
            return seen.twin

    # --- after the launch

    def _submit(self, seen: _Seen, twin: Twin, buffer: Buffer, number: int, grid: _Grid, stream: int) -> None:
        with self._lock:
            if seen.id < 0:
                seen.id = self._kernels
                self._kernels += 1
                self._writer.write(_message(seen, twin))
            launch = Launch(
                id=self._launches,
                kernel=seen.id,
                number=number,
                grid=(grid.x, grid.y, grid.z),
                ctas=grid.ctas,
                device=self._driver.current_device(),
                stream=stream,
                enqueued_unix_ns=time.time_ns(),
            )
            self._launches += 1
        self._drain().submit(launch, twin.layout, buffer, stream)
        self._tally.add(seen.kernel.name, "recorded")

    def _drain(self) -> Drain:
        device = self._driver.current_device()
        with self._lock:
            if device not in self._drains:
                self._drains[device] = Drain(self._driver, self._writer, self._write_tally)
            return self._drains[device]

    def _write_tally(self) -> None:
        self._writer.write(Tally(self._tally.snapshot()))

    def _device_limits(self) -> DeviceLimits:
        device = self._driver.current_device()
        if device not in self._limits:
            self._limits[device] = device_limits(self._driver, device)
        return self._limits[device]


def _message(seen: _Seen, twin: Twin) -> Kernel:
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
        num_ctas=getattr(twin.kernel.metadata, "num_ctas", 1),
        plain=twin.plain,
        instrumented=twin.instrumented,
    )


def unrecorded(name: str, reason: str) -> Problem:
    """The problem for a kernel that cannot be recorded at all."""
    return Problem("not-recorded", name, reason, "It runs as it is, without records.")
