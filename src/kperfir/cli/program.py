"""Runs a program in this process as `python` would run it."""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

_OWN_FILES = (
    __file__,
    runpy.__file__,
    "<frozen runpy>",
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
)
_INTERRUPTED = 128 + 2
NO_GPU_SIGNS = ("not compiled with CUDA", "No CUDA GPUs", "no NVIDIA driver", "0 active drivers")


class ProgramFailure(SystemExit):
    """The program ended with an error of its own. As an exit, it tells the recording its code."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1)
        self.error = error

    def show(self) -> None:
        """Print it the way the program wants its errors printed, from the program's first line on."""
        error = self.error.with_traceback(_program_frames(self.error.__traceback__))
        if not hasattr(sys, "excepthook"):
            print("sys.excepthook is missing", file=sys.stderr)
            sys.__excepthook__(type(error), error, error.__traceback__)
            return
        try:
            sys.excepthook(type(error), error, error.__traceback__)
        except Exception as broken:  # in Python's words
            print("Error in sys.excepthook:", file=sys.stderr)
            broken.__context__ = None  # this failure, which Python would not have
            broken = broken.with_traceback(_program_frames(broken.__traceback__))
            sys.__excepthook__(type(broken), broken, broken.__traceback__)
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(type(error), error, error.__traceback__)

    def says(self, *signs: str) -> bool:
        """Whether the program's error speaks of one of these."""
        try:
            text = str(self.error)
        except Exception:  # an error's own text may fail
            return False
        return any(sign in text for sign in signs)


def run_program(arguments: list[str], module: bool) -> None:
    """Run a script, or with `module` a module, until its last thread that is no daemon ends.

    Args:
        arguments: its name, and what it finds behind that in `sys.argv`.

    Raises:
        SystemExit: the program ended so.
        ProgramFailure: it ended with any other error.
    """
    sys.argv = list(arguments)
    try:
        if module:
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            _run_script(Path(arguments[0]))
        _wait_for_threads()
    except SystemExit:
        raise
    except BaseException as error:
        raise ProgramFailure(error) from None


def _run_script(script: Path) -> None:
    """`runpy.run_path` leaves `__file__` relative, and takes the script's globals away when it ends."""
    path = os.path.abspath(script)
    sys.path[0] = str(script.resolve().parent)
    loader = SourceFileLoader("__main__", path)
    code = loader.source_to_code(loader.get_data(path), path)
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __cached__=None, __loader__=loader, __annotations__={}, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _wait_for_threads() -> None:
    """As Python does behind a script: threads that are no daemons run to their end, here still recorded."""
    pools = sys.modules.get("concurrent.futures.thread")
    if pools is not None:
        pools._python_exit()  # as Python calls it at its end: idle workers of a pool wait for it
    while waited_for := [t for t in threading.enumerate() if not t.daemon and t is not threading.current_thread()]:
        for thread in waited_for:  # each may start others
            thread.join()


def _program_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OWN_FILES:
        traceback = traceback.tb_next
    return traceback
