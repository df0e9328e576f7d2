"""Runs at the start of child processes of a recorded program; see `kperfir.cli.children`.

Most children never use Triton, and opening a recording loads it. So the recording is
opened when the child imports Triton.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _start(_triton):
    try:
        from kperfir.cli.children import start_child

        start_child()
    except Exception as error:
        _not_recorded(error)


def _not_recorded(error):
    # whatever fails here, such as kperfir missing from another environment, must not reach the program
    if sys.stderr is not None:
        print(f"kperfir: this child process is not recorded: {error}", file=sys.stderr)


def _await_triton():
    place = os.path.join(_here, os.pardir, os.pardir, "bridge", "loaded.py")
    spec = importlib.util.spec_from_file_location("_kperfir_loaded", place)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    sys.meta_path.insert(0, loaded.WhenLoaded("triton", _start))


if os.environ.get("KPERFIR_CHILD"):
    try:
        _await_triton()
    except Exception as error:
        _not_recorded(error)

_paths = [p for p in sys.path if os.path.abspath(p or ".") != _here]
_own = importlib.machinery.PathFinder.find_spec("sitecustomize", _paths)
if _own is not None and _own.loader is not None:
    _own.loader.exec_module(importlib.util.module_from_spec(_own))
