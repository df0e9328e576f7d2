"""Carry the scalar of a word such as `kl.value` through Triton's passes: as a store that is taken back.

Before Triton's passes a marker with a scalar becomes

    tt.store %kperf_address, %scalar      location tag kperf.scalar:<kind>:<type>:<percent-encoded name>

to an address that is none. Schedulers know what to do with a store: it stays in its turn
of its loop, and gets a mask in turns that a pipeliner adds. An inline assembly with a side
effect would not do: Triton 3.6 ends the process where it has to predicate one, and 3.9
runs it in turns that never are. Behind the passes each store becomes a marker again, in
its place; its mask says whether there is anything to record.
"""

from __future__ import annotations

from typing import cast
from urllib.parse import quote, unquote

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from kperfir.errors import LoweringError
from kperfir.ir.foreign import ForeignModule, ForeignOp, put_before, text_type
from kperfir.ir.locations import Locations
from kperfir.markers import MarkerKind, Word, marker_text
from kperfir.passes.context import origin
from kperfir.records import Scalar

_TAG = "kperf.scalar:"
_ADDRESS = "%kperf_address"
_NOWHERE = 0x4B50_4631_0000_0000
_STORE = " <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>"


def to_store(marker: ForeignOp, word: Word, locations: Locations) -> None:
    """Replace a marker in a module that was read without values; its function needs `give_address`."""
    tag = f"{_TAG}{word.kind}:{word.scalar}:{quote(word.name, safe='')}"
    store = ForeignOp(
        "tt.store",
        properties_text=_STORE,
        location_text=locations.tag(marker.location_text, tag),
        signature_text=" : (!tt.ptr<i32>, i32) -> ()",
        operands_text=f"{_ADDRESS}, {marker.operands_text}",
    )
    put_before(store, marker)
    Rewriter.erase_op(marker, safe_erase=False)


def give_address(function: ForeignOp) -> None:
    """Define at a function's entry the address that its stores name; the module was read without values."""
    entry = function.regions[0].blocks[0].first_op
    assert entry is not None
    for op, result, value, signature, operand in (
        ("arith.constant", f"{_ADDRESS}_bits", f" <{{value = {_NOWHERE} : i64}}>", "() -> i64", ""),
        ("tt.int_to_ptr", _ADDRESS, "", "(i64) -> !tt.ptr<i32>", f"{_ADDRESS}_bits"),
    ):
        made = ForeignOp(
            op,
            properties_text=value,
            location_text=function.location_text,
            result_names=(result,),
            signature_text=f" : {signature}",
            operands_text=operand,
        )
        put_before(made, entry)


def is_carrier(op: ForeignOp) -> bool:
    """Whether an operation of a module that was read without values is there for a scalar's sake."""
    return op.operands_text.startswith(_ADDRESS) or op.result_names[:1] in ((_ADDRESS,), (f"{_ADDRESS}_bits",))


def has_scalars(text: str) -> bool:
    """Whether a module's text in TTGIR holds a store that carries a scalar."""
    return _TAG in text or f"value = {_NOWHERE} : i64" in text


def take_back(module: ForeignModule, locations: Locations) -> None:
    """Make markers of the stores in TTGIR, which was read with its values.

    Raises:
        LoweringError: a store to nowhere is left over.
    """
    for op in list(module.walk()):
        if op.opname != "tt.store":
            continue
        tag = next((t for t in locations.tags(op.location_text) if t.startswith(_TAG)), None)
        if tag is not None:
            _to_marker(op, tag)
        elif _is_nowhere(op.operands[0]):
            what = "What it carries by a word of kl was merged with something else by Triton."
            raise LoweringError(what, "Leave kl.value out of it, and please report the kernel.")
    _erase_addresses(module)


def written(marker: ForeignOp) -> tuple[SSAValue, SSAValue]:
    """A marker's scalar, and a number that is 0 where there is nothing to record; in Gluon there always is."""
    if len(marker.operands) > 1:
        return marker.operands[0], marker.operands[1]
    return marker.operands[0], _always(marker)


def _to_marker(store: ForeignOp, tag: str) -> None:
    kind, scalar, name = tag.removeprefix(_TAG).split(":")
    word = Word(cast(MarkerKind, kind), unquote(name), cast(Scalar, scalar))
    happens = _widened(store, store.operands[2]) if len(store.operands) > 2 else _always(store)
    text = f' <{{asm_string = "{marker_text(*word)}", constraints = "=r,r,r", packed_element = 1 : i32, pure = false}}>'
    operands = [store.operands[1], happens]
    marker = ForeignOp("tt.elementwise_inline_asm", operands, [text_type("i32")], text, store.location_text)
    Rewriter.replace_op(store, marker, [])


def _widened(store: ForeignOp, mask: SSAValue) -> SSAValue:
    return _before(store, ForeignOp("arith.extui", [mask], [text_type("i32")], "", store.location_text))


def _always(beside: ForeignOp) -> SSAValue:
    one = ForeignOp("arith.constant", [], [text_type("i32")], " <{value = 1 : i32}>", beside.location_text)
    return _before(beside, one)


def _before(op: ForeignOp, made: ForeignOp) -> SSAValue:
    put_before(made, op)
    return made.results[0]


def _is_nowhere(pointer: SSAValue) -> bool:
    made_by = origin(pointer)
    if made_by is None or made_by.opname != "tt.int_to_ptr":
        return False
    bits = origin(made_by.operands[0])
    return bits is not None and f"value = {_NOWHERE} : i64" in bits.properties_text


def _erase_addresses(module: ForeignModule) -> None:
    """Take out what nobody stores to any more."""
    for op in list(module.walk()):
        if op.opname == "tt.int_to_ptr" and _is_nowhere(op.results[0]) and not any(op.results[0].uses):
            Rewriter.erase_op(op)
