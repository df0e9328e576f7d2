"""Where records go: text in, the sequence of operations and records out."""

from __future__ import annotations

from kperfir.ir.foreign import ForeignOp
from kperfir.ir.kperf import RecordOp
from kperfir.ir.locations import Locations
from kperfir.ir.reader import read_module
from kperfir.passes.place import Placed, place
from kperfir.passes.scopes import Scope

SCOPES = (Scope(0, "a", "k.py", 1), Scope(1, "b", "k.py", 2))


def op(name: str, line: int, *tags: str) -> str:
    location = f'"k.py":{line}:1'
    for tag in reversed(tags):
        location = f'"{tag}"({location})'
    return f'    "{name}"() : () -> () loc({location})'


def loop(*body: str) -> list[str]:
    return ['    "scf.for"() ({', *body, '      "scf.yield"() : () -> ()', "    }) : () -> ()"]


def run(*body: str, regions: tuple[str, ...] = (), scopes: tuple[Scope, ...] = SCOPES) -> tuple[list[str], Placed]:
    text = "\n".join(
        [
            '"builtin.module"() ({',
            '  "tt.func"() <{sym_name = "k", sym_visibility = "public"}> ({',
            *body,
            '    "tt.return"() : () -> ()',
            "  }) : () -> ()",
            "}) : () -> ()",
        ]
    )
    module = read_module(text)
    placed = place(module, Locations.of(module), regions, scopes)
    lines = []
    for found in module.root.walk():
        if isinstance(found, RecordOp):
            piece = placed.table.sites[found.site.value.data].piece
            lines.append(f"{found.kind.data} {found.region_name.data}" + (f" {piece}" if piece else ""))
        elif isinstance(found, ForeignOp) and found.opname.startswith(("tt", "scf.for")):
            lines.append(found.opname.partition(".")[2])
    return lines[1:-1], placed


A, B = "kperf.scope:0.0", "kperf.scope:1.0"


def test_one_span_from_first_to_last_anchor() -> None:
    lines, _ = run(op("tt.load", 3, A), op("tt.addptr", 4), op("tt.load", 5), op("tt.load", 6, A), scopes=SCOPES[:1])
    assert lines == ["start a", "load", "addptr", "load", "load", "end a"]


def test_a_sibling_splits_a_span_into_pieces() -> None:
    lines, _ = run(op("tt.load", 3, A), op("tt.dot", 4, B), op("tt.load", 5, A))
    assert lines == ["start a", "load", "end a", "start b", "dot", "end b", "start a 1", "load", "end a 1"]


def test_scopes_nest() -> None:
    lines, placed = run(op("tt.load", 3, A), op("tt.dot", 4, A, B), op("tt.store", 5, A))
    assert lines == ["start a", "load", "start b", "dot", "end b", "store", "end a"]
    assert [r.parent for r in placed.table.regions] == [None, 0]


def test_issue_and_wait_are_two_facts() -> None:
    lines, _ = run(
        op("ttg.async_copy_global_to_local", 3, A), op("ttg.async_commit_group", 3, A), op("ttg.async_wait", 3, A),
        scopes=SCOPES[:1],
    )  # fmt: skip
    assert lines == [
        "start a.issue", "async_copy_global_to_local", "async_commit_group", "end a.issue",
        "start a.wait", "async_wait", "end a.wait",
    ]  # fmt: skip


def test_iterations_peeled_in_front_of_a_loop_are_instances() -> None:
    copy = op("ttg.async_copy_global_to_local", 3, A)
    lines, placed = run(copy, copy, *loop(copy), scopes=SCOPES[:1])
    one = ["start a.issue", "async_copy_global_to_local", "end a.issue"]
    assert lines == [*one, *one, "for", *one]
    assert all(site.piece == 0 for site in placed.table.sites)


def test_auto_records_the_kernel_and_what_is_in_loops() -> None:
    lines, _ = run(
        op("tt.load", 3), *loop(op("tt.load", 4), op("tt.dot", 5)), op("tt.store", 6), regions=("auto",), scopes=()
    )
    assert lines == [
        "start kernel", "load", "for", "start load", "load", "end load", "start dot", "dot", "end dot",
        "store", "end kernel",
    ]  # fmt: skip


def test_auto_records_everywhere_without_a_loop() -> None:
    lines, _ = run(op("tt.load", 3), op("tt.store", 4), regions=("auto",), scopes=())
    assert lines == [
        "start kernel",
        "start load",
        "load",
        "end load",
        "start store",
        "store",
        "end store",
        "end kernel",
    ]


def test_a_scope_without_anchor_is_reported_by_name_and_line() -> None:
    _, placed = run(op("tt.load", 3, A))
    assert [(f.code, f.where) for f in placed.findings] == [("no-anchor", "scope 'b', k.py:2")]


def test_address_arithmetic_places_nothing() -> None:
    lines, placed = run(op("tt.addptr", 3, A), op("tt.splat", 4, A), scopes=SCOPES[:1])
    assert lines == ["addptr", "splat"]
    assert len(placed.findings) == 1
