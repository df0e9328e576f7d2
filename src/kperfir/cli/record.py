"""`kperfir record`: run a program as Python would, and record its kernels."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from kperfir.capture.device.driver import driver_present
from kperfir.cli import children
from kperfir.errors import ProgramError
from kperfir.session import record as record_session

_NO_GPU = "kperfir: there is no GPU here, so kernels run in Triton's interpreter (TRITON_INTERPRET=1)."
_NO_CUDA_SIGNS = ("not compiled with CUDA", "No CUDA GPUs", "no NVIDIA driver", "0 active drivers")


def record(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Capture file, or a directory.")] = Path("run.kperf"),
    regions: Annotated[str, typer.Option(help="auto, none, or rules such as load+dot.")] = "auto",
    buffer: Annotated[str, typer.Option(help="auto, shared or global memory for the rings.")] = "auto",
    slots: Annotated[int, typer.Option(help="Records a warp keeps, a power of two; 0: kperfir chooses.")] = 0,
    first: Annotated[int, typer.Option(help="Launches recorded of each kernel binary.")] = 3,
    every: Annotated[int, typer.Option(help="After those, every n-th.")] = 100,
    limit: Annotated[int, typer.Option(help="MiB at which a capture takes no more launches.")] = 1024,
    include: Annotated[list[str] | None, typer.Option(help="Only kernels with names like this.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No kernels with names like this.")] = None,
    module: Annotated[bool, typer.Option("-m", help="The program is a module, as in python -m.")] = False,
) -> None:
    """Run PROGRAM ARGS... and record every Triton kernel it launches."""
    if not context.args:
        raise ProgramError("No program was given.", "Use: kperfir record [options] script.py ARGS...")
    _check(context.args[0], module, output)
    if os.environ.get("TRITON_INTERPRET") != "1" and not driver_present():
        print(_NO_GPU, file=sys.stderr)
        # before anything imports Triton: its own library is decorated at import
        os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", "0")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    options = {
        "regions": regions,
        "buffer": buffer,
        "slots": slots,
        "first": first,
        "every": every,
        "limit_bytes": limit << 20,
        "include": tuple(include or ()),
        "exclude": tuple(exclude or ()),
    }
    capture = output
    try:
        with record_session(output, **options) as capture, children.followed(capture, options):  # type: ignore[arg-type]
            _run(context.args, module)
            _wait_for_threads()
    finally:
        if capture.is_file():
            print(f"kperfir: wrote {capture}; `kperfir report {capture}` shows it.", file=sys.stderr)


def _check(program: str, module: bool, output: Path) -> None:
    """Before a capture is opened, which would overwrite an earlier one."""
    if not module and Path(program).resolve() == output.resolve():
        what = f"'{program}' is both the program and the capture."
        raise ProgramError(what, "To read a capture use `kperfir report`; to record, choose another place with -o.")
    if not module and not Path(program).is_file():
        raise ProgramError(f"There is no script '{program}'.", "Check the path, or use -m for a module.")
    if module:
        sys.path.insert(0, os.getcwd())
        if importlib.util.find_spec(program.partition(".")[0] or " ") is None:
            raise ProgramError(f"There is no module '{program}'.", "Check the name, or leave -m out for a script.")


def _wait_for_threads() -> None:
    """As Python does behind a script: threads that are no daemons run to their end, here still recorded."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()


def _run(arguments: list[str], module: bool) -> None:
    program, *rest = arguments
    sys.argv = [program, *rest]
    if not module:
        sys.path.insert(0, str(Path(program).resolve().parent))
    try:
        if module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except Exception as error:
        if any(sign in str(error) for sign in _NO_CUDA_SIGNS):
            raise ProgramError(
                f"The program asks for a GPU and there is none: {str(error).splitlines()[0]}",
                "Let it use the device 'cpu' here; Triton's interpreter runs its kernels.",
            ) from error
        raise
