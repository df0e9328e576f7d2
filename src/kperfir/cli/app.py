"""The command `kperfir`: its commands together."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kperfir.cli.doctor import doctor
from kperfir.cli.inspect import inspect
from kperfir.cli.opt import opt
from kperfir.cli.output import say
from kperfir.cli.read import export, report
from kperfir.cli.record import record
from kperfir.errors import KperfError
from kperfir.notes import note
from kperfir.version import __version__

app = typer.Typer(
    name="kperfir",
    help="See where every warp of a Triton or Gluon kernel spends its cycles.",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _kperfir(
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.", is_eager=True)] = False,
) -> None:
    if version:
        say(__version__)
        raise typer.Exit()


app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS] PROGRAM [ARGS]...",
)(record)
app.command()(report)
app.command()(export)
app.command()(opt)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS] PROGRAM [ARGS]...|FOLDER|FILE",
)(inspect)
app.command()(doctor)


def main() -> None:
    """Entry point: an error meant for the user is one line; anything else keeps its traceback."""
    try:
        app(prog_name="kperfir")
    except KperfError as error:
        note(str(error))
        sys.exit(error.exit_code)
