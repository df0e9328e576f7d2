"""The code of docs/write-a-pass.md runs as it stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import triton
import triton.language as tl
from pages import module_of
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kperfir as kp
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.passes import registry
from kperfir.passes.patched import passes_for
from kperfir.passes.user import POINTS

PAGE = Path(__file__).parents[1] / "docs" / "write-a-pass.md"


@triton.jit
def attention_like(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        tl.store(x + i * BLOCK + at, tl.exp(tl.load(x + i * BLOCK + at)))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """All of the page's code as one module."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    yield module_of(PAGE, tmp_path)
    kp.unpatch()


def test_the_pass_records_what_the_page_says(page: ModuleType) -> None:
    kp.patch("exponentials", kernels="attention*")
    signature = {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(attention_like, signature, {(2,): 1024}, {})
    passes = passes_for("attention_like")
    built = compile_instrumented(source, GPUTarget("cuda", 90, 32), {}, Request(()), passes)
    assert {(r.name, r.origin) for r in built.table.regions} == {("exp", "pass"), ("turn", "mark")}
    assert built.kernel.asm["ptx"].count("%clock;") == len(built.table.sites) == 3
    assert passes_for("other") == ()


def test_the_callback_shows_a_launch(page: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import handmade

    path = handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), handmade.block(handmade.LAYOUT))])
    page.shown(kp.load(path).launches[0])
    assert capsys.readouterr().out == "add 0 0\n"


def test_the_page_names_every_point() -> None:
    assert set(re.findall(r"^\| `([\w:-]+)` \|", PAGE.read_text(), re.MULTILINE)) == set(POINTS)
