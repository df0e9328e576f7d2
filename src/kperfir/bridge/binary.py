"""What a binary says of itself, by NVIDIA's tools, which Triton's wheel brings along, or by AMD's metadata."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass

from triton import knobs

from kperfir.errors import BridgeError

_SASS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)
_GCN = re.compile(r"^\t([a-z]\w+)", re.MULTILINE)
_PADDING = ("s_nop", "s_code_end")
_AMD_FIELD = re.compile(r"^ +\.(vgpr_count|sgpr_count|private_segment_fixed_size): +(\d+)", re.MULTILINE)


def disassembled(cubin: bytes, with_lines: bool = False) -> str:
    """SASS, one instruction a line; with the source lines, as `kperfir.targets.sass` reads them, above.

    Raises:
        BridgeError: the tool is missing or fails.
    """
    return _said(cubin, "nvdisasm", "-c", *(["-gi"] if with_lines else []))


def _said(cubin: bytes, name: str, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_tool(name), *options, file.name]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except subprocess.CalledProcessError as error:
            said = " ".join(error.stderr.split())[:200]
            raise BridgeError(f"{name} cannot read the binary: {said}", "Please report the kernel.") from None


def _tool(name: str) -> str:
    """Triton's own way to find it: a variable of the environment, else the wheel."""
    try:
        return str(getattr(knobs.nvidia, name).path)
    except RuntimeError:
        cure = f"Name it in TRITON_{name.upper()}_PATH, or install Triton's wheel from PyPI."
        raise BridgeError(f"There is no {name}, neither in Triton's wheel nor in the environment.", cure) from None


@dataclass(frozen=True)
class Usage:
    """What a binary says of itself; the fields are those of `kperfir.bridge.cost.Cost`."""

    registers: int
    scalar_registers: int | None
    local_bytes: int
    code_bytes: int
    instructions: int


def nvidia_usage(cubin: bytes) -> Usage:
    """Of a cubin.

    Raises:
        BridgeError: a tool is missing or fails.
    """
    usage = _said(cubin, "cuobjdump", "-res-usage")
    registers = max(map(int, re.findall(r"\bREG:(\d+)", usage)))
    local_bytes = max(map(int, re.findall(r"\b(?:STACK|LOCAL):(\d+)", usage)))
    instructions = [op for op in _SASS.findall(disassembled(cubin)) if op != "NOP"]
    return Usage(registers, None, local_bytes, text_bytes(cubin), len(instructions))


def amd_usage(assembly: str, hsaco: bytes) -> Usage:
    """Of an AMD kernel: its assembly's metadata, and the binary."""
    fields = {name: int(value) for name, value in _AMD_FIELD.findall(assembly)}
    instructions = [op for op in _GCN.findall(assembly.partition(".amdhsa_kernel")[0]) if op not in _PADDING]
    return Usage(
        fields["vgpr_count"],
        fields["sgpr_count"],
        fields["private_segment_fixed_size"],
        text_bytes(hsaco),
        len(instructions),
    )


def text_bytes(elf: bytes) -> int:
    """Size of the text sections of a 64-bit little-endian ELF file (its layout: `man 5 elf`)."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", elf, table + i * entry) for i in range(count)]
    name_table = sections[names][4]
    return sum(size for name, _, _, _, _, size in sections if elf.startswith(b".text", name_table + name))
