"""A folder imports earlier stages of the flow only, and Triton and torch stay where they belong."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "kperfir"
ORDER = (
    "errors", "version", "notes", "records", "fidelity", "windows", "markers", "plan", "language", "ir", "passes",
    "targets", "capture", "bridge", "trace", "analysis", "export", "opened", "deliver", "session", "cli",
)  # fmt: skip
FREE_OF_TRITON = (
    "errors",
    "version",
    "notes",
    "records",
    "fidelity",
    "windows",
    "markers",
    "plan",
    "language",
    "ir",
    "passes",
    "targets",
    "capture",
    "trace",
    "analysis",
    "export",
    "opened",
    "deliver",
)


def _imports(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def violations(layer: str, text: str) -> list[str]:
    """Imports of a file in `layer` that its place does not allow."""
    wrong = []
    for name in _imports(text):
        parts = name.split(".")
        if parts[0] in ("triton", "torch") and layer in FREE_OF_TRITON:
            wrong.append(name)
        known = parts[0] == "kperfir" and len(parts) > 1 and parts[1] in ORDER
        if known and ORDER.index(parts[1]) > ORDER.index(layer):
            wrong.append(name)
    return wrong


FILES = [p for p in sorted(ROOT.rglob("*.py")) if p.relative_to(ROOT).parts[0] not in ("__init__.py", "__main__.py")]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_back_only(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert layer in ORDER
    assert violations(layer, path.read_text()) == []


def test_a_planted_violation_is_found() -> None:
    assert violations("ir", "from kperfir.bridge.text import generic_text") == ["kperfir.bridge.text.generic_text"]
    assert violations("trace", "import torch") == ["torch"]


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by name alone."""
    names = [p.name for p in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
