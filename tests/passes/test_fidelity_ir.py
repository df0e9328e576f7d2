"""What became of a scope's operations: two modules in text in, counts out; wrong counts beside."""

from __future__ import annotations

from typing import Any

import pytest

from kperfir.fidelity import Fate, Kept
from kperfir.ir.locations import Locations
from kperfir.ir.reader import read_module
from kperfir.passes.fidelity import found_operations, held_operations, kept_of
from kperfir.passes.place import place
from kperfir.passes.scopes import Scope

A, B = "kperf.scope:0.0", "kperf.scope:1.0"
SCOPES = (Scope(0, "a", "k.py", 1), Scope(1, "b", "k.py", 2))


def at(line: int, *tags: str) -> str:
    location = f'"k.py":{line}:1'
    for tag in reversed(tags):
        location = f'"{tag}"({location})'
    return f"loc({location})"


def op(name: str, line: int, *tags: str, result: str = "", operands: str = "", kind: str = "f32") -> str:
    left = f"%{result} = " if result else ""
    return f'    {left}"{name}"({operands}) : () -> {kind if result else "()"} {at(line, *tags)}'


def load(line: int, *tags: str) -> str:
    return op("tt.load", line, *tags, result=f"l{line}", operands="%p")


def loop(*body: str) -> str:
    return "\n".join(['    "scf.for"() ({', *body, '      "scf.yield"() : () -> ()', "    }) : () -> ()"])


def kernel(*body: str, name: str = "k", visibility: str = "public") -> str:
    head = f'  "tt.func"() <{{sym_name = "{name}", sym_visibility = "{visibility}"}}> ({{'
    return "\n".join([head, *body, '    "tt.return"() : () -> ()', "  }) : () -> ()"])


def module(*functions: str) -> str:
    return "\n".join(['"builtin.module"() ({', *functions, "}) : () -> ()"])


def compare(before: str, after: str, regions: tuple[str, ...] = (), scopes: tuple[Scope, ...] = SCOPES) -> list[Kept]:
    """Both are texts of modules; records are placed in the second as a compile does."""
    source = read_module(before, with_values=False)
    held = held_operations(source, Locations.of(source))
    scheduled = read_module(after, with_values=False)
    locations = Locations.of(scheduled)
    table = place(scheduled, locations, regions, scopes).table
    return list(kept_of(held, found_operations(scheduled, locations, table), scopes, table))


def counts(fate: Fate) -> dict[str, Any]:
    """What is not zero."""
    names = ("held", "kept", "duplicated", "outside", "hoisted", "merged", "vanished")
    return {name: getattr(fate, name) for name in names if getattr(fate, name)}


def fates(kept: Kept) -> dict[str, dict[str, Any]]:
    return {f"{fate.name}:{fate.line}": counts(fate) for fate in kept.fates}


def single(body: str) -> str:
    return module(kernel(body))


def test_kept_operations_are_counted_once() -> None:
    text = module(kernel(load(3, A), op("tt.store", 4, A), op("tt.store", 5)))
    kept, other = compare(text, text)
    assert fates(kept) == {"tt.load:3": {"held": 1, "kept": 1}, "tt.store:4": {"held": 1, "kept": 1}}
    assert (kept.name, kept.lines, kept.regions) == ("a", (("k.py", 3), ("k.py", 4)), (0,))
    assert (other.name, other.fates, other.regions) == ("b", (), ())


def test_a_load_that_became_asynchronous_is_kept_and_its_prologue_is_a_copy() -> None:
    copy, commit = op("ttg.async_copy_global_to_local", 3, A), op("ttg.async_commit_group", 3, A)
    after = module(kernel(copy, commit, loop(op("ttg.async_wait", 3, A), copy, commit)))
    kept = compare(module(kernel(loop(load(3, A)))), after)[0]
    assert fates(kept) == {"tt.load:3": {"held": 1, "kept": 1, "duplicated": 1}}
    assert kept.fates[0].works


def test_an_operation_that_left_the_loop_is_hoisted() -> None:
    before = loop(op("arith.mulf", 3, A, result="m"), load(4, A))
    after = "\n".join([op("arith.mulf", 3, A, result="m"), loop(load(4, A))])
    assert fates(compare(single(before), single(after))[0])["arith.mulf:3"] == {"held": 1, "hoisted": 1}


def test_what_stays_in_the_loop_before_the_records_has_moved_out_and_is_not_hoisted() -> None:
    text = single(loop(op("arith.muli", 3, A, result="m"), op("tt.store", 4, A, operands="%m")))
    kept = compare(text, text)[0]
    assert fates(kept) == {"arith.muli:3": {"held": 1, "outside": 1}, "tt.store:4": {"held": 1, "kept": 1}}


