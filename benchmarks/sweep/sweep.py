"""Compiles every kernel that libraries launch in their own wrappers, for four targets, plain and with records.

    python benchmarks/sweep/sweep.py OUTPUT.json [--library liger] [--target cuda:90] [--case NAME] [--journals FOLDER]

No GPU is needed. Workers are processes that may crash: that is the kernel's result, and a new one goes on. Journals are
kept in FOLDER, and a sweep that is started again with the same one goes on behind them. A library that is not installed
is left out, as are Triton's tutorials where the variable TUTORIALS names no folder; the result says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from describe import machine
from journal import Journal, Line
from summary import LIBRARIES, TARGETS, summed, table

HERE = Path(__file__).parent
_MOST_RESTARTS = 100
_SILENCE = 600.0  # seconds without a new line after which a worker is taken to hang


def main() -> None:
    arguments = _parser().parse_args()
    folder = Path(arguments.journals or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    parts = [(name, target) for target in arguments.target or TARGETS for name in arguments.library or LIBRARIES]
    if not arguments.only_sum:
        for name, target in parts:
            if _is_here(name):
                journal = Journal(folder / f"{name}-{target.replace(':', '-')}.jsonl")
                sweep(name, target, journal, arguments.case or [])
    result = machine() | summed(folder)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


def _is_here(library: str) -> bool:
    found = importlib.util.find_spec(LIBRARIES[library].module) is not None
    return found and (library != "tutorials" or "TUTORIALS" in os.environ)


def sweep(library: str, target: str, journal: Journal, cases: list[str]) -> None:
    """Run workers until one ends by itself."""
    for _ in range(_MOST_RESTARTS):
        ended = _work(library, target, journal, cases)
        if ended == "0":
            return
        if not _note_crash(journal, ended):
            raise SystemExit(f"The worker for {library} on {target} ended with {ended} before it compiled anything.")
    raise SystemExit(f"The worker for {library} on {target} crashed {_MOST_RESTARTS} times.")


def _work(library: str, target: str, journal: Journal, cases: list[str]) -> str:
    """One worker; returns how it ended, "0" where it came to its end."""
    command = [sys.executable, "-W", "ignore", str(HERE / "worker.py"), library, target, str(journal.path), *cases]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": cache}
        begin = time.time()
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        while worker.poll() is None:
            if time.time() - max(begin, _written(journal.path)) > _SILENCE:
                worker.kill()
                worker.wait()
                return "no result in time"
            time.sleep(0.5)
    return "0" if worker.returncode == 0 else f"exit status {worker.returncode}"


def _written(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def _note_crash(journal: Journal, ended: str) -> bool:
    """Write down what the worker was at when it ended; False where it was at nothing.

    Where that was the plain compile, it is Triton's failure and not the records'.
    """
    lines = journal.lines()
    if not lines:
        return False
    last = lines[-1]
    if last.outcome != "begun":
        return False
    cause = f"{ended} while it compiled {last.cause}"
    outcome = "plain failure" if last.cause == "plain" else "crash"
    journal.write(Line(last.case, last.launch, outcome, last.kernel, last.hash, cause))
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compile what libraries launch, plain and with records.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--case", action="append", help="a wrapper; all by default")
    parser.add_argument("--journals")
    parser.add_argument("--only-sum", action="store_true", help="sum up the journals as they are")
    return parser


if __name__ == "__main__":
    main()
