"""From journals to the result of a sweep, and to the table that is printed."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal import ALL, Journal, Line

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942")
GOAL = 0.98


@dataclass(frozen=True)
class Library:
    """Where its kernels come from, and which package says its version."""

    module: str
    package: str


LIBRARIES = {
    "liger": Library("liger_kernel", "liger-kernel"),
    "fla": Library("fla", "fla-core"),
    "tutorials": Library("triton", "triton"),
}


def summed(folder: Path) -> dict[str, Any]:
    """Versions, and the counts and exceptions of every target."""
    libraries = {n: _version(v.package) for n, v in LIBRARIES.items() if any(folder.glob(f"{n}-*.jsonl"))}
    targets = {t: found for t in TARGETS if (found := _target(folder, t))}
    reached = all(t["share_instrumented"] >= GOAL and not t["crashes"] for t in targets.values())
    complete = set(targets) == set(TARGETS) and all(t["complete"] == list(LIBRARIES) for t in targets.values())
    return {"libraries": libraries, "complete": complete, "goal": GOAL, "reached": reached, "targets": targets}


def _target(folder: Path, target: str) -> dict[str, Any]:
    journals = {n: Journal(folder / f"{n}-{target.replace(':', '-')}.jsonl").lines() for n in LIBRARIES}
    lines = [line for found in journals.values() for line in found]
    kernels = _kernels(lines)
    if not kernels:
        return {}
    by = {o: [k for k in kernels if k.outcome == o] for o in ("instrumented", "plain failure", "exception", "crash")}
    compiled = [k for k in kernels if k.hash]
    return {
        "kernels": len(kernels),
        "functions": len({k.kernel for k in kernels}),
        "by_library": {name: len(_kernels(found)) for name, found in journals.items()},
        "compiled_plain": len(compiled),
        "instrumented": len(by["instrumented"]),
        "share_instrumented": round(len(by["instrumented"]) / max(len(compiled), 1), 4),
        "loops_with_work": sum(k.loops for k in by["instrumented"]),
        "sites": sum(k.sites for k in by["instrumented"]),
        "seconds": [round(sum(k.seconds[i] for k in by["instrumented"] if k.seconds), 1) for i in (0, 1)],
        "exceptions": _listed(by["exception"]),
        "crashes": _listed(by["crash"]),
        "plain_failures": _listed(by["plain failure"]),
        "cases": {name: len(_ended(found)) for name, found in journals.items()},
        "complete": [name for name, found in journals.items() if any(line.case == ALL for line in found)],
        "cases_that_ended_early": {line.case: line.cause for line in _ended(lines) if line.cause},
    }


def _kernels(lines: list[Line]) -> list[Line]:
    """The last word on every kernel: one a hash, or one a launch that did not compile plain."""
    last = {(line.case, line.launch): line for line in lines if line.launch >= 0 and line.outcome != "begun"}
    found = {line.hash or f"{line.kernel}: {line.cause}": line for line in last.values()}
    return list(found.values())


def _ended(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.launch < 0 and line.case != ALL]


def _listed(lines: list[Line]) -> list[dict[str, str]]:
    return [{"kernel": line.kernel, "case": line.case, "cause": line.cause} for line in lines]


def table(result: dict[str, Any]) -> str:
    """The counts of every target, and whatever is not instrumented."""
    columns = ("kernels", "compiled_plain", "instrumented", "exceptions", "crashes", "plain_failures")
    heads = "".join(f"{name.replace('_', ' '):>16}" for name in columns)
    rows = [f"Triton {result['triton']}", f"{'':12}{heads}{'share':>9}"]
    for name, target in result["targets"].items():
        counts = [v if isinstance(v := target[column], int) else len(v) for column in columns]
        rows.append(f"{name:12}" + "".join(f"{c:>16}" for c in counts) + f"{target['share_instrumented']:>9.2%}")
    for name, target in result["targets"].items():
        for kind in ("exceptions", "crashes", "plain_failures"):
            rows += [f"{name} {kind}: {e['kernel']}: {e['cause'][:160]}" for e in target[kind]]
    return "\n".join(rows)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
