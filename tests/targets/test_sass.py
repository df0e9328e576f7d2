"""Control flow and shares of SASS: text in, numbers out, with programs whose clocks lie wrong beside."""

from __future__ import annotations

import pytest

from kperfir.fidelity import FIRST_SITE_LINE, Kept, Share, doubt
from kperfir.records import Region, Site, Table
from kperfir.targets.sass import loop_depths, read_sass, successors
from kperfir.targets.shares import has_site_lines, shares

TABLE = Table(
    (Region(0, "a", file="k.py", line=1), Region(1, "b", file="k.py", line=2)),
    (Site(0, 0, "start"), Site(1, 0, "end"), Site(2, 1, "start"), Site(3, 1, "end")),
)
A = Kept("a", "scope", "k.py", 1, (0,), (("k.py", 5), ("k.py", 6)))
B = Kept("b", "scope", "k.py", 2, (1,), (("k.py", 8),))


def at(line: int, file: str = "k.py") -> str:
    return f'\t//## File "{file}", line {line}'


def op(text: str) -> str:
    return f"        /*0010*/                   {text} ;"


def clock(site: int) -> str:
    return "\n".join([at(FIRST_SITE_LINE + site, "kperfir"), op("CS2R.32 R3, SR_CLOCKLO")])


def code(*lines: str) -> str:
    return "\n".join([".text.k:", *lines, at(99), op("EXIT"), op("NOP")])


def share(*lines: str, kept: tuple[Kept, ...] = (A, B)) -> tuple[Share | None, ...]:
    return shares(code(*lines), kept, TABLE)


def own(line: int, text: str = "FADD R1, R1, R2") -> str:
    return "\n".join([at(line), op(text)])


def test_frames_stand_innermost_first_and_padding_is_left_out() -> None:
    text = "\n".join(
        [
            ".text.k:",
            '\t//## File "standard.py", line 196 inlined at "k.py", line 12',
            '\t//## File "k.py", line 12 inlined at "k.py", line 28',
            "        /*0010*/              @!P0 FADD.FTZ R1, R1, R2 ;",
            op("NOP"),
        ]
    )
    (found,) = read_sass(text).instructions
    assert found.frames == (("standard.py", 196), ("k.py", 12), ("k.py", 28))
    assert (found.guard, found.opcode, found.name, found.operands) == ("!P0", "FADD.FTZ", "FADD", "R1, R1, R2")


def test_all_of_a_scope_between_its_clocks() -> None:
    a, b = share(clock(0), own(5), own(6), clock(1), clock(2), own(8), clock(3))
    assert a == Share(own=2, between=2) and b == Share(own=1, between=1)


def test_what_moved_in_front_of_the_clock_and_into_another_scope() -> None:
    a, b = share(own(5), clock(0), own(6), clock(1), clock(2), own(5), own(8), clock(3), own(7))
    assert a == Share(own=3, between=1)
    assert b == Share(own=1, between=1, foreign=1)
    assert a is not None and a.share == pytest.approx(1 / 3)


@pytest.mark.parametrize("between", ["a neighbour that loads", "a neighbour that adds", "one around it"])
def test_a_load_under_its_line_in_the_clocks_of_another_scope(between: str) -> None:
    """Held against its scope, unless the other loads as well and is not around it: ptxas confuses lines of such two."""
    b = Kept("b", "scope", "k.py", 2, (1,), (*A.lines, ("k.py", 8)) if between == "one around it" else B.lines)
    beside = own(8) if between == "a neighbour that adds" else own(8, "LDG.E R4, desc[UR4][R2.64]")
    load = own(5, "LDG.E.64 R4, desc[UR4][R2.64]")
    a, _ = share(clock(0), load, clock(1), clock(2), load, beside, clock(3), kept=(A, b))
    assert a is not None and (a.work, a.work_between) == (2, 1)
    assert a.work_outside == (() if between == "a neighbour that loads" else ("LDG.E.64",))


def test_a_line_of_the_library_is_its_callers() -> None:
    library = f'\t//## File "/x/triton/language/standard.py", line 5 inlined at "k.py", line 6\n{op("FADD R1, R1, R2")}'
    a, _ = share(clock(0), library, clock(1))
    assert a == Share(own=1, between=1)


def test_a_scope_around_a_loop_holds_the_loop() -> None:
    a, _ = share(clock(0), ".L_x_1:", own(5), "        /*0010*/   @P0 BRA `(.L_x_1) ;", clock(1))
    assert a == Share(own=2, between=2)


