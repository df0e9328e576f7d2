"""Values of a function that is read without values, by their names, which are unique in it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

from kperfir.ir.foreign import ForeignOp

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_FLOAT = re.compile(r"\b(?:\d+x)*(?:bf16|tf32|f\d+)")
_PURE = (
    *("arith.", "math.", "tt.splat", "tt.make_range", "tt.expand_dims", "tt.broadcast", "tt.addptr", "tt.reshape"),
    *("tt.trans", "tt.bitcast", "tt.fp_to_fp", "tt.ptr_to_int", "tt.int_to_ptr", "tt.get_program_id", "tt.dot"),
)
_READS = ("tt.load", "tt.descriptor_load")


def first_equals(ops: Sequence[ForeignOp]) -> dict[ForeignOp, ForeignOp]:
    """Each operation that computes what an earlier one does -> the first such one.

    As common-subexpression elimination sees it: reads of memory are the same as long as nothing
    that may write, loops and branches included, lies between.
    """
    numbers: dict[str, Hashable] = {}
    first: dict[Hashable, ForeignOp] = {}
    found: dict[ForeignOp, ForeignOp] = {}
    writes = 0
    for op in ops:
        reads = op.opname in _READS
        if op.regions or not (reads or op.opname.startswith(_PURE)):
            writes += 1
            continue
        operands = tuple(numbers.get(name, name) for name in _VALUE.findall(op.operands_text))
        form = (op.opname, op.properties_text, op.attributes_text, op.signature_text)
        key = (*form, operands, writes if reads else None)
        earlier = first.setdefault(key, op)
        if earlier is not op:
            found[op] = earlier
        if len(op.result_names) == 1:
            numbers[op.result_names[0]] = id(earlier)
    return found


def users_by_name(ops: Iterable[ForeignOp]) -> dict[str, list[ForeignOp]]:
    """Name of a value, without its number among the results -> operations that take it."""
    users: dict[str, list[ForeignOp]] = {}
    for op in ops:
        for name in _VALUE.findall(op.operands_text):
            users.setdefault(name.partition("#")[0], []).append(op)
    return users


def unused_integers(ops: Sequence[ForeignOp]) -> frozenset[ForeignOp]:
    """Integer arithmetic that nothing uses, such as the checks for overflow that Triton's frontend writes."""
    used: set[str] = set()
    unused: set[ForeignOp] = set()
    for op in reversed(ops):
        integer = op.opname.startswith("arith.") and not _FLOAT.search(op.signature_text)
        if integer and not any(name.partition(":")[0] in used for name in op.result_names):
            unused.add(op)
        else:
            used.update(name.partition("#")[0] for name in _VALUE.findall(op.operands_text))
    return frozenset(unused)
