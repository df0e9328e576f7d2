"""`kperfir doctor`: what works on this machine, and why not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import typer

from kperfir.cli.output import say
from kperfir.errors import KperfError


@dataclass(frozen=True)
class Verdict:
    """One line: "ok", "note" (works, with a limit) or "fail"."""

    what: str
    state: Literal["ok", "note", "fail"]
    detail: str
    cure: str = ""


def doctor() -> None:
    """Check Python, Triton, torch, the GPU and kperfir's way into Triton."""
    verdicts = list(_verdicts())
    for verdict in verdicts:
        say(f"{verdict.state:4}  {verdict.what:12} {verdict.detail}" + (f"  {verdict.cure}" if verdict.cure else ""))
    if any(v.state == "fail" for v in verdicts):
        raise typer.Exit(1)


def _verdicts() -> Iterator[Verdict]:
    supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield Verdict(
        "python", "ok" if supported else "fail", platform.python_version(), "" if supported else "Use 3.11-3.13."
    )
    for name in ("xdsl", "pyarrow", "numpy", "rich", "typer"):
        yield _installed(name, "fail")
    yield _installed("torch", "note")
    triton = _installed("triton", "fail")
    yield triton
    if triton.state == "ok":
        yield _checked("version", _version)
        yield _checked("round trip", _round_trip)
        yield _checked("profilers", _profilers)
    yield _gpu()


def _installed(name: str, missing: Literal["note", "fail"]) -> Verdict:
    try:
        return Verdict(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Verdict(name, missing, "not installed", f"pip install {name}")


def _checked(what: str, check: Callable[[], str]) -> Verdict:
    try:
        return Verdict(what, "ok", check())
    except KperfError as error:
        return Verdict(what, "fail", error.what, error.cure)


def _version() -> str:
    from kperfir.bridge import compat

    compat.check_version()
    newest = ".".join(map(str, compat.NEWEST_TESTED))
    return f"supported; {newest} is the newest that was tested"


def _round_trip() -> str:
    from kperfir.bridge.selfcheck import self_check

    self_check()
    return "a module comes back from kperfir as it went in"


def _profilers() -> str:
    from kperfir.bridge.conflicts import check_conflicts

    check_conflicts()
    return "no other instrumentation is active"


def _gpu() -> Verdict:
    from kperfir.capture.device.driver import driver_present

    if driver_present():
        return Verdict("gpu", "ok", "NVIDIA; launches can be recorded")
    mode = "TRITON_INTERPRET is set" if os.environ.get("TRITON_INTERPRET") == "1" else "kernels run interpreted"
    return Verdict(
        "gpu",
        "note",
        f"no NVIDIA GPU, the one kind launches are recorded on; {mode}.",
        "Interpreter times say nothing of a GPU.",
    )