def test_one_way_past_the_start_is_not_between() -> None:
    skip = "\n".join([at(9), "        /*0010*/              @P0 BRA `(.L_x_1) ;"])
    a, _ = share(skip, clock(0), own(5), ".L_x_1:", own(6), clock(1))
    assert a == Share(own=2, between=1)


def test_the_same_end_on_both_ways_of_a_branch() -> None:
    branch = "\n".join([at(9), "        /*0010*/              @P0 BRA `(.L_x_1) ;"])
    leave = "\n".join([at(9), op("BRA `(.L_x_2)")])
    a, _ = share(clock(0), branch, own(5), clock(1), leave, ".L_x_1:", own(6), clock(1), ".L_x_2:", own(5))
    assert a == Share(own=3, between=2)


def test_hoisted_instructions_lie_in_fewer_loops_than_the_clocks() -> None:
    back = "\n".join([at(9), "        /*0010*/              @P0 BRA `(.L_x_1) ;"])
    a, _ = share(own(5), ".L_x_1:", own(5), clock(0), own(6), clock(1), back)
    assert a == Share(own=3, between=1, hoisted=1)
    assert a is not None and a.steady_share == 0.5


def test_a_load_outside_is_named_and_a_rule_counts_loads_only() -> None:
    rule = Kept("load", "rule", "k.py", 1, (0,), (("k.py", 5),))
    a, found = share(own(5, "LDG.E R1, [R2]"), clock(0), own(5, "LDG.E R1, [R2]"), own(5), clock(1), kept=(A, rule))
    assert a == Share(own=3, between=2, work=2, work_between=1, work_outside=("LDG.E",))
    assert found == Share(own=2, between=1, work=2, work_between=1, work_outside=("LDG.E",))


def test_constants_fences_and_reductions_of_a_warp_are_no_work() -> None:
    texts = ["LDC R1, c[0x0][0x28]", "LDGDEPBAR", "REDUX.SUM UR4, R1", "ULDC UR4, c[0x0][0x28]", "LDS R1, [R2]"]
    a, _ = share(*(own(5, text) for text in texts))
    assert a == Share(own=5, between=0)


@pytest.mark.parametrize(
    "text", ["HGMMA.64x64x16.F32 R1", "UTCHMMA gdesc[UR4]", "HMMA.16816.F32 R1", "UTMALDG.2D [UR4]"]
)
def test_matrix_and_tensor_memory_instructions_are_work(text: str) -> None:
    a, _ = share(clock(0), own(5, text), clock(1))
    assert a == Share(own=1, between=1, work=1, work_between=1)


def test_a_clock_without_a_line_of_its_own_is_the_programs() -> None:
    a, _ = share(own(5, "CS2R R2, SR_CLOCKLO"), own(6))
    assert a == Share(own=2, between=0)
    assert not has_site_lines(code(own(5)))
    assert has_site_lines(code(clock(0)))


def test_a_scope_without_records_has_no_share() -> None:
    assert share(own(5), kept=(Kept("a", "scope", "k.py", 1, (), (("k.py", 5),)),)) == (None,)


def test_where_control_flow_goes() -> None:
    lines = [
        ".text.k:",
        op("BSSY B0, `(.L_x_2)"),
        "        /*0010*/              @P0 BRA `(.L_x_1) ;",
        op("BRA.U UP0, `(.L_x_1)"),
        op("BSYNC B0"),
        ".L_x_1:",
        op("CALL.REL.NOINC `($k$f)"),
        ".L_x_2:",
        "        /*0010*/              @P1 EXIT ;",
        op("EXIT"),
        "$k$f:",
        op('BRX R4 -0x20 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)'),
        op("RET.REL.NODEC R2 `(k)"),
    ]
    found = read_sass("\n".join(lines))
    assert successors(found) == [[1], [4, 2], [4, 3], [5], [7, 5], [6], [], [4, 5], []]
    assert loop_depths(found, successors(found)) == [0, 0, 0, 0, 1, 2, 2, 2, 0]


def test_the_sentence_names_what_moved() -> None:
    assert doubt(A, Share(own=100, between=95)) is None
    assert doubt(A, Share(own=100, between=60, work=1, work_between=1)) is None
    assert doubt(A, Share(own=100, between=40, work=1, work_between=1)) is not None
    assert doubt(A, None) is None
    told = doubt(A, Share(own=100, between=40, hoisted=20))
    assert told is not None and "Only 50% of the instructions of scope 'a'" in told[0]
    told = doubt(A, Share(own=100, between=99, work=1, work_outside=("LDG.E",)))
    assert told is not None and "LDG.E of scope 'a' lies outside its clocks" in told[0]
