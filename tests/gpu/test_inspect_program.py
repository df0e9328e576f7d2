"""`kperfir inspect` of a program that launches, against what the driver says of the loaded kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 2)

x = torch.ones(4096, device="cuda")
kernel = double[(4,)](x, 1024)
assert x.sum().item() == 8192
print("driver", kernel.n_regs)
"""


def test_kernels_that_a_program_launches(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "kperfir", "inspect", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_driver = re.search(r"driver (\d+)", done.stdout)
    shown = re.search(r"registers +(\d+) +(\d+)", done.stdout)
    assert of_driver and shown and shown.group(1) == of_driver.group(1)
    assert done.stdout.count("instructions a record") == 1
