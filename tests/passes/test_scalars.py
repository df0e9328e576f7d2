"""Words with scalars: markers -> stores that Triton's passes see -> records in their place; text in, text out."""

from __future__ import annotations

import pytest

from kperfir.errors import LoweringError
from kperfir.ir.kperf import RecordScalarOp
from kperfir.ir.locations import Locations
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.ir.spelled import read_records, spell_records
from kperfir.markers import marker_text, read_marker
from kperfir.passes.carrier import lower_records
from kperfir.passes.explicit import find_markers
from kperfir.passes.place import place
from kperfir.passes.scalars import has_scalars, take_back
from kperfir.passes.scopes import tag_scopes

HEAD = (
    '#loc = loc(unknown)\n"builtin.module"() ({\n  "tt.func"() <{function_type = (i32, i1) -> (), sym_name = "k"}> ({'
)
FOOT = '    "tt.return"() : () -> () loc(#loc)\n  }) : () -> () loc(#loc)\n}) : () -> () loc(#loc)\n'
SAID = marker_text("value", "a tile", "uint32")
MARKER = (
    f'    %m = "tt.elementwise_inline_asm"(%x) <{{asm_string = "{SAID}", constraints = '
    '"=r,r", packed_element = 1 : i32, pure = false}> : (i32) -> i32 loc("k.py":7:1)'
)
POINTER = (
    f'    %c = "arith.constant"() <{{value = {0x4B504631 << 32} : i64}}> : () -> i64 loc(#loc)\n'
    '    %p = "tt.int_to_ptr"(%c) : (i64) -> !tt.ptr<i32> loc(#loc)'
)
TAG = 'loc("kperf.scalar:value:uint32:a%20tile"("k.py":7:1))'
STORE = f'    "tt.store"(%p, %x) : (!tt.ptr<i32>, i32) -> () {TAG}'
MASKED = f'    "tt.store"(%p, %x, %b) : (!tt.ptr<i32>, i32, i1) -> () {TAG}'
UNTAGGED = '    "tt.store"(%p, %x) : (!tt.ptr<i32>, i32) -> () loc("k.py":8:1)'


def module(*body: str) -> str:
    return "\n".join([HEAD, "  ^bb0(%x: i32 loc(unknown), %b: i1 loc(unknown)):", *body, FOOT])


def test_a_marker_says_what_it_carries() -> None:
    assert read_marker(marker_text("value", 'a "tile"', "float32")) == ("value", 'a "tile"', "float32")
    assert read_marker(marker_text("mark", "here")) == ("mark", "here", None)


def test_before_tritons_passes_it_is_a_store_to_nowhere() -> None:
    read = read_module(module(MARKER), with_values=False)
    assert tag_scopes(read).scopes == ()
    text = print_module(read)
    assert "inline_asm" not in text
    assert '%kperf_address = "tt.int_to_ptr"(%kperf_address_bits) : (i64) -> !tt.ptr<i32>' in text
    assert '"tt.store"(%kperf_address, %x) <{boundaryCheck = array<i32>' in text
    again = read_module(text)
    (store,) = (op for op in again.walk() if op.opname == "tt.store")
    locations = Locations.of(again)
    assert locations.tags(store.location_text) == ("kperf.scalar:value:uint32:a%20tile",)
    assert locations.source(store.location_text) == ("k.py", 7)


@pytest.mark.parametrize(("store", "happens"), [(STORE, "arith.constant"), (MASKED, "arith.extui")])
def test_behind_them_it_is_a_record(store: str, happens: str) -> None:
    read = read_module(module(POINTER, store))
    locations = Locations.of(read)
    assert has_scalars(module(POINTER, store))
    take_back(read, locations)
    scopes, markers = find_markers(read, locations)
    placed = place(read, locations, (), scopes, markers)
    assert [(r.name, r.origin, r.scalar, r.file, r.line) for r in placed.table.regions] == [
        ("a tile", "value", "uint32", "k.py", 7)
    ]
    assert [(s.kind, s.versioned) for s in placed.table.sites] == [("value", False)]
    (record,) = (op for op in read.root.walk() if isinstance(op, RecordScalarOp))
    assert record.happens.owner.opname == happens  # type: ignore[union-attr]
    text = spell_records(read)
    assert "int_to_ptr" not in text and "tt.store" not in text
    assert '"kperf.record_scalar"(%x, %kperf_' in text and "#kperf<kind value>" in text
    again = read_module(text)
    read_records(again)
    assert lower_records(again) == 1
    assert '"// KPERF<0 value+ a%20tile>", constraints = "=r,r,r"' in print_module(again)


def test_a_store_whose_tag_was_lost_is_refused() -> None:
    read = read_module(module(POINTER, UNTAGGED))
    with pytest.raises(LoweringError, match=r"kl\.value"):
        take_back(read, Locations.of(read))


def test_where_sums_are_kept_the_user_is_told() -> None:
    read = read_module(module(POINTER, STORE))
    locations = Locations.of(read)
    take_back(read, locations)
    placed = place(read, locations, ("kernel",), *find_markers(read, locations), holds_scalars=False)
    assert [(f.code, f.where) for f in placed.findings] == [("no-scalar", "'a tile', k.py:7")]
    assert not any(isinstance(op, RecordScalarOp) for op in read.root.walk())
