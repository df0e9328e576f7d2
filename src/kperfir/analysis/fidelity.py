"""Whether scopes time what was marked: what became of their operations, kernel by kernel."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kperfir.capture.schema import Kernel, Shares
from kperfir.fidelity import Kept, Share
from kperfir.trace import Trace

_WIDTH = 118
_COUNTS = {
    "held": "held",
    "kept": "kept",
    "duplicated": "copies",
    "outside": "outside",
    "hoisted": "hoisted",
    "merged": "merged",
    "vanished": "vanished",
}


@dataclass(frozen=True)
class ScopeFidelity:
    """One scope or rule: its operations in Triton's IR, and its instructions.

    Attributes:
        share: None where there are no records of it, or instructions were not read.
    """

    kept: Kept
    share: Share | None = None


@dataclass(frozen=True)
class KernelFidelity:
    """One kernel binary. absent: why instructions were not read; empty where they were."""

    name: str
    target: str
    scopes: tuple[ScopeFidelity, ...]
    absent: str = ""


@dataclass(frozen=True)
class Fidelity:
    """All kernels of a trace. Printing it gives a table of each."""

    kernels: tuple[KernelFidelity, ...]

    def __str__(self) -> str:
        out = io.StringIO()
        console = Console(file=out, width=_WIDTH, highlight=False, markup=False, emoji=False, color_system=None)
        for kernel in self.kernels:
            console.print(f"{kernel.name}  {kernel.target}")
            show(console, kernel.scopes, kernel.absent)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def fidelity(trace: Trace) -> Fidelity:
    """Of every kernel of a trace that has scopes or rules which move or multiply data; the same binary once."""
    found: dict[Kernel, tuple[Kernel, Shares]] = {}
    for capture in trace.captures:
        for kernel in capture.kernels.values():
            if kernel.fidelity:
                found.setdefault(replace(kernel, id=0), (kernel, capture.shares_of(kernel.id)))
    return Fidelity(tuple(kernel_fidelity(kernel, shares) for kernel, shares in found.values()))


def kernel_fidelity(kernel: Kernel, shares: Shares) -> KernelFidelity:
    """Of one kernel, with what its capture knows of its instructions."""
    return KernelFidelity(kernel.name, kernel.target, joined(kernel.fidelity, shares.shares), shares.absent)


def joined(kept: Sequence[Kept], shares: Sequence[Share | None]) -> tuple[ScopeFidelity, ...]:
    """Both halves of each scope; the second may be absent."""
    return tuple(ScopeFidelity(one, shares[n] if n < len(shares) else None) for n, one in enumerate(kept))


def show(console: Console, scopes: Sequence[ScopeFidelity], absent: str) -> None:
    """Print one kernel's table: operations of each scope, then instructions (see `Fate` and `Share`)."""
    table = Table(box=None, pad_edge=False)
    table.add_column("  scope", no_wrap=True)
    for title in (*_COUNTS.values(), "code", "between", "foreign"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("source")
    for scope in scopes:
        table.add_row(*_row(scope))
    console.print(table)
    if absent:
        console.print(f"  Instructions were not looked at: {absent}.", soft_wrap=True)


def _row(scope: ScopeFidelity) -> tuple[str, ...]:
    kept, share = scope.kept, scope.share
    counts = [str(sum(getattr(f, name) for f in kept.fates)) if kept.fates else "" for name in _COUNTS]
    told = ("", "", "")
    if share is not None:
        part = "" if share.share is None else f"{share.between} ({share.share:.0%})"
        told = (str(share.own), part, str(share.foreign))
    name = f"{kept.name} (rule)" if kept.origin == "rule" else kept.name
    return f"  {name}", *counts, *told, f"{Path(kept.file).name}:{kept.line}" if kept.file else ""
