"""Compiles the kernels beside it for one target after another; prints what their binaries hold as JSON.

python compile_all.py 80 90 ...
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from gluon_kernels import gluon_cases
from kernels import attention, matmul
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from words_kernels import words_cases

NVDISASM = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
_LINES = re.compile(r"^[ \t]*(?:\.loc|\.file|//)[^\n]*\n", re.MULTILINE)


def main(targets: list[int]) -> None:
    found: dict[str, dict[str, str]] = {}
    for arch in targets:
        for name, (source, options) in (words_cases() | example_cases() | gluon_cases(arch)).items():
            built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
            found[f"{name} sm_{arch}"] = {
                "cubin": hashlib.sha256(built.asm["cubin"]).hexdigest(),
                "sass": disassembled(built.asm["cubin"]),
                "ptx": code_of(built.asm["ptx"]),
            }
    print(json.dumps(found))


def example_cases() -> dict[str, tuple[ASTSource, dict[str, Any]]]:
    heads = {name: "*fp16" for name in ("q_ptr", "k_ptr", "v_ptr", "o_ptr")} | {"scale": "fp32"}
    flash = _source(attention, heads, {"CTX": 1024, "BM": 64, "BN": 64, "D": 64})
    matrices = {name: "*fp16" for name in ("a_ptr", "b_ptr", "c_ptr")} | dict.fromkeys("MNK", "i32")
    product = _source(matmul, matrices, {"BM": 64, "BN": 64, "BK": 32})
    return {"attention": (flash, {"num_stages": 3}), "matmul": (product, {"num_stages": 3})}


def _source(fn: Any, signature: dict[str, str], constants: dict[str, int]) -> ASTSource:
    values = {(fn.arg_names.index(name),): value for name, value in constants.items()}
    divisible = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(fn.arg_names) if n not in constants | {"scale": 0}
    }
    return ASTSource(fn, signature | dict.fromkeys(constants, "constexpr"), values, divisible)


def code_of(ptx: str) -> str:
    """PTX without line information: its directives, and the sections behind the code."""
    return _LINES.sub("", ptx.partition("\t.section\t.debug")[0])


def disassembled(cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([NVDISASM, "-c", file.name], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]])
