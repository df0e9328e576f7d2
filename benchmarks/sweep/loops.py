"""Is a kernel instrumented? Read from its TTGIR, not from the table that kperfir wrote with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend

from kperfir.bridge.text import generic_text, parse_text
from kperfir.ir.chunks import PREFIX
from kperfir.ir.foreign import ForeignOp
from kperfir.ir.reader import read_module

LOOPS = frozenset({"scf.for", "scf.while"})
# loads, stores and dots, by words in their names; shared and tensor memory are left out
_DIALECTS = ("tt.", "ttg.", "ttng.", "amdg.")
_COPIES = ("global_to_local", "local_to_global", "_gather", "_scatter", "tma_reduce", "descriptor_reduce")
_WORK = ("load", "store", "dot", "mma", "atomic", *_COPIES)
_NOT_WORK = (".local_", ".tmem_", "_wait")


def unrecorded(kernel: Any) -> tuple[int, list[str]]:
    """How many loops hold a load, store or dot, and what is wrong: loops without a record of their own, a bare kernel.

    A loop's own operations are those that lie in no loop inside it.
    """
    ops = [op for op in _module(kernel).walk() if isinstance(op, ForeignOp)]
    working = [(op, work) for op in ops if op.opname in LOOPS and (work := _work(op))]
    bare = [f"{op.opname} with {', '.join(work)}" for op, work in working if not any(map(_is_record, _own(op)))]
    if not any(map(_is_record, ops)):
        bare.append("no record in the kernel")
    return len(working), bare


def _module(kernel: Any) -> Any:
    context = ir.context()
    ir.load_dialects(context)
    make_backend(kernel.metadata.target).load_dialects(context)
    return read_module(generic_text(parse_text(kernel.asm["ttgir"], context)))


def _own(loop: ForeignOp) -> Iterator[ForeignOp]:
    for region in loop.regions:
        for block in region.blocks:
            for op in block.ops:
                if isinstance(op, ForeignOp):
                    yield op
                    if op.opname not in LOOPS:
                        yield from _own(op)


def _work(loop: ForeignOp) -> list[str]:
    return sorted({op.opname for op in _own(loop) if _is_work(op.opname)})


def _is_work(name: str) -> bool:
    return (
        name.startswith(_DIALECTS)
        and any(word in name for word in _WORK)
        and not any(word in name for word in _NOT_WORK)
    )


def _is_record(op: ForeignOp) -> bool:
    return op.opname == "tt.elementwise_inline_asm" and PREFIX in op.properties_text
