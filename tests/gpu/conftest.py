"""Tests that run only on an NVIDIA GPU; elsewhere they are skipped, and say so.

With RESULTS=file.json in the environment, what they ran on and the outcome of each are written there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "corpus")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = _missing()
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing() -> str:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.is_available() else "there is no GPU"


_outcomes: dict[str, Any] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.skipped:
        outcome = {"outcome": report.outcome, "seconds": round(report.duration, 2)}
        _outcomes[report.nodeid] = outcome | ({"why": report.longrepr[2]} if report.skipped else {})


def pytest_sessionfinish() -> None:
    if "RESULTS" in os.environ and not _missing():
        from describe import gpu

        Path(os.environ["RESULTS"]).write_text(json.dumps(gpu() | {"tests": _outcomes}, indent=1))
