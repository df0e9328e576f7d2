"""What records add to the code of the corpus's kernels: instructions a record, and registers. No GPU is needed.

    python benchmarks/code_cost.py benchmarks/results/code-cost.json

Writes the figures of this Triton into OUTPUT.json and leaves those of others there as they are. The tests
(`tests/bridge/test_corpus.py`) compare what they compile with the committed file, so that a record that
becomes dearer is seen before any GPU is. Of sm_100 older versions of ptxas make other code each time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from describe import machine

CORPUS = Path(__file__).parent.parent / "tests" / "corpus" / "compile_all.py"
TARGETS = (("cuda", "80"), ("cuda", "90"), ("cuda", "100"), ("hip", "gfx942"))


def main(output: Path) -> None:
    results = json.loads(output.read_text()) if output.exists() else {}
    targets = {f"{backend}:{arch}": _costs(backend, arch) for backend, arch in TARGETS}
    results[triton.__version__] = machine() | {"targets": targets}
    output.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def _costs(backend: str, arch: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_FP_FUSION": "1"}
        command = [sys.executable, "-W", "ignore", str(CORPUS), backend, arch]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line["cost"] for line in lines if "cost" in line}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
