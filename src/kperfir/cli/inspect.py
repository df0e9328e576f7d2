"""`kperfir inspect`: what records cost a kernel, before it is run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kperfir.bridge.child import in_child
from kperfir.bridge.cost import Cost, Inspection
from kperfir.bridge.entries import Entry, compiled_kernels, entries_in
from kperfir.cli.opt import pairs, read_ir
from kperfir.cli.output import say
from kperfir.cli.program import NO_GPU_SIGNS, ProgramFailure, run_program
from kperfir.errors import KperfError, PlanError, ProgramError
from kperfir.notes import note
from kperfir.plan import Plan

_WIDTH = 118
_ROWS = (
    ("registers", "registers"),
    ("scalar registers", "scalar_registers"),
    ("local bytes a thread", "local_bytes"),
    ("shared bytes a CTA", "shared_bytes"),
    ("CTAs an SM", "ctas_per_sm"),
    ("code bytes", "code_bytes"),
    ("instructions", "instructions"),
)


@dataclass(frozen=True)
class _Subject:
    """One kernel to inspect, and what the child process gets of it."""

    name: str
    arguments: dict[str, Any]


_NEEDS_GPU = (
    "The program asks for a GPU and there is none. "
    "Give a file of TTIR or TTGIR with --target, or a folder of Triton's cache; those need none."
)


def inspect(
    context: typer.Context,
    target: Annotated[
        str | None, typer.Option(help="Such as cuda:90 or hip:gfx942, for TTIR.", metavar="TARGET")
    ] = None,
    plan: Annotated[str, typer.Option(help="As key=value;...", metavar="PLAN")] = "regions=auto",
    options: Annotated[
        list[str] | None,
        typer.Option("--option", help="Compile option of Triton's for TTIR, such as num_warps=8; several times."),
    ] = None,
) -> None:
    """Show what records cost the kernels of a program, of Triton's cache, or of a file of TTIR or TTGIR."""
    asked = Plan.parse(plan)
    if not context.args:
        raise ProgramError("Nothing was given to inspect.", "Use: kperfir inspect [options] PROGRAM|FOLDER|FILE")
    failed = shown = 0
    for subject in _subjects(context.args, target, pairs(options or [])):
        if not asked.wants(subject.name):
            continue
        try:
            data = in_child("measure", subject.name, plan=str(asked), **subject.arguments)
        except KperfError as error:
            note(str(error))
            failed += 1
            continue
        say(("\n" if shown else "") + report(subject.name, Inspection.from_dict(data)))
        shown += 1
    if not shown and not failed:
        raise PlanError("The plan leaves out every kernel that was found.", "Change its kernels=.")
    if failed:
        raise typer.Exit(1)


def report(name: str, found: Inspection) -> str:
    """A kernel's costs as text."""
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, markup=False, emoji=False, color_system=None)
    console.print(f"{name}  {found.target}")
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("plain", justify="right")
    table.add_column("with records", justify="right")
    for title, field in _ROWS:
        if getattr(found.plain, field) is not None or field == "ctas_per_sm":
            table.add_row(f"  {title}", _value(found.plain, field), _value(found.instrumented, field))
    table.add_row("  records in the code", "0", str(found.sites))
    table.add_row("  instructions a record", "", f"{found.instructions_per_record:.1f}")
    console.print(table)
    console.print(f"  Rings in {found.place_reason}")
    for warning in found.warnings:
        console.print(f"  Warning: {warning}")
    if found.proposal:
        console.print(f'  As many CTAs as plain: --plan "{found.proposal}"', soft_wrap=True)
    elif _lost(found):
        console.print("  No plan with fewer slots, fewer warps or global memory keeps them; record fewer regions.")
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _value(cost: Cost, field: str) -> str:
    value = getattr(cost, field)
    return "unknown" if value is None else str(value)


def _lost(found: Inspection) -> bool:
    return (found.instrumented.ctas_per_sm or 0) < (found.plain.ctas_per_sm or 0)


def _subjects(arguments: list[str], target: str | None, options: dict[str, str]) -> Iterator[_Subject]:
    path = Path(arguments[0])
    if path.suffix != ".py" and len(arguments) > 1:
        raise PlanError(f"'{arguments[1]}' stands behind '{arguments[0]}'.", "Options come first.")
    if path.is_dir():
        _without(target, options)
        yield from map(_of_entry, entries_in(path))
    elif path.suffix == ".py":
        _without(target, options)
        yield from map(_of_entry, _compiled_by(arguments))
    else:
        text = read_ir(arguments[0])
        yield _Subject(arguments[0], {"text": text, "target": target, "options": options, "metadata": {}, "binary": ""})


def _without(target: str | None, options: dict[str, str]) -> None:
    if target or options:
        raise PlanError("A kernel that Triton compiled has its target and options.", "Leave --target and --option out.")


def _of_entry(entry: Entry) -> _Subject:
    return _Subject(
        entry.name,
        {
            "text": read_ir(str(entry.ir)),
            "target": entry.target,
            "options": {},
            "metadata": entry.metadata,
            "binary": str(entry.binary or ""),
        },
    )


def _compiled_by(arguments: list[str]) -> list[Entry]:
    """Kernels that a program compiles, in the order in which it does."""
    if not Path(arguments[0]).is_file():
        raise ProgramError(f"There is no script '{arguments[0]}'.", "Check the path.")
    with compiled_kernels() as entries:
        try:
            run_program(arguments, module=False)
        except ProgramFailure as failure:
            failure.show()
            if failure.says(*NO_GPU_SIGNS):
                note(_NEEDS_GPU)
            raise SystemExit(failure.code) from None
        except SystemExit as ended:
            if ended.code:
                raise
    if not entries:
        raise ProgramError(f"{arguments[0]} compiled no Triton kernel.", "Give a program that launches one.")
    return list(entries)
