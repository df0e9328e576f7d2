"""Compiles in a process of its own: for a target that it does not know Triton may end its process."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kperfir.errors import BridgeError, IRError, KperfError, LoweringError, PassError, PlanError

_WORK = {"opt": "kperfir.bridge.pipeline", "measure": "kperfir.bridge.measure"}
_FAMILIES = {family.__name__: family for family in (BridgeError, IRError, LoweringError, PassError, PlanError)}
_ROOT = str(Path(__file__).parents[2])  # so that the child finds this kperfir, wherever it was started
_UNKNOWN = re.compile(r"'\S+' is not a recognized processor")
_DIAGNOSTIC = re.compile(r"^(.*?): (?:fatal )?error: (.*)$|^(LLVM ERROR: .*|.*Assertion .* failed\.)$")
_IN_TEXT = re.compile(r'^(?:loc\(")?/proc/self/fd/\d+"?:(\d+):(\d+)\)?$')
_CURE = "Give another --target, or look at an earlier level with `kperfir opt --emit`."


def in_child(work: str, name: str, **arguments: Any) -> Any:
    """Call `run` of the module for this work in a child process.

    Args:
        work: "opt" or "measure". name: of the kernel or file, for messages.
        arguments: of `run`; like its result they are what JSON can hold.

    Raises:
        KperfError: the child refused, or ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        # -P: files of the current folder must not be taken for modules
        command = [sys.executable, "-P", "-m", __spec__.name, work, str(answer)]
        done = subprocess.run(
            command,
            input=json.dumps(arguments),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), _ROOT])},
        )
        if not answer.exists():
            raise _ended(name, done)
        if found := _UNKNOWN.search(done.stderr):
            raise LoweringError(f"{name}: Triton's LLVM says: {found[0]}.", "Give another --target.")
        result = json.loads(answer.read_text())
    if "error" not in result:
        return result["value"]
    family, what, cure = result["error"]
    detail = _diagnostic(done.stderr)
    raise _FAMILIES.get(family, LoweringError)(f"{name}: {what}" + (f" It says: {detail}." if detail else ""), cure)


def _ended(name: str, done: subprocess.CompletedProcess[str]) -> KperfError:
    code = done.returncode
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    said = _diagnostic(done.stderr) or next((s for s in reversed(done.stderr.splitlines()) if s.strip()), "nothing")
    return LoweringError(f"{name}: Triton's process ended {how} while it compiled. It said: {said[:300]}.", _CURE)


def _diagnostic(text: str) -> str:
    """The first error among what MLIR and LLVM print, in one line; empty where there is none."""
    for line in text.splitlines():
        found = _DIAGNOSTIC.match(line)
        if found:
            where, what, other = found.groups()
            place = _IN_TEXT.sub(r"line \1, column \2", where or "")
            return (other or f"{place}: {what}")[:300].rstrip(".")
    return ""


def _main(work: str, answer: str) -> None:
    arguments = json.load(sys.stdin)
    try:
        result = {"value": importlib.import_module(_WORK[work]).run(**arguments)}
    except KperfError as error:
        result = {"error": [type(error).__name__, error.what, error.cure]}
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        result = {"error": ["BridgeError", f"'{error.name}' is not installed.", f"Install {package}."]}
    except KeyboardInterrupt as error:
        what = "; ".join(["It was interrupted", *getattr(error, "__notes__", [])])
        result = {"error": ["PassError", f"{what}.", ""]}
    Path(answer).write_text(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
