"""A summary as text for a terminal."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kperfir.analysis.summary import KernelSummary, Summary
from kperfir.capture.schema import Problem, Resources

_WIDTH = 118
_INTERPRETED = "Times are those of Triton's interpreter on the host, in nanoseconds: they say nothing of a GPU."
_RAW = "Times are raw: the cost of the records is in them."


def report(summary: Summary) -> str:
    """The whole report."""
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, markup=False, emoji=False)
    console.print(f"{summary.device or 'unknown device'}, Triton {summary.triton or 'unknown'}, {summary.plan}")
    if summary.source == "interpreter":
        console.print(_INTERPRETED)
    console.print(_RAW)
    if not summary.kernels:
        console.print("No launch was recorded.")
    for kernel in summary.kernels:
        _kernel(console, kernel)
    _tally(console, summary.tally)
    _problems(console, summary.problems)
    return out.getvalue().rstrip()


def _kernel(console: Console, kernel: KernelSummary) -> None:
    console.print(f"\n{kernel.name}  {kernel.target}  {kernel.launches} launches, {kernel.ctas} CTAs")
    records = f"records: {kernel.written} written, {kernel.kept} kept, {kernel.slots} slots a warp"
    console.print(f"  {records}" + (f"; {kernel.place_reason}" if kernel.place_reason else ""))
    if kernel.unit == "cycles":
        console.print(f"  {_clock(kernel)}")
        console.print(f"  plain: {_resources(kernel.plain)}   with records: {_resources(kernel.instrumented)}")
    table = Table(box=None, pad_edge=False)
    table.add_column("  region")
    for name in ("count", f"total {kernel.unit}", "median", "p95", "share"):
        table.add_column(name, justify="right")
    table.add_column("source")
    for region in kernel.regions:
        share = "" if region.share is None else f"{region.share:.1%}"
        source = f"{Path(region.file).name}:{region.line}" if region.file else ""
        name = "  " * (region.depth + 1) + region.name
        figures = (f"{region.count}", f"{region.total}", f"{region.median:.0f}", f"{region.p95:.0f}", share)
        table.add_row(name, *figures, source)
    console.print(table)


def _clock(kernel: KernelSummary) -> str:
    if kernel.ghz is None:
        return "clock: the launches were too short to measure the frequency; there are no nanoseconds"
    return f"clock: {kernel.ghz:.4f} GHz measured; SMs agree on a common axis within {kernel.error_ns:.0f} ns"


def _resources(resources: Resources) -> str:
    def text(value: int | None) -> str:
        return "?" if value is None else str(value)

    return (
        f"{text(resources.registers)} registers, {text(resources.spills)} spills, "
        f"{text(resources.shared_bytes)} B shared, {text(resources.ctas_per_sm)} CTAs/SM"
    )


def _tally(console: Console, tally: dict[str, dict[str, int]]) -> None:
    if tally:
        console.print("\nLaunches")
    for name, outcomes in sorted(tally.items()):
        console.print(f"  {name}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))


def _problems(console: Console, problems: tuple[Problem, ...]) -> None:
    if problems:
        console.print("\nProblems")
    for problem in problems:
        console.print(f"  [{problem.code}] {problem.where}: {problem.what} {problem.cure}".rstrip())
