"""Which scalars of a kernel a record can carry, and their 32 bits. Triton's types are known by their names."""

from __future__ import annotations

import struct
from typing import Any

from kperfir.errors import ScopeError
from kperfir.records import Scalar

_TYPES: dict[str, Scalar] = {"int32": "int32", "uint32": "uint32", "fp32": "float32"}
_CURE = "Give it an int32, uint32 or float32 scalar: convert others with .to(tl.int32) or .to(tl.float32)."


def scalar_type(name: str, x: object) -> Scalar:
    """Type of a scalar of a kernel, or of a number that is known at compile time.

    Raises:
        ScopeError: a record cannot carry it.
    """
    known = getattr(x, "value", x)
    if type(known) is int and -(1 << 31) <= known < 1 << 32:
        return "int32" if known < 1 << 31 else "uint32"
    if type(known) is float:
        return "float32"
    said = str(getattr(x, "type", "")) or repr(known)
    if said not in _TYPES:
        what = "a tensor" if said.startswith("<") or "distributed" in said or hasattr(x, "layout") else "a value"
        raise ScopeError(f"'{name}' cannot carry {what} of {said}: a record has room for a scalar of 32 bits.", _CURE)
    return _TYPES[said]


def held_scalar(x: object, scalar: Scalar, semantic: Any) -> Any:
    """The 32 bits of a scalar as a value of the kernel that is compiled."""
    held = semantic.to_tensor(x).handle
    return semantic.builder.create_bitcast(held, semantic.builder.get_int32_ty()) if scalar == "float32" else held


def known_bits(x: Any, scalar: Scalar) -> int:
    """The 32 bits of a scalar in an interpreted kernel, as a number without sign."""
    known = getattr(x, "value", x)
    handle = getattr(known, "handle", None)
    number = known if handle is None else handle.data.reshape(-1)[0].item()
    form = {"int32": "<i", "uint32": "<I", "float32": "<f"}[scalar]
    return int.from_bytes(struct.pack(form, number), "little")
