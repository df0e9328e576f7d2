"""Reading needs neither Triton nor torch, nor anything of the compile half."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import handmade

PROGRAM = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("triton", "torch", "xdsl"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
import kperfir
trace = kperfir.load(sys.argv[1])
print(trace.summary())
for suffix in ("json", "json.gz", "csv", "parquet", "arrow"):
    trace.export(f"{sys.argv[1]}.{suffix}")
assert trace.events().num_rows == 4
assert not {"triton", "torch", "xdsl"} & set(sys.modules)
try:
    import triton
except ModuleNotFoundError:
    print("blocked")
"""


def test_a_capture_is_read_summarised_and_exported(tmp_path: Path) -> None:
    data = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900, (1200, 1300))] * 2)
    path = handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), data)])
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "kernel" in run.stdout
    assert run.stdout.endswith("blocked\n")
