"""One recording: opens the capture, records launches, closes it with the counts of what was seen."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from kperfir.capture.device.driver import driver_present
from kperfir.capture.policy import HANG_TIMEOUT_S, LaunchTally, Policy
from kperfir.capture.schema import End, Problem, Session, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.deliver import Delivery, OnLaunch
from kperfir.errors import BridgeError, CaptureError, DeviceError, PlanError
from kperfir.notes import note
from kperfir.plan import Plan, sampled
from kperfir.version import __version__

_open_session = threading.Lock()
_of_program: _Running | None = None


@dataclass(frozen=True)
class _Running:
    """A recording that is open."""

    writer: CaptureWriter
    launches: Any
    tally: LaunchTally

    def write_tally(self) -> bool:
        """Write the counts; whether there are any."""
        counts = self.tally.snapshot()
        self.writer.write(Tally(counts))
        return bool(counts)

    def finish(self) -> None:
        """End a forked process that does not unwind what it inherited."""
        self.launches.close()
        self.write_tally()


@contextmanager
def record(
    path: str | Path,
    regions: str | Sequence[str] | None = "auto",
    buffer: str = "auto",
    slots: int = 0,
    first: int = 3,
    every: int = 100,
    limit_bytes: int = 1 << 30,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    plan: str | Plan | None = None,
    on_launch: OnLaunch | None = None,
    hang_timeout_s: float = HANG_TIMEOUT_S,
    **knobs: Any,
) -> Iterator[Path]:
    """Record every Triton kernel that is launched inside.

    Args:
        path: capture file, or a directory that gets one file a process.
        regions: "auto", rules such as "load+dot", or None for scopes alone.
        buffer, slots, knobs: the other knobs of `kperfir.plan.Plan`, by their names.
        first, every: launches recorded of each kernel binary at its start, and after
            those each whose number is a multiple of this; 0 is none.
        include, exclude: patterns of kernel names, as in a shell.
        limit_bytes: size at which the capture file takes no more launches.
        plan: all of that but the limit, as one plan or its printed form.
        on_launch: called with each recorded launch, decoded, when its records are written: on a
            GPU in a thread of kperfir's, in the interpreter behind the launch. It must not
            end the recording. What it raises becomes a problem of the capture. A launch that
            has not finished is not handed over.
        hang_timeout_s: with buffer="host" a launch that runs longer is written as it stands, as
            one that has not finished; the recording does not wait for its end.

    Yields:
        the path of the capture file.

    Raises:
        PlanError: an option makes no sense.
        CaptureError: the file cannot be created, or the whole program is being recorded into it.
        BridgeError: a recording is under way already, this Triton cannot be used,
            or another profiler is active.
        DeviceError: there is no GPU and Triton does not interpret.
    """
    given = make_plan(regions, first, every, include, exclude, buffer=buffer, slots=slots, **knobs)
    policy = Policy(_whole_plan(given, plan), limit_bytes, hang_timeout_s)
    if not _open_session.acquire(blocking=False):
        raise BridgeError("A recording is under way in this process already.", "Close it before starting another.")
    try:
        place = _capture_path(Path(path))
        with _taking_over(place), _session(place, policy, "", on_launch) as running:
            yield running.writer.path
    finally:
        _open_session.release()


def make_plan(
    regions: str | Sequence[str] | None,
    first: int,
    every: int,
    include: str | Sequence[str],
    exclude: str | Sequence[str],
    **knobs: Any,
) -> Plan:
    """A plan from the words of `record`.

    Raises:
        PlanError: one makes no sense.
    """
    unknown = sorted(knobs.keys() - {f.name for f in fields(Plan)})
    if unknown:
        raise PlanError(f"A plan has no knob '{unknown[0]}'.", f"Use {', '.join(f.name for f in fields(Plan))}.")
    kernels = (*_patterns(include), *(f"!{pattern}" for pattern in _patterns(exclude)))
    return Plan.make(regions, **({"kernels": kernels, "launches": sampled(first, every)} | knobs))


def _whole_plan(given: Plan, plan: str | Plan | None) -> Plan:
    if plan is None:
        return given
    if given != Plan.make("auto"):
        raise PlanError("A whole plan was given, and knobs beside it.", "Put them into the plan.")
    return plan if isinstance(plan, Plan) else Plan.parse(plan)


@contextmanager
def record_program(path: str | Path, run: str, policy: Policy) -> Iterator[Path]:
    """Record a whole program, as `record` does; it rests while the program records something itself.

    Args:
        run: the same for all processes of the program.

    Raises:
        as `record`.
    """
    global _of_program
    with _session(_capture_path(Path(path)), policy, run) as running:
        _of_program = running
        try:
            yield running.writer.path
        finally:
            _of_program = None


@contextmanager
def _taking_over(path: Path) -> Iterator[None]:
    """What a program records itself is not recorded twice, and not into the capture of the program as a whole."""
    outer = _of_program
    if outer is None:
        yield
        return
    place = outer.writer.place
    if path.exists() and place.exists() and path.samefile(place):
        what = f"{path} is the capture that the whole program is being recorded into."
        raise CaptureError(what, "Give one of the two another place; with `kperfir record` by -o.")
    with outer.launches.resting():
        yield
    what = "The program recorded into this place itself meanwhile; those launches are there, and not here."
    outer.writer.write(Problem("own-recording", str(path), what))


def _patterns(patterns: str | Sequence[str]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _capture_path(path: Path) -> Path:
    return path / f"{os.getpid()}.kperf" if path.is_dir() else path


@contextmanager
def _session(path: Path, policy: Policy, run: str, on_launch: OnLaunch | None = None) -> Iterator[_Running]:
    import triton

    interpreted = bool(triton.knobs.runtime.interpret)
    if interpreted and policy.plan.addresses:
        what = "Triton's interpreter has no lanes, so there are no addresses of lanes to trace."
        raise PlanError(what, "Record on a GPU, or leave addresses out.")
    if not interpreted:
        _check_gpu()
    tally = LaunchTally()
    with CaptureWriter(path) as writer:
        session = _message(policy.plan, run, interpreted)
        writer.write(session)
        if on_launch is not None:
            writer.after_write = Delivery(writer, session, on_launch).written
        launches = _launches(interpreted, writer, policy, tally, session)
        running = _Running(writer, launches, tally)
        writer.before_end = running.finish
        ended: BaseException | None = None
        try:
            with launches:
                yield running
        except BaseException as error:
            ended = error
            raise
        finally:
            if writer.is_own:  # a forked process that recorded nothing has nothing to close
                _close(running, ended)
    if writer.failure is not None:
        note(
            f"{path} could not be written to its end ({writer.failure.strerror}); "
            f"{writer.dropped} messages were dropped."
        )


def _close(running: _Running, ended: BaseException | None) -> None:
    """Write what the reader must know of the whole recording."""
    writer, place = running.writer, str(running.writer.path)
    if not running.write_tally():
        writer.write(Problem("no-launch", place, "No Triton kernel was launched while it recorded."))
    exit_code = _exit_code(ended.code) if isinstance(ended, SystemExit) else None
    if exit_code:
        writer.write(Problem("failed", place, f"What was recorded ended with an error, exit code {exit_code}."))
    elif ended is not None and exit_code is None:
        writer.write(Problem("failed", place, f"What was recorded was left by an error, {type(ended).__name__}."))
    writer.write(End(exit_code))


def _exit_code(code: object) -> int:
    """What the system gets to see of the argument of an exit."""
    if not isinstance(code, int):
        return int(code is not None)
    return code & 0xFF if abs(code) < 1 << 31 else 0xFF


def _launches(interpreted: bool, writer: CaptureWriter, policy: Policy, tally: LaunchTally, session: Session) -> Any:
    """Of the interpreter or of a GPU; both are entered, rest, and are closed alike."""
    if interpreted:
        from kperfir.bridge.interpreted import InterpretedLaunches

        return InterpretedLaunches(writer, policy, tally)
    from kperfir.bridge.launch import Launches

    def on_device() -> None:
        target, device_name = _device()
        writer.write(replace(session, target=target, device_name=device_name))

    return Launches(writer, policy, tally, on_device)


def _check_gpu() -> None:
    """Before the capture is opened, which would overwrite an earlier one. CUDA is not touched."""
    if not driver_present():
        raise DeviceError(
            "There is no NVIDIA GPU that kernels can be recorded on.",
            "Set TRITON_INTERPRET=1 before the program imports its kernels, or use `kperfir record`, which does.",
        )
    from kperfir.bridge.launch import check_ready

    check_ready()


def _message(plan: Plan, run: str, interpreted: bool) -> Session:
    """What is recorded; a GPU and its target are known, and the message is written once more, at the first launch."""
    import triton

    torch = sys.modules.get("torch")
    return Session(
        source="interpreter" if interpreted else "gpu",
        plan=str(plan),
        target="interpreter" if interpreted else "",
        device_name="Triton's interpreter" if interpreted else "",
        kperfir_version=__version__,
        triton_version=triton.__version__,
        torch_version=str(getattr(torch, "__version__", "")),
        python_version=platform.python_version(),
        argv=tuple(sys.argv),
        process_id=os.getpid(),
        started_unix_ns=time.time_ns(),
        run=run,
    )


def _device() -> tuple[str, str]:
    import torch
    import triton

    target = triton.runtime.driver.active.get_current_target()
    return f"{target.backend}:{target.arch}", torch.cuda.get_device_name()
