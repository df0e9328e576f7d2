"""Compiles what one library launches for one target, plain and with records, and keeps the journal.

    python worker.py liger cuda:90 JOURNAL [CASE ...]

It runs in a process of its own: the stand-in changes torch for good, and some compiles abort their process.
A process that is started again goes on behind what the journal holds.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())

import torch
from journal import ALL, Journal, Line
from loops import unrecorded
from standin import DEVICES, stand_in

from kperfir.bridge import compat
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request

_MOST_TEXT = 400
_MOST_BYTES = 16 << 30  # tensors of a GPU's size end a case, and not the machine


def main(library: str, target: str, path: Path, only: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    worker = _Worker(Journal(path))
    stand_in(DEVICES[target], worker.launch)
    cases = importlib.import_module(f"cases_{library}").cases()
    for name in only or cases:
        worker.case(name, cases[name])
    if not only:
        worker.case(ALL, lambda: None)


class _Worker:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        lines = journal.lines()
        self.done = {line.case for line in lines if line.launch < 0}
        self.known = {(line.case, line.launch): line for line in lines}
        self.hashes = {line.hash for line in lines if line.hash}
        self.name, self.count = "", 0

    def case(self, name: str, case: Callable[[], None]) -> None:
        """Call a wrapper; what it raises ends it, and is written down."""
        if name in self.done:
            return
        self.name, self.count = name, 0
        torch.manual_seed(0)
        cause = ""
        try:
            case()
        except Exception as error:
            cause = _text(error)
        self.journal.write(Line(name, -1, "done", cause=cause))

    def launch(self, function: Any, compile_plain: Callable[[], Any]) -> Any:
        """Stands for one launch; an exception of Triton's is the launch's, not the wrapper's."""
        at, self.count = self.count, self.count + 1
        name = f"{function.fn.__module__}.{function.fn.__name__}"
        known = self.known.get((self.name, at))
        if known and known.outcome in ("crash", "plain failure"):
            return None
        begin = time.perf_counter()
        self.journal.write(Line(self.name, at, "begun", name, cause="plain"))
        try:
            plain = compile_plain()
        except Exception as error:
            self.journal.write(Line(self.name, at, "plain failure", name, cause=_text(error)))
            return None
        if plain.hash not in self.hashes:
            self.journal.write(Line(self.name, at, "begun", name, plain.hash, cause="with records"))
            self.journal.write(_instrumented(Line(self.name, at, "begun", name, plain.hash), plain, begin))
        self.hashes.add(plain.hash)
        return plain


def _instrumented(line: Line, plain: Any, begin: float) -> Line:
    """The line of a kernel after its twin was compiled and looked at."""
    middle = time.perf_counter()
    where = (line.case, line.launch)
    try:
        options = compat.compile_options(plain)
        built = compile_instrumented(plain.src, plain.metadata.target, options, Request(("auto",)))
        seconds = [round(middle - begin, 3), round(time.perf_counter() - middle, 3)]
        loops, bare = unrecorded(built.kernel)
    except Exception as error:
        return Line(*where, "exception", line.kernel, line.hash, _text(error))
    cause = "; ".join([*bare, *(f.what for f in built.findings)] if bare else [])
    outcome = "exception" if bare else "instrumented"
    sites = len(built.table.sites)
    return Line(*where, outcome, line.kernel, line.hash, cause, loops, sites, seconds)  # type: ignore[arg-type]


def _text(error: BaseException) -> str:
    """The kind and the words of an error; Triton's own begin with many lines of the kernel, which are left out."""
    innermost = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    said = getattr(innermost, "error_message", None) or innermost
    return f"{type(error).__name__}: {' '.join(str(said).split())[:_MOST_TEXT]}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
