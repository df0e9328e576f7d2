"""Makes the captures beside it, on an NVIDIA GPU: a kernel without a loop, and rings that wrap.

python tests/data/make.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from runs import runs

import kperfir as kp


def main(folder: Path) -> None:
    for run in runs(0, small=True):
        if run.name in ("softmax", "layernorm"):
            run.launch()
            with kp.record(folder / f"{run.name}.kperf", slots=32, buffer="global", first=1, every=0):
                run.launch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
