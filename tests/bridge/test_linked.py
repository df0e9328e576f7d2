"""Records stand in the same places whether a module is read with its values or without."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, str(Path(__file__).parent))
import shape_kernels as k

import kperfir.language as kl
from kperfir.bridge import steps
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.ir.locations import Locations
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.passes.carrier import lower_records
from kperfir.passes.place import place

SIGNATURE = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}


@triton.jit
def results(x, y, n, BLOCK: tl.constexpr):
    """Arithmetic whose results leave a scope, stay in it, and come out of a loop."""
    at = tl.arange(0, BLOCK)
    with kl.scope("load"):
        a = tl.load(x + at)
        b = tl.exp(a) * 2.0
    with kl.scope("arithmetic"):
        c = b * b + a
        d = tl.sqrt(c)
    s = d
    for i in range(n):
        with kl.scope("turn"):
            s = s * 0.5 + tl.load(x + at + i)
            m = tl.max(s, 0)
        s += m
    with kl.scope("store"):
        tl.store(y + at, s - c)


def seen(kernel: Any, regions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[str, bool, tuple[Any, ...]]:
    """TTGIR of a compile as it was read, whether with values, and the scopes of it."""
    read: list[tuple[str, bool]] = []
    placed: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        steps,
        "read_module",
        lambda text, with_values: read.append((text, with_values)) or read_module(text, with_values),
    )
    monkeypatch.setattr(steps, "place", lambda *arguments: placed.append(arguments) or place(*arguments))
    compile_instrumented(
        ASTSource(kernel, SIGNATURE, {(3,): 1024}, {}), GPUTarget("cuda", 90, 32), {}, Request(regions)
    )
    return *read[-1], placed[-1][3]


@pytest.mark.parametrize("regions", [(), ("auto",)], ids=str)
@pytest.mark.parametrize("name", ["results", "same_name", "calls_helpers", "branches", "returns_early"])
def test_the_same_text(name: str, regions: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    text, linked, scopes = seen(results if name == "results" else getattr(k, name), regions, monkeypatch)
    assert not linked
    texts = []
    for with_values in (True, False):
        module = read_module(text, with_values)
        place(module, Locations.of(module), regions, scopes)
        assert lower_records(module) > 0
        texts.append(print_module(module))
    assert texts[0] == texts[1]
