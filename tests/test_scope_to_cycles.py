"""The code of docs/how-a-scope-becomes-cycles.md runs, and gives what the page says."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import handmade
import pytest
import triton
from pages import module_of
from triton.backends.compiler import GPUTarget

PAGE = Path(__file__).parents[1] / "docs" / "how-a-scope-becomes-cycles.md"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """All of the page's code as one module."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    return module_of(PAGE, tmp_path)


def test_from_source_to_instructions(page: ModuleType) -> None:
    built = page.instrumented()
    said = PAGE.read_text()
    assert page.regions(built) == [("body", ("tt.load", "tt.store"))]
    assert page.sites(built) == [(0, "body", "start"), (1, "body", "end")]
    assert page.instructions(built) == (2, 2)
    for value in (page.regions(built), page.sites(built)[0], page.sites(built)[1], page.instructions(built)):
        assert str(value).replace("'", '"') in said
    plain = triton.compile(page.source(), target=GPUTarget("cuda", 90, 32))
    assert "KPERF" not in plain.asm["ttir"] and "%clock" not in plain.asm["ptx"]


def test_from_bytes_to_cycles(page: ModuleType, tmp_path: Path) -> None:
    data = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)])
    path = handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), data)])
    row = {"region": "kernel", "cta": 0, "warp": 0, "start_clock": 1100, "duration_cycles": 800}
    assert page.cycles(path) == [row]
