"""`kperfir record`: run a program as Python would, and record its kernels."""

from __future__ import annotations

import importlib.util
import os
import sys
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from kperfir.capture.device.driver import driver_present
from kperfir.capture.policy import HANG_TIMEOUT_S, Policy
from kperfir.cli import children
from kperfir.cli.program import NO_GPU_SIGNS, ProgramFailure, run_program
from kperfir.errors import PlanError, ProgramError
from kperfir.notes import note
from kperfir.passes.patched import patch
from kperfir.passes.registry import absolute
from kperfir.passes.user import POINTS
from kperfir.plan import RULES, Plan
from kperfir.session import make_plan, record_program

_GLOB = "with names like this, as a shell matches whole names; may be given several times."
# knob of a plan -> options that say it too, where they have another name
_OPTIONS = {"kernels": ("include", "exclude"), "launches": ("first", "every")}
_NO_GPU = "there is no NVIDIA GPU here, so kernels run in Triton's interpreter (TRITON_INTERPRET=1)."
_ASKS_FOR_GPU = (
    "The program asks for a GPU and there is none. "
    "Let it use the device 'cpu' here; Triton's interpreter runs its kernels."
)


def record(
    context: typer.Context,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Capture file, or a folder that gets one a process.", metavar="PATH")
    ] = "run.kperf",
    regions: Annotated[
        str, typer.Option(help=f"auto, none, or rules joined by +: {', '.join(RULES)}.", metavar="RULES")
    ] = "auto",
    buffer: Annotated[
        str, typer.Option(help="auto, shared, global, stack or host memory for the rings.", metavar="PLACE")
    ] = "auto",
    slots: Annotated[int, typer.Option(help="Records a warp keeps, a power of two; 0: kperfir chooses.")] = 0,
    first: Annotated[int, typer.Option(help="Launches recorded of each kernel binary.")] = 3,
    every: Annotated[int, typer.Option(help="After those, every n-th; 0: none.")] = 100,
    hang_timeout: Annotated[
        float, typer.Option(help="With --buffer host: seconds until a launch is written as unfinished.", metavar="S")
    ] = HANG_TIMEOUT_S,
    limit: Annotated[int, typer.Option(help="MiB at which a capture takes no more launches.")] = 1024,
    include: Annotated[list[str] | None, typer.Option(help=f"Only kernels {_GLOB}", metavar="GLOB")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help=f"No kernels {_GLOB}", metavar="GLOB")] = None,
    plan: Annotated[
        str, typer.Option(help="More of a plan as key=value;..., such as 'metric=clock64;ctas=0-7'.", metavar="PLAN")
    ] = "",
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass", help="A pass: name, file.py or file.py:Class; may be given several times.", metavar="PASS"
        ),
    ] = None,
    pass_at: Annotated[str, typer.Option(help=f"Where passes run instead: {', '.join(POINTS)}.", metavar="POINT")] = "",
    module: Annotated[bool, typer.Option("-m", help="The program is a module, as in python -m.")] = False,
) -> None:
    """Run PROGRAM ARGS... as Python would, and record every Triton kernel it launches. Options come first."""
    if not context.args:
        raise ProgramError("No program was given.", "Use: kperfir record [options] script.py ARGS...")
    _check(context.args[0], module, output)
    knobs: dict[str, Any] = {"regions": regions, "buffer": buffer, "slots": slots} | _knobs(plan, context)
    whole = make_plan(first=first, every=every, include=include or (), exclude=exclude or (), **knobs)
    policy = Policy(whole, limit << 20, hang_timeout)
    if os.environ.get("TRITON_INTERPRET") != "1" and not driver_present():
        note(_NO_GPU)
        # before anything imports Triton: its own library is decorated at import
        os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", "0")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    named = tuple(absolute(given) for given in passes or ())
    if pass_at and not named:
        raise PlanError("--pass-at says where passes run, and there is none.", "Add --pass NAME, or leave it out.")
    if named:
        patch(named, at=pass_at or None)
    try:
        _record(context.args, module, _place(output), policy, children.Passes(named, pass_at))
    except ProgramFailure as failure:
        failure.show()
        if failure.says(*NO_GPU_SIGNS):
            note(_ASKS_FOR_GPU)
        raise SystemExit(failure.code) from None


def _knobs(plan: str, context: typer.Context) -> dict[str, str]:
    """Parts of a plan; those with an option of their own may stand here as well, but not in both places."""
    Plan.parse(plan)
    knobs = dict(part.strip().split("=", 1) for part in plan.split(";") if part.strip())
    for knob in knobs:
        for option in _OPTIONS.get(knob, (knob,)):
            source = context.get_parameter_source(option)
            if source is not None and source.name == "COMMANDLINE":
                what = f"--plan says '{knob}', and so does --{option.replace('_', '-')}."
                raise PlanError(what, "Leave one of them out.")
    return knobs


def _record(arguments: list[str], module: bool, output: Path, policy: Policy, passes: children.Passes) -> None:
    capture, run, process = None, uuid.uuid4().hex, os.getpid()
    try:
        with record_program(output, run, policy) as capture, children.followed(capture, run, policy, passes):
            run_program(arguments, module)
    finally:
        if capture is not None and os.getpid() == process:
            note(f"wrote {capture}; `kperfir report {capture}` shows it.")


def _place(output: str) -> Path:
    """Written like a folder it is one."""
    if output.endswith(os.sep):
        Path(output).mkdir(parents=True, exist_ok=True)
    return Path(output)


def _check(program: str, module: bool, output: str) -> None:
    """Before a capture is opened, which would overwrite an earlier one."""
    if not module and Path(program).resolve() == Path(output).resolve():
        what = f"'{program}' is both the program and the capture."
        raise ProgramError(what, "To read a capture use `kperfir report`; to record, choose another place with -o.")
    if not module and not Path(program).is_file():
        raise ProgramError(f"There is no script '{program}'.", "Check the path, or use -m for a module.")
    if module:
        sys.path.insert(0, os.getcwd())
        if importlib.util.find_spec(program.partition(".")[0] or " ") is None:
            raise ProgramError(f"There is no module '{program}'.", "Check the name, or leave -m out for a script.")
