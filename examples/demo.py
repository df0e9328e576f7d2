"""Records a flash-attention forward and a pipelined matmul, prints the report, writes a timeline.

On a machine with a GPU the kernels run there; without one, in Triton's interpreter.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUTPUT = HERE.parent / "demo-out"


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    capture, timeline = OUTPUT / "demo.kperf", OUTPUT / "demo.json"
    _kperfir("record", "-o", str(capture), str(HERE / "kernels.py"))
    _kperfir("report", str(capture))
    _kperfir("export", str(capture), "-o", str(timeline))
    print(f"Open {timeline} in https://ui.perfetto.dev")


def _kperfir(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "kperfir", *arguments], check=True)


if __name__ == "__main__":
    main()
