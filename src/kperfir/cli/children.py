"""Follows child processes: each Python process that the program starts records into a capture of its own.

A child finds the options in an environment variable. A `sitecustomize` of ours comes
first on its PYTHONPATH, opens the recording, and hands over to the program's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kperfir.capture.policy import Policy

VARIABLE = "KPERFIR_CHILD"
_HOOK = Path(__file__).parent / "child_site"


@dataclass(frozen=True)
class Passes:
    """Passes given on the command line, by names that hold in every folder, and the point where they run."""

    names: tuple[str, ...] = ()
    at: str = ""


@contextmanager
def followed(capture: Path, run: str, policy: Policy, passes: Passes) -> Iterator[None]:
    """While inside, child processes record beside `capture`, as part of the same `run`."""
    before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
    os.environ[VARIABLE] = json.dumps(
        {
            "capture": str(capture.resolve()),
            "run": run,
            "plan": str(policy.plan),
            "limit_bytes": policy.limit_bytes,
            "hang_timeout_s": policy.hang_timeout_s,
            "passes": passes.names,
            "pass_at": passes.at,
        }
    )
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_HOOK), before["PYTHONPATH"]]))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def start_child() -> None:
    """Open a recording for this process; it is closed when the process ends."""
    import atexit
    from multiprocessing import util

    from kperfir.capture.policy import Policy
    from kperfir.capture.writer import child_capture
    from kperfir.passes.patched import patch
    from kperfir.plan import Plan
    from kperfir.session import record_program

    request = json.loads(os.environ[VARIABLE])
    parent, process = Path(request["capture"]), os.getpid()
    stack = ExitStack()
    policy = Policy(Plan.parse(request["plan"]), request["limit_bytes"], request["hang_timeout_s"])
    if request["passes"]:
        patch(request["passes"], at=request["pass_at"] or None)
    stack.enter_context(record_program(child_capture(parent, process), request["run"], policy))
    atexit.register(stack.close)

    def close_at_end(opened: ExitStack) -> None:
        if os.getpid() == process:
            util.Finalize(None, opened.close, exitpriority=0)

    # A worker of a fork server ends without atexit, and forgets the finalizers of before its start.
    util.register_after_fork(stack, close_at_end)