def test_a_load_that_another_scope_made_before_is_merged_with_it() -> None:
    before = single("\n".join([load(3, A), op("tt.load", 4, B, result="m", operands="%p"), op("tt.store", 5, B)]))
    after = single("\n".join([load(3, A), op("tt.store", 5, B)]))
    first, second = compare(before, after)
    assert fates(first) == {"tt.load:3": {"held": 1, "kept": 1}}
    assert fates(second) == {"tt.load:4": {"held": 1, "merged": 1}, "tt.store:5": {"held": 1, "kept": 1}}
    assert second.fates[0].merged_with == ("a",)


@pytest.mark.parametrize(
    "between",
    [op("tt.store", 9), loop(op("tt.store", 9)), op("tt.call", 9)],
    ids=["store", "loop", "call"],
)
def test_a_load_that_may_read_something_else_vanished_and_was_not_merged(between: str) -> None:
    second = op("tt.load", 4, B, result="m", operands="%p")
    before = single("\n".join([load(3, A), between, second, op("tt.store", 5, B)]))
    after = single("\n".join([load(3, A), op("tt.store", 5, B)]))
    assert fates(compare(before, after)[1])["tt.load:4"] == {"held": 1, "vanished": 1}


def test_a_dead_scope_vanished() -> None:
    kept = compare(single(load(3, A)), single(op("tt.store", 4, B)))[0]
    assert fates(kept) == {"tt.load:3": {"held": 1, "vanished": 1}}
    assert kept.regions == ()


def test_constants_and_unused_integers_are_not_held() -> None:
    body = [
        op("arith.constant", 3, A, result="c", kind="i32"),
        op("arith.extsi", 3, A, result="e", operands="%c", kind="i64"),
        op("arith.cmpi", 3, A, result="f", operands="%e, %c", kind="i1"),
        op("arith.addi", 3, A, result="used", operands="%c", kind="i32"),
        op("arith.addf", 3, A, result="dead", operands="%x"),
        op("tt.store", 4, A, operands="%used"),
    ]
    kept = compare(single("\n".join(body)), single(op("tt.store", 4, A)))[0]
    assert list(fates(kept)) == ["arith.addi:3", "arith.addf:3", "tt.store:4"]


def test_a_helper_counts_at_each_of_its_calls_and_library_lines_are_the_callers() -> None:
    library = '    "tt.store"() : () -> () loc("/x/triton/language/standard.py":7:1)'
    helper = kernel(load(3, A), library, name="h", visibility="private")
    call = f'    "tt.call"() <{{callee = @h}}> : () -> () {at(20, B)}'
    before = module(kernel(call, call), helper)
    inlined = [op("tt.load", 3, B, A, result=f"l{n}", operands="%p") for n in (1, 2)]
    after = module(kernel(*inlined, op("tt.store", 20, B), op("tt.store", 20, B)))
    inner, outer = compare(before, after)
    twice = {"held": 2, "kept": 2}
    assert fates(inner) == {"tt.load:3": twice}
    assert fates(outer) == {"tt.load:3": twice, "tt.store:20": twice}


def test_records_around_a_warp_specialised_region_do_not_enclose_its_partitions() -> None:
    partitions = "\n".join(
        [
            '    "ttg.warp_specialize"() ({',
            op("tt.store", 4, A),
            '      "ttg.warp_yield"() : () -> ()',
            "    }, {",
            '      "ttg.warp_specialize.partitions"() ({',
            load(3),
            '        "ttg.warp_return"() : () -> ()',
            "      }) : () -> ()",
            f"    }}) : () -> () {at(9, A)}",
        ]
    )
    scheduled = read_module(single(partitions), with_values=False)
    locations = Locations.of(scheduled)
    table = place(scheduled, locations, (), SCOPES).table
    found = {op.name: op.inside for op in found_operations(scheduled, locations, table)}
    assert found["tt.store"] and "tt.load" not in found


def test_rules_that_move_data_are_listed_with_their_line() -> None:
    text = single("\n".join([load(3), op("tt.reduce", 4)]))
    rules = compare(text, text, ("load", "reduce"), ())
    assert [(k.name, k.origin, k.lines, k.fates) for k in rules] == [("load", "rule", (("k.py", 3),), ())]


def test_it_travels_as_json_and_an_older_reader_s_lack_is_empty() -> None:
    kept = compare(single(load(3, A)), single(load(3, A)))[0]
    assert Kept.from_json(kept.to_json()) == kept
    assert Kept.from_json({"name": "a", "origin": "scope", "file": "k.py", "line": 1, "newer": 2}).fates == ()
