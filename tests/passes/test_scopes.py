"""Markers -> location tags: text in, text out; and programs whose scopes are wrong."""

from __future__ import annotations

import pytest

from kperfir.errors import ScopeError
from kperfir.ir.locations import Locations
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module
from kperfir.markers import marker_text
from kperfir.passes.explicit import find_markers
from kperfir.passes.scopes import has_markers, tag_scopes


def marker(kind: str, name: str, line: int) -> str:
    text = marker_text(kind, name)  # type: ignore[arg-type]
    return (
        f'    %m{line} = "tt.elementwise_inline_asm"() <{{asm_string = "{text}", constraints = "=r", '
        f'packed_element = 1 : i32, pure = false}}> : () -> i32 loc("k.py":{line}:1)'
    )


def module(*body: str, attributes: str = "") -> str:
    return "\n".join(
        [
            "#loc = loc(unknown)",
            '"builtin.module"() ({',
            f'  "tt.func"() <{{function_type = () -> (), sym_name = "k", sym_visibility = "public"{attributes}}}> ({{',
            *body,
            '    "tt.return"() : () -> () loc(#loc)',
            "  }) : () -> () loc(#loc)",
            "}) : () -> () loc(#loc)",
            "",
        ]
    )


def loop(*body: str) -> list[str]:
    return ['    "scf.for"() ({', *body, '      "scf.yield"() : () -> () loc(#loc)', "    }) : () -> () loc(#loc)"]


LOAD = '    %x = "tt.load"() : () -> f32 loc("k.py":5:9)'
STORE = '    "tt.store"() : () -> () loc("k.py":9:9)'

GOOD = module(
    marker("enter", "a", 1), LOAD, marker("enter", "b", 2), STORE, marker("exit", "b", 3), marker("exit", "a", 4)
)

WRONG = {
    "not left": (module(marker("enter", "a", 1), LOAD), "'a' is entered at k.py:1"),
    "not entered": (module(LOAD, marker("exit", "a", 4)), "'a' is left at k.py:4"),
    "crossing": (
        module(marker("enter", "a", 1), marker("enter", "b", 2), LOAD, marker("exit", "a", 3), marker("exit", "b", 4)),
        "'b', entered at k.py:2",
    ),
    "left in a loop": (module(marker("enter", "a", 1), *loop(marker("exit", "a", 2))), "'a' is left at k.py:2"),
    "entered in a loop": (
        module(*loop(marker("enter", "a", 1), LOAD), marker("exit", "a", 2)),
        "'a' is entered at k.py:1",
    ),
}


def test_tags_nest_and_markers_go() -> None:
    read = read_module(GOOD)
    tagged = tag_scopes(read)
    text = print_module(read)
    assert [(s.name, s.line) for s in tagged.scopes] == [("a", 1), ("b", 2)]
    assert not has_markers(text)
    again = read_module(text)
    locations = Locations.of(again)
    tags = {op.opname: locations.tags(op.location_text) for op in again.walk()}
    assert tags["tt.load"] == ("kperf.scope:0.0",)
    assert tags["tt.store"] == ("kperf.scope:0.0", "kperf.scope:1.0")
    assert tags["tt.return"] == ()
    assert locations.source(next(op for op in again.walk() if op.opname == "tt.store").location_text) == ("k.py", 9)


def test_nothing_but_locations_changes() -> None:
    read = read_module(GOOD)
    tag_scopes(read)
    operations = [line.split(" loc(")[0] for line in print_module(read).split("\n") if not line.startswith("#")]
    expected = [line.split(" loc(")[0] for line in module(LOAD, STORE).split("\n") if not line.startswith("#")]
    assert [o for o in operations if o] == [e for e in expected if e]


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_scopes_name_their_line(text: str, message: str) -> None:
    with pytest.raises(ScopeError, match=message.replace("(", r"\(")):
        tag_scopes(read_module(text))
    read = read_module(text)
    with pytest.raises(ScopeError, match=r"'[ab]'.* k\.py:\d"):
        find_markers(read, Locations.of(read))


def test_copies_of_one_scope_are_told_apart() -> None:
    once = (marker("enter", "a", 1), LOAD, marker("exit", "a", 2))
    twice = [line.replace("%m1", "%n1").replace("%m2", "%n2").replace("%x", "%y") for line in once]
    read = read_module(module(*once, *twice))
    tagged = tag_scopes(read)
    locations = Locations.of(read)
    assert len(tagged.scopes) == 1
    assert [locations.tags(op.location_text) for op in read.walk() if op.opname == "tt.load"] == [
        ("kperf.scope:0.0",),
        ("kperf.scope:0.1",),
    ]


def test_a_mark_tags_up_to_the_next_anchor() -> None:
    add = '    "arith.addi"() : () -> () loc("k.py":4:1)'
    read = read_module(module(marker("mark", "m", 1), add, LOAD, STORE))
    tag_scopes(read)
    locations = Locations.of(read)
    tags = {op.opname: locations.tags(op.location_text) for op in read.walk()}
    assert tags["arith.addi"] == tags["tt.load"] == ("kperf.mark:0.0",)
    assert tags["tt.store"] == ()


def test_noinline_functions_are_reported() -> None:
    read = read_module(module(marker("enter", "a", 1), LOAD, marker("exit", "a", 2), attributes=", noinline = true"))
    tagged = tag_scopes(read)
    assert [f.code for f in tagged.findings] == ["noinline"]
    assert tagged.scopes == ()
