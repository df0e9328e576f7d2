"""Runs at the start of child processes of a recorded program; see `kperfir.cli.children`.

Most children never use Triton, and opening a recording loads it. So the recording is
opened when the child imports Triton.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


class _WhenTriton(importlib.abc.MetaPathFinder):
    """Lets Triton be imported, then opens the recording."""

    def find_spec(self, name, path=None, target=None):
        if name != "triton":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _start()

        spec.loader.exec_module = exec_module
        return spec


def _start():
    # whatever fails here, such as kperfir missing from another environment, must not reach the program
    try:
        from kperfir.cli.children import start_child

        start_child()
    except Exception as error:
        print(f"kperfir: this child process is not recorded: {error}", file=sys.stderr)


if os.environ.get("KPERFIR_CHILD"):
    sys.meta_path.insert(0, _WhenTriton())

_paths = [p for p in sys.path if os.path.abspath(p or ".") != _here]
_own = importlib.machinery.PathFinder.find_spec("sitecustomize", _paths)
if _own is not None and _own.loader is not None:
    _own.loader.exec_module(importlib.util.module_from_spec(_own))
