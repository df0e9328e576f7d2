"""`kperfir opt`: IR text in, any level of IR out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kperfir.bridge.child import in_child
from kperfir.bridge.levels import LEVELS, PASSES
from kperfir.cli.output import say
from kperfir.errors import ExportError, IRError, PlanError
from kperfir.plan import Plan


def opt(
    file: Annotated[str, typer.Argument(help="TTIR or TTGIR, custom or generic form; - reads standard input.")],
    target: Annotated[
        str | None, typer.Option(help="Such as cuda:90 or hip:gfx942; TTGIR names its own.", metavar="TARGET")
    ] = None,
    plan: Annotated[str, typer.Option(help="As key=value;...", metavar="PLAN")] = "regions=auto",
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass",
            help=f"Only these of {', '.join(PASSES)}; and of your own, as in `kperfir record`. Several times.",
            metavar="NAME",
        ),
    ] = None,
    emit: Annotated[
        str | None,
        typer.Option(help=f"Level to print: {', '.join(LEVELS)}. Default: that of the last pass.", metavar="LEVEL"),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", help="Compile option of Triton's, such as num_warps=8; several times.", metavar="NAME=VALUE"
        ),
    ] = None,
    generic: Annotated[bool, typer.Option("--generic", help="Print MLIR's generic form.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; else standard output.")] = None,
) -> None:
    """Run passes on a kernel's IR and print what they make of it. Nothing is launched; no GPU is needed."""
    text = read_ir(file)
    Plan.parse(plan)
    result = in_child(
        "opt",
        "Standard input" if file == "-" else file,
        text=text,
        target=target,
        options=pairs(options or []),
        plan=plan,
        passes=passes or [],
        emit=emit,
        generic=generic,
    )
    if output is None:
        say(result.rstrip("\n"))
        return
    try:
        output.write_text(result)
    except OSError as error:
        raise ExportError(f"{output} cannot be written: {error.strerror}.", "Choose another place with -o.") from None


def read_ir(file: str) -> str:
    """Text of a file, or of standard input for "-".

    Raises:
        IRError: it cannot be read, or is no text.
    """
    if file == "-" and sys.stdin is None:
        raise IRError("Standard input is closed.", "Give a file of TTIR or TTGIR.")
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as error:
        raise IRError(f"{file} cannot be read: {error.strerror}.", "Give a file of TTIR or TTGIR.") from None
    except UnicodeDecodeError:
        raise IRError(f"{file} is no text.", "Give a file of TTIR or TTGIR.") from None


def pairs(options: list[str]) -> dict[str, str]:
    """NAME=VALUE options.

    Raises:
        PlanError: one is not written so.
    """
    for option in options:
        if not option.partition("=")[1]:
            raise PlanError(f"'{option}' is no option of Triton's.", "Use one like num_warps=8.")
    return dict(option.split("=", 1) for option in options)
