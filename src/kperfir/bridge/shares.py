"""The shares of a built kernel: disassembles its binary once, or says why there are none."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kperfir.bridge.binary import disassembled
from kperfir.bridge.build import Twin
from kperfir.capture.schema import Shares
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import BridgeError
from kperfir.fidelity import Kept
from kperfir.records import Table
from kperfir.targets.shares import has_site_lines, shares

_NO_LINES = "the binary has no line info. Take TRITON_DISABLE_LINE_INFO out of the environment"
_MOST_SECONDS = 10.0
_TOO_LATE = "closing the recording had taken 10 s; `kperfir inspect` looks at one kernel"


def write_shares(writer: CaptureWriter, built: Iterable[tuple[int, Twin]]) -> None:
    """Write those of kernels that were recorded, for some seconds at most: a program may have hundreds.

    Args:
        built: id of each kernel in the capture, and its twin.
    """
    until = time.monotonic() + _MOST_SECONDS
    for id_, twin in built:
        if twin.kernel is None or not twin.fidelity:
            continue
        if time.monotonic() > until:
            writer.write(Shares(id_, absent=_TOO_LATE))
            continue
        try:
            found = shares_of(
                id_, twin.kernel.metadata.target.backend, twin.kernel.asm.get("cubin", b""), twin.fidelity, twin.table
            )
        except Exception as error:  # the recording is sound without
            found = Shares(id_, absent=f"reading them failed with {type(error).__name__}; please report the kernel")
        writer.write(found)


def shares_of(id_: int, backend: str, binary: bytes, kept: tuple[Kept, ...], table: Table) -> Shares:
    """Where the instructions of scopes and rules lie.

    Args:
        id_: of the kernel. backend: "cuda" or "hip". binary: a cubin; not read for other backends.
        kept: what became of scopes and rules in IR. table: of the records in the binary.
    """
    if backend != "cuda":
        return Shares(id_, absent="instructions are read of NVIDIA's binaries only")
    try:
        text = disassembled(binary, with_lines=True)
    except BridgeError as error:
        return Shares(id_, absent=f"{error.what.rstrip('.')}. {error.cure}".rstrip(". "))
    if not has_site_lines(text):
        return Shares(id_, absent=_NO_LINES)
    return Shares(id_, shares(text, kept, table))
