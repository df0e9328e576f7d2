"""Foreign operations are built past xDSL's own constructor; reading and printing are each other's inverse."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region

from kperfir.errors import IRError
from kperfir.ir.foreign import ForeignOp, append, put_after, put_before, take_place, text_type
from kperfir.ir.kperf import RecordOp
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module

MODULE = """#loc = loc("k.py":1:0)
"builtin.module"() ({
  "tt.func"() <{sym_name = "f"}> ({
  ^bb0(%a: !tt.ptr<f32> loc("a"(#loc)), %kperf.scope3A0.0_5: i32 loc(#loc)):
    %0:2 = "scf.if"(%kperf.scope3A0.0_5) ({
      "scf.yield"(%a, %kperf.scope3A0.0_5) : (!tt.ptr<f32>, i32) -> () loc(#loc)
    }, {
      %1 = "arith.constant"() <{value = ") -> (i32) loc(#loc) : ("}> : () -> i32 loc(#loc)
      "cf.br"()[^bb1] : () -> () loc(#loc)
    ^bb1:  // pred: ^bb0
      "scf.yield"(%a, %1) : (!tt.ptr<f32>, i32) -> () loc(#loc)
    }) {x = 1 : i32} : (i32) -> (!tt.ptr<f32>, i32) loc(callsite(#loc at #loc))
    "tt.store"(%0#0, %0#1) : (!tt.ptr<f32>, i32) -> ()
    "tt.return"() : () -> () loc(#loc)
  }) {noinline = false} : () -> () loc(#loc)
}) : () -> () loc(#loc)
"""


@pytest.mark.parametrize("with_values", [True, False])
def test_round_trip(with_values: bool) -> None:
    assert print_module(read_module(MODULE, with_values)) == MODULE


def test_values_are_linked() -> None:
    ops = {op.opname: op for op in read_module(MODULE).walk()}
    branch, store = ops["scf.if"], ops["tt.store"]
    assert tuple(store.operands) == tuple(branch.results)
    assert [use.operation for use in branch.results[1].uses] == [store]
    assert branch.result_types == (text_type("!tt.ptr<f32>"), text_type("i32"))


@pytest.mark.parametrize("versions", [0, 2])
def test_the_constructor_of_records_sets_what_xdsl_s_own_sets(versions: int) -> None:
    numbers = ForeignOp("a", result_types=[i32] * versions).results
    own, theirs = RecordOp("start", "load", 3, numbers), RecordOp.__new__(RecordOp)
    Operation.__init__(theirs, operands=numbers, properties=own.properties)
    # it leaves out what the class holds empty
    assert {n: v for n, v in theirs.__dict__.items() if n not in own.__dict__} == {
        name: getattr(RecordOp, name) for name in theirs.__dict__.keys() - own.__dict__.keys()
    }
    assert tuple(own.operands) == tuple(theirs.operands) == tuple(numbers) and own.properties == theirs.properties
    own.verify()


@pytest.mark.parametrize("where", ["first", "between", "last"])
def test_operations_are_put_where_xdsl_would_put_them(where: str) -> None:
    block = Block([ForeignOp(name) for name in "ab"])
    first, last = block.ops
    new = ForeignOp("new")
    if where == "last":
        put_after(new, last)
    else:
        put_before(new, {"first": first, "between": last}[where])
    names = {"first": ["new", "a", "b"], "between": ["a", "new", "b"], "last": ["a", "b", "new"]}[where]
    taker = ForeignOp("taker")
    for expected in (names, ["taker" if n == "new" else n for n in names]):
        ops = list(block.ops)
        assert [op.opname for op in ops] == expected  # type: ignore[attr-defined]
        assert [op.opname for op in reversed(block.ops)] == expected[::-1]  # type: ignore[attr-defined]
        assert {op.parent for op in ops} == {block}
        block.verify()
        if new.parent is block:
            take_place(taker, new)
    assert new.parent is None


def test_without_values_nothing_is_linked() -> None:
    assert not any(op.operands or op.results for op in read_module(MODULE, with_values=False).walk())


def test_an_unknown_value_is_named() -> None:
    with pytest.raises(IRError, match=r"%0#3"):
        read_module(MODULE.replace("%0#1", "%0#3"))


def test_the_constructor_sets_what_xdsl_s_own_sets() -> None:
    """A field that a later xDSL adds shows here."""
    i32 = text_type("i32")
    source = ForeignOp("a", result_types=[i32, i32])
    target = Block()
    own = ForeignOp("b", source.results, [i32], regions=[Region(Block())], successors=[target])
    theirs = ForeignOp.__new__(ForeignOp)
    Operation.__init__(theirs, operands=source.results, result_types=[i32], regions=[Region(Block())])
    assert [name for name in vars(theirs) if not hasattr(own, name)] == []
    assert own.results.types == theirs.results.types
    assert [u.index for u in own._operand_uses] == [u.index for u in theirs._operand_uses]
    assert own.regions[0].parent is own
    assert [use.operation for use in target.uses] == [own]


def test_append_is_add_op() -> None:
    block = Block()
    ops = [ForeignOp(name) for name in "abc"]
    for op in ops:
        append(block, op)
    assert list(block.ops) == ops
    assert [op.prev_op for op in ops] == [None, *ops[:2]]
    assert block.last_op is ops[2]
    block.add_op(ForeignOp("d"))
    block.verify()
    assert len(list(block.ops)) == 4
