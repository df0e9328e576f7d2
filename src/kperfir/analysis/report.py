"""A summary as text for a terminal."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kperfir.analysis.addresses import MemoryOperation
from kperfir.analysis.fidelity import show
from kperfir.analysis.standing import Stand, together
from kperfir.analysis.summary import KernelSummary, RegionSummary, Summary
from kperfir.capture.schema import Problem, Resources, Session

_WIDTH = 118
_SHOWN = 3
_INTERPRETED = "Times are those of Triton's interpreter on the host, in nanoseconds: they say nothing of a GPU."
_RAW = (
    "Times are raw: the cost of the records is in them. Share: of the time that the region's warps were in the kernel;"
    " where records are missing, of the time that those left cover."
)


def report(summary: Summary) -> str:
    """The whole report, plain text of lines no longer than 118 columns."""
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, markup=False, emoji=False, color_system=None)
    for session in dict.fromkeys(_session(s) for s in summary.sessions):
        console.print(session)
    if len(summary.sessions) > 1:
        console.print(f"{len(summary.sessions)} processes")
    if any(s.source == "interpreter" for s in summary.sessions):
        console.print(_INTERPRETED)
    if not summary.kernels or any(not kernel.holds_addresses for kernel in summary.kernels):
        console.print(_RAW)
    if not summary.kernels:
        console.print("\nNo launch was recorded.")
    for kernel in summary.kernels:
        _kernel(console, kernel)
    _standing(console, summary.standing)
    _tally(console, summary.tally)
    _problems(console, summary.problems)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _session(session: Session) -> str:
    device = session.device_name or session.target or "unknown device"
    return f"{device}, Triton {session.triton_version or 'unknown'}, {session.plan}"


def _kernel(console: Console, kernel: KernelSummary) -> None:
    target = f"  {kernel.target}" if kernel.target else ""
    console.print(f"\n{kernel.name}{target}  {_count(kernel.launches, 'launch')}, {_count(kernel.ctas, 'CTA')}")
    console.print(f"  {_records(kernel)}" + (f"; {kernel.place_reason}" if kernel.place_reason else ""))
    if kernel.unit == "cycles":
        if not kernel.holds_addresses:
            console.print(f"  {_clock(kernel)}")
        console.print(f"  plain:        {_resources(kernel.plain)}")
        console.print(f"  with records: {_resources(kernel.instrumented)}")
    console.print(_memory(kernel) if kernel.holds_addresses else _regions(kernel))
    if any(region.values for region in kernel.regions):
        console.print(_values(kernel))
    if kernel.fidelity.scopes:
        show(console, kernel.fidelity.scopes, kernel.fidelity.absent)


def _regions(kernel: KernelSummary) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("  region")
    spread = ("mean", "least", "greatest") if kernel.holds_sums else ("median", "p95")
    for name in ("count", f"total {kernel.unit}", *spread, "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source")
    for region in kernel.regions:
        table.add_row(*_row(region, kernel.holds_sums))
    return table


def _values(kernel: KernelSummary) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("  value")
    for name in ("type", "count", "min", "median", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source")
    for region in kernel.regions:
        if (of := region.values) is not None:
            digits = 9 if of.scalar == "float32" else 11  # enough to tell any two apart
            numbers = (f"{number:.{digits}g}" for number in (of.least, of.median, of.greatest))
            source = _source(region.file, region.line)
            table.add_row(f"  {region.name}", of.scalar, str(region.count), *numbers, source)
    return table


def _memory(kernel: KernelSummary) -> Table:
    """Means over the traced requests in which a lane makes an access."""
    table = Table(box=None, pad_edge=False)
    table.add_column("  access")
    for name in ("bytes", "requests", "lanes", "sectors", "ideal", "lines", "stride"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("scope")
    table.add_column("source")
    for operation in kernel.memory:
        table.add_row(*_access(operation))
    return table


def _access(operation: MemoryOperation) -> tuple[str, ...]:
    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}"

    return (
        f"  {operation.kind}",
        str(operation.width_bytes),
        str(operation.requests),
        *(text(v) for v in (operation.active_lanes, operation.sectors, operation.ideal_sectors, operation.lines)),
        f"{operation.stride_bytes} B" if operation.stride_bytes is not None else operation.pattern,
        operation.region,
        _source(operation.file, operation.line),
    )


def _records(kernel: KernelSummary) -> str:
    if kernel.holds_sums:
        return "no records: each warp added up what its regions took"
    if kernel.holds_addresses:
        return f"{kernel.written} requests for memory, {kernel.kept} traced: the first {kernel.slots} of each warp"
    dropped = kernel.written - kernel.kept
    lost = "overwritten" if kernel.wraps else "dropped"
    return f"records: {kernel.written} written, {dropped} {lost}, {kernel.slots} slots a warp"


def _row(region: RegionSummary, holds_sums: bool) -> tuple[str, ...]:
    def text(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    summed = (region.mean, region.least, region.greatest)
    return (
        "  " * (region.depth + 1) + region.name,
        str(region.count),
        text(region.total, "d"),
        *(text(value, ".0f") for value in (summed if holds_sums else (region.median, region.p95))),
        text(region.share, ".1%"),
        _source(region.file, region.line),
    )


def _source(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}" if file else ""


def _clock(kernel: KernelSummary) -> str:
    if kernel.ghz is None:
        return "clock: the launches were too short to measure the frequency; there are cycles but no nanoseconds"
    how = "measured"
    if kernel.combined_launches:
        how += f", for {_count(kernel.combined_launches, 'launch')} from all launches together"
    if kernel.unknown_launches:
        how += f", unknown for {_count(kernel.unknown_launches, 'launch')}"
    step = "unknown" if kernel.step_ns is None else f"{kernel.step_ns} ns"
    error = f"{kernel.error_median_ns:.0f} ns median, {kernel.error_max_ns:.0f} ns at most"
    return f"clock: {kernel.ghz:.4f} GHz {how}; SMs agree within {error}; timer step {step}"


def _resources(resources: Resources) -> str:
    def text(value: int | None) -> str:
        return "?" if value is None else str(value)

    return (
        f"{text(resources.registers)} registers, {text(resources.spills)} spills, "
        f"{text(resources.shared_bytes)} B shared, {text(resources.ctas_per_sm)} CTAs/SM"
    )


def _standing(console: Console, stands: tuple[Stand, ...]) -> None:
    if not stands:
        return
    console.print("\nLaunch never finished: where its warps stood")
    table = Table(box=None, pad_edge=False)
    for name in ("  launch", "CTAs", "warps", "in", "turn", "last record"):
        table.add_column(name)
    for group in together(stands):
        of, turn = group.stand, group.stand.turn
        launch = f"  {of.kernel}, launch {of.launch}"
        last = f"{of.last_kind} of {of.last_region}" + (f", {Path(of.file).name}:{of.line}" if of.file else "")
        within = " > ".join(of.regions) or "no region"
        table.add_row(launch, group.ctas, group.warps, within, "" if turn is None else str(turn), last)
    console.print(table)


def _tally(console: Console, tally: dict[str, dict[str, int]]) -> None:
    if not tally:
        return
    outcomes = sorted({o for counts in tally.values() for o in counts}, key=lambda o: (o != "recorded", o))
    table = Table(box=None, pad_edge=False)
    table.add_column("  launches of")
    for outcome in outcomes:
        table.add_column(outcome, justify="right")
    for name, counts in sorted(tally.items()):
        table.add_row(f"  {name}", *(str(counts.get(outcome, 0)) for outcome in outcomes))
    console.print()
    console.print(table)


def _problems(console: Console, problems: tuple[Problem, ...]) -> None:
    """The first few of each kind: every launch of a kernel tends to have the same ones."""
    if problems:
        console.print("\nProblems")
    by_code: dict[str, list[Problem]] = {}
    for problem in problems:
        by_code.setdefault(problem.code, []).append(problem)
    for code, found in by_code.items():
        for problem in found[:_SHOWN]:
            text = f"  [{code}] {problem.where}: {problem.what} {problem.cure}".rstrip()
            console.print(textwrap.fill(text, _WIDTH, subsequent_indent=" " * 6, break_on_hyphens=False))
        if len(found) > _SHOWN:
            console.print(f"  [{code}] and {len(found) - _SHOWN} more")


def _count(number: int, name: str) -> str:
    if number == 1:
        return f"1 {name}"
    return f"{number} {name}es" if name.endswith("ch") else f"{number} {name}s"
