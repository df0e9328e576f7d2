"""One recording: opens the capture, records launches, closes it with the counts of what was seen."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from kperfir.capture.device.driver import driver_present
from kperfir.capture.policy import LaunchTally, Policy
from kperfir.capture.schema import End, Problem, Session, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import BridgeError, DeviceError
from kperfir.plan import Plan
from kperfir.version import __version__

_open_session = threading.Lock()


@contextmanager
def record(
    path: str | Path,
    regions: str | tuple[str, ...] | list[str] | None = "auto",
    buffer: str = "auto",
    slots: int = 0,
    first: int = 3,
    every: int = 100,
    limit_bytes: int = 1 << 30,
    include: str | tuple[str, ...] = (),
    exclude: str | tuple[str, ...] = (),
) -> Iterator[Path]:
    """Record every Triton kernel that is launched inside.

    Args:
        path: capture file, or a directory that gets one file a process.
        regions: "auto", rules such as "load+dot", or None for scopes alone;
            see `kperfir.plan.Plan`, also for buffer and slots.
        first, every, limit_bytes, include, exclude: see `kperfir.capture.policy.Policy`.

    Yields:
        the path of the capture file.

    Raises:
        PlanError: an option makes no sense.
        CaptureError: the file cannot be created.
        BridgeError: a recording is under way already, this Triton cannot be used,
            or another profiler is active.
        DeviceError: there is no GPU and Triton does not interpret.
    """
    plan = Plan.make(regions, buffer, slots)
    policy = Policy(first, every, limit_bytes, _patterns(include), _patterns(exclude))
    if not _open_session.acquire(blocking=False):
        raise BridgeError("A recording is under way in this process already.", "Close it before starting another.")
    try:
        with _session(_capture_path(Path(path)), plan, policy) as file:
            yield file
    finally:
        _open_session.release()


def _patterns(patterns: str | tuple[str, ...]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _capture_path(path: Path) -> Path:
    return path / f"{os.getpid()}.kperf" if path.is_dir() else path


@contextmanager
def _session(path: Path, plan: Plan, policy: Policy) -> Iterator[Path]:
    import triton

    interpreted = bool(triton.knobs.runtime.interpret)
    if not interpreted:
        _check_gpu()
    tally = LaunchTally()
    exit_code: int | None = None
    with CaptureWriter(path) as writer:
        writer.write(_message(plan, "interpreter", "Triton's interpreter") if interpreted else _message(plan))
        try:
            with _launches(interpreted, writer, plan, policy, tally):
                yield path
        except SystemExit as stop:
            exit_code = _exit_code(stop.code)
            raise
        except BaseException:
            exit_code = 1
            raise
        finally:
            counts = tally.snapshot()
            writer.write(Tally(counts))
            if not counts:
                writer.write(Problem("no-launch", str(path), "No Triton kernel was launched while it recorded."))
            if exit_code:
                writer.write(
                    Problem("failed", str(path), f"What was recorded ended with an error, exit code {exit_code}.")
                )
            writer.write(End(exit_code))
    if writer.failure is not None:
        print(
            f"kperfir: {path} could not be written to its end ({writer.failure.strerror}); "
            f"{writer.dropped} messages were dropped.",
            file=sys.stderr,
        )


def _exit_code(code: object) -> int:
    """What the system gets to see of the argument of an exit."""
    if not isinstance(code, int):
        return int(code is not None)
    return code & 0xFF if abs(code) < 1 << 31 else 0xFF


def _launches(
    interpreted: bool, writer: CaptureWriter, plan: Plan, policy: Policy, tally: LaunchTally
) -> AbstractContextManager[Any]:
    if interpreted:
        from kperfir.bridge.interpreted import InterpretedLaunches

        return InterpretedLaunches(writer, plan, policy, tally)
    from kperfir.bridge.launch import Launches

    def on_device() -> None:
        writer.write(_message(plan, *_device()))

    return Launches(writer, plan, policy, tally, on_device)


def _check_gpu() -> None:
    """Before the capture is opened, which would overwrite an earlier one. CUDA is not touched."""
    if not driver_present():
        raise DeviceError(
            "There is no NVIDIA GPU that kernels can be recorded on.",
            "Set TRITON_INTERPRET=1 before the program imports its kernels, or use `kperfir record`, which does.",
        )
    from kperfir.bridge.launch import check_ready

    check_ready()


def _message(plan: Plan, target: str = "", device: str = "") -> Session:
    """What is recorded; on a GPU target and device are known, and written once more, at the first launch."""
    import triton

    torch = sys.modules.get("torch")
    return Session(
        source="interpreter" if target == "interpreter" else "gpu",
        plan=str(plan),
        target=target,
        device_name=device,
        kperfir_version=__version__,
        triton_version=triton.__version__,
        torch_version=str(getattr(torch, "__version__", "")),
        python_version=platform.python_version(),
        argv=tuple(sys.argv),
        process_id=os.getpid(),
        started_unix_ns=time.time_ns(),
    )


def _device() -> tuple[str, str]:
    import torch
    import triton

    target = triton.runtime.driver.active.get_current_target()
    return f"{target.backend}:{target.arch}", torch.cuda.get_device_name()
