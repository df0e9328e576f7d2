"""Triton's modules as generic MLIR text, and back.

Triton's wheels print modules in their custom form only. MLIR falls back to the
generic form when a module does not verify, so one block too many is put into the
module while it is printed, and cut out of the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton._C.libtriton import ir

from kperfir.errors import IRError

_EXTRA_BLOCK = re.compile(r"\n\^bb\d+:  // no predecessors\n\}\)")


def generic_text(module: Any) -> str:
    """Print a Triton module (any dialect) in generic form; the module stays as it was.

    Raises:
        IRError: this Triton does not print generically.
    """
    block = ir.builder(module.context).create_block_with_parent(module.get_region(0), [])
    try:
        text = str(module)
    finally:
        block.erase()
    extra = _EXTRA_BLOCK.search(text, text.rfind("\n^bb"))
    if extra is None or '"builtin.module"' not in text:
        raise IRError("Triton's module does not print in generic form.", "Run `kperfir doctor`.")
    return text[: extra.start()] + "\n})" + text[extra.end() :]


def parse_text(text: str, context: Any) -> Any:
    """Read a module from text into a context of Triton's.

    Raises:
        IRError: the text does not parse or does not verify.
    """
    with _readable(text) as path:
        try:
            module = ir.parse_mlir_module(path, context)  # verifies what it reads
        except RuntimeError as error:
            raise IRError(f"Triton cannot read the instrumented module back: {error}") from None
    module.context = context
    return module


@contextmanager
def _readable(text: str) -> Iterator[str]:
    """Triton reads from files only: the path of one in memory that holds the text."""
    file = os.memfd_create("kperfir")
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(text.encode())
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)
