"""Numbers of turns: the arithmetic that goes into a loop, done by hand, against what Python's range does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kperfir.errors import PlanError
from kperfir.ir.foreign import ForeignOp, walk
from kperfir.ir.locations import Locations
from kperfir.ir.reader import read_module
from kperfir.passes.iterations import IterationNumbers
from kperfir.passes.place import Placed, place
from kperfir.passes.places import RecordPlaces
from kperfir.passes.tables import TableBuilder
from kperfir.plan import Plan

KERNEL = """"builtin.module"() ({{
  "tt.func"() <{{sym_name = "k", sym_visibility = "public"}}> ({{
  ^bb0(%lower: {kind}, %upper: {kind}, %step: {kind}):
{body}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()"""
FOR = """    "scf.for"(%lower, %upper, %step) ({{
    ^bb1(%i: {kind}):
{body}
      "scf.yield"() : () -> ()
    }}) : ({kind}, {kind}, {kind}) -> ()"""
WHILE = """    "scf.while"() ({{
      "scf.condition"(%lower) : ({kind}) -> ()
    }}, {{
{body}
      "scf.yield"() : () -> ()
    }}) : () -> () loc("k.py":7:1)"""
LOAD = '      "tt.load"() : () -> () loc("k.py":8:1)'


def module(*shapes: str, kind: str = "i32") -> Any:
    body = LOAD
    for n, shape in enumerate(reversed(shapes)):
        body = shape.format(kind=kind, body=body).replace("^bb1", f"^bb{n + 1}").replace("%i", f"%i{n}")
    return read_module(KERNEL.format(kind=kind, body=body))


def computed(loop: ForeignOp, values: dict[Any, int], wanted: Any) -> list[int]:
    """Numbers that the operations of a loop's body define."""
    meaning = {
        "arith.subi": lambda a, b: a - b,
        "arith.divsi": lambda a, b: a // b,
        "arith.constant": lambda: 1,
        "arith.trunci": lambda a: a,
        "arith.index_cast": lambda a: a,
    }
    values = dict(values)
    for op in loop.regions[-1].blocks[0].ops:
        if op.opname in meaning:  # type: ignore[attr-defined]
            values[op.results[0]] = meaning[op.opname](*(values[o] for o in op.operands))  # type: ignore[attr-defined]
    return [values[value] for value in wanted]


@pytest.mark.parametrize("kind", ["i32", "i64", "index"])
@given(st.integers(-20, 20), st.integers(-20, 60), st.integers(1, 7))
def test_the_number_of_a_turn_and_of_those_left(kind: str, lower: int, upper: int, step: int) -> None:
    text = module(FOR, kind=kind)
    loop = next(op for op in walk(text.root) if op.opname == "scf.for")
    numbers = IterationNumbers(count_left=True)
    wanted = numbers.of(loop)
    assert numbers.of(loop) == wanted and all(str(w.type) == "i32" or w.type.data == "i32" for w in wanted)
    turns = range(lower, upper, step)
    for turn, variable in enumerate(turns):
        values = dict(
            zip((*loop.operands, loop.regions[0].blocks[0].args[0]), (lower, upper, step, variable), strict=True)
        )
        assert computed(loop, values, wanted) == [turn, len(turns) - 1 - turn]


def placed(*shapes: str, turns: IterationNumbers) -> tuple[Placed, list[str]]:
    """And for each record in the innermost loop the depth of the loop that its first number is computed in."""
    text = module(*shapes)
    loops = [op for op in walk(text.root) if op.opname in ("scf.for", "scf.while")]
    done = place(text, Locations.of(text), ("load",), turns=turns)
    depths = []
    for op in text.root.walk():
        if op.name == "kperf.record":
            owner = op.operands[0].owner.parent_op() if op.operands else None
            depths.append(str(loops.index(owner)) if owner else "none")
    return done, depths


def test_records_go_by_the_innermost_loop() -> None:
    done, depths = placed(FOR, FOR, turns=IterationNumbers())
    assert depths == ["1", "1"] and done.findings == ()


def test_tiles_go_by_the_outermost_loop() -> None:
    for shapes in ((FOR, FOR), (FOR, WHILE), (FOR, WHILE, FOR)):
        done, depths = placed(*shapes, turns=IterationNumbers(of_outermost=True))
        assert depths == ["0", "0"] and done.findings == ()


def test_in_an_outermost_loop_that_does_not_count_there_are_no_tiles() -> None:
    done, depths = placed(WHILE, FOR, turns=IterationNumbers(of_outermost=True))
    assert depths == ["none", "none"]
    (finding,) = done.findings
    assert "written in each turn, without its number" in finding.what


@pytest.mark.parametrize("shapes", [(), (FOR,), (WHILE,), (FOR, FOR), (FOR, WHILE), (WHILE, FOR), (FOR, WHILE, FOR)])
@pytest.mark.parametrize("of_outermost", [False, True])
@pytest.mark.parametrize("count_left", [False, True])
def test_records_of_passes_go_by_the_turns_that_those_of_rules_go_by(
    shapes: tuple[str, ...], of_outermost: bool, count_left: bool
) -> None:
    def turns() -> IterationNumbers:
        return IterationNumbers(count_left, of_outermost)

    def asked(text: Any) -> list[list[tuple[int, int]]]:
        """Of each record the numbers, each by its loop and its place in it."""
        loops = [op for op in walk(text.root) if op.opname in ("scf.for", "scf.while")]
        records = [op for op in text.root.walk() if op.name == "kperf.record"]
        return [
            [(loops.index(n.owner.parent_op()), list(n.owner.parent.ops).index(n.owner)) for n in record.operands]
            for record in records
        ]

    text, done = module(*shapes), module(*shapes)
    load = next(op for op in walk(text.root) if op.opname == "tt.load")
    RecordPlaces(TableBuilder(), turns()).span(load, load, "mine", "sync", ("k.py", 8))
    place(done, Locations.of(done), ("load",), turns=turns())
    assert asked(text) == asked(done) and len(asked(text)) == 2


@pytest.mark.parametrize(
    ("shapes", "depths", "words"),
    [
        ((WHILE,), ["none"] * 2, "written in each turn, without its number"),
        ((FOR, WHILE), ["0"] * 2, "go by the turn of the loop around it"),
    ],
)
def test_turns_of_a_while_loop_are_not_counted_which_is_said(
    shapes: tuple[str, ...], depths: list[str], words: str
) -> None:
    done, found = placed(*shapes, turns=IterationNumbers(count_left=True))
    assert found == depths
    (finding,) = done.findings
    assert finding.where == "k.py:7" and words in finding.what


def test_a_while_loop_is_no_matter_where_nobody_asks_for_turns() -> None:
    text = module(WHILE)
    assert place(text, Locations.of(text), ("load",)).findings == ()


@pytest.mark.parametrize("name", ["launches", "ctas", "sms", "warps"])
def test_the_last_of_what_has_no_known_end_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=f"Which {name} are the last is not known"):
        Plan.make("auto", **{name: "0+last-8"})
    assert str(Plan.make("auto", iterations="0-7+last-8").iterations) == "0-7+last-8"
