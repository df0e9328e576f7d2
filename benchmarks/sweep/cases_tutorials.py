"""Triton's tutorials, from the folder that the variable TUTORIALS names: `python/tutorials` of Triton's repository.

No package holds them. They are neither copied here, because they change with every version and are long, nor fetched
when the sweep runs, which would then need a network: check the tag of the installed version out.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
import triton
from triton._C import libtriton

Case = Callable[[], None]


def cases() -> dict[str, Case]:
    """Every tutorial as a program of its own; Gluon's are in a folder inside."""
    folder = Path(os.environ["TUTORIALS"])
    _replace_checks()
    files = [*sorted(folder.glob("[0-9]*.py")), *sorted((folder / "gluon").glob("[0-9]*.py"))]
    return {str(file.relative_to(folder)): partial(_run, file) for file in files}


def _run(file: Path) -> None:
    sys.argv = [str(file)]
    sys.path.insert(0, str(file.parent))  # some import their neighbours
    runpy.run_path(str(file), run_name="__main__")


def _replace_checks() -> None:
    """Nothing was computed, so nothing can be compared; of a benchmark one size of every kind is enough."""
    torch.allclose = lambda *values, **options: True
    torch.testing.assert_close = lambda *values, **options: None
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = _call_once
    triton.testing.Mark.run = _one_of_each
    triton.runtime.driver.active.get_active_torch_device = lambda: torch.device("cpu")
    torch.randn = torch.rand = _zeros
    torch.cpu.set_stream = torch.cuda.set_stream
    torch.cuda.Event = _anything
    sys.modules.setdefault("tabulate", types.SimpleNamespace(tabulate=lambda *rows, **options: ""))  # type: ignore[arg-type]
    libtriton.nvidia.cublas.CublasLt = _anything


def _anything(*arguments: Any, **options: Any) -> Any:
    """An event, or a library of NVIDIA's: it takes every call and gives nothing."""
    return MagicMock()


def _zeros(*size: Any, **options: Any) -> Any:
    """Some tutorials ask for many gigabytes; zeros take no memory until somebody writes to them."""
    return torch.zeros(*size, **options)


def _call_once(call: Callable[[], object], *arguments: Any, quantiles: Any = None, **options: Any) -> Any:
    call()
    return [1.0] * len(quantiles) if quantiles else 1.0


def _one_of_each(self: Any, *arguments: Any, **options: Any) -> None:
    for benchmark in self.benchmarks if isinstance(self.benchmarks, list) else [self.benchmarks]:
        first = benchmark.x_vals[0]
        sizes = first if isinstance(first, (list, tuple)) else [first] * len(benchmark.x_names)
        for line in benchmark.line_vals:
            self.fn(**dict(zip(benchmark.x_names, sizes)), **{benchmark.line_arg: line}, **benchmark.args)
