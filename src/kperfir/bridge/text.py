"""Triton's modules as generic MLIR text, and back.

Triton's wheels print modules in their custom form only. MLIR falls back to the
generic form when a module does not verify, so one block too many is put into the
module while it is printed, and cut out of the text.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
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
    text, cuts = _EXTRA_BLOCK.subn("\n})", text)
    if cuts != 1 or '"builtin.module"' not in text:
        raise IRError("Triton's module does not print in generic form.", "Run `kperfir doctor`.")
    return text


def parse_text(text: str, context: Any) -> Any:
    """Read a module from text into a context of Triton's.

    Raises:
        IRError: the text does not parse or does not verify.
    """
    with tempfile.TemporaryDirectory(prefix="kperfir-") as folder:
        path = Path(folder) / "module.mlir"
        path.write_text(text, encoding="utf-8")
        try:
            module = ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            raise IRError(f"Triton cannot read the instrumented module back: {error}") from None
    module.context = context
    if not module.verify():
        raise IRError("The instrumented module does not verify.")
    return module
