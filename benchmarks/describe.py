"""What a result was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import triton

import kperfir


def gpu() -> dict[str, Any]:
    """Commit, versions, device and its clocks."""
    return _versions() | {"device": torch.cuda.get_device_name(), "clocks": _clocks()}


def machine() -> dict[str, Any]:
    """Commit, versions and processor, for what needs no GPU."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return _versions() | {"processor": names[0] if names else platform.processor(), "cores": os.cpu_count()}


def _versions() -> dict[str, Any]:
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "kperfir": kperfir.__version__,
        "triton": triton.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _commit() -> str:
    """From git, or from the variable COMMIT where a copy without history runs."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    found = os.environ.get("COMMIT")
    return found or subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _clocks() -> str:
    command = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.max.sm,power.limit,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
