"""`kperfir report` and `kperfir export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kperfir.cli.output import say
from kperfir.opened import load


def report(capture: Annotated[Path, typer.Argument(help="Capture file, or a directory of them.")]) -> None:
    """Print what every region of every kernel took."""
    say(str(load(capture).summary()))


def export(
    capture: Annotated[Path, typer.Argument(help="Capture file, or a directory of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File; its suffix picks the format.")] = Path(
        "trace.json"
    ),
) -> None:
    """Write a timeline (.json, .json.gz) for Perfetto, or the events (.csv, .parquet, .arrow)."""
    say(f"kperfir: wrote {load(capture).export(output)}")
