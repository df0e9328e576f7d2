"""What NVIDIA's tools, which Triton's wheel brings along, say of a binary."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import triton

from kperfir.errors import BridgeError

_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def disassembled(cubin: bytes) -> str:
    """SASS, one instruction a line.

    Raises:
        BridgeError: the tool is missing or fails.
    """
    return _said(cubin, "nvdisasm", "-c")


def _said(cubin: bytes, name: str, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(_TOOLS / name), *options, file.name]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except FileNotFoundError:
            raise BridgeError(f"Triton's wheel has no {name} in {_TOOLS}.", "Install a wheel from PyPI.") from None
        except subprocess.CalledProcessError as error:
            said = " ".join(error.stderr.split())[:200]
            raise BridgeError(f"{name} cannot read the binary: {said}", "Please report the kernel.") from None
