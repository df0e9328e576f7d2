"""Tests in Triton's interpreter: `TRITON_INTERPRET=1 pytest tests/interpreted`, a process of its own.

The variable must be set before Triton is imported, so they are skipped in a run without it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="needs TRITON_INTERPRET=1 before Triton is imported"))
