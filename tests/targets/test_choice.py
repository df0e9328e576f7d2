"""The lines that decide whether a warp writes, run by hand, against the windows they were made from."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kperfir.ir.turn import Turn
from kperfir.passes.to_llvm import Frame
from kperfir.records import Layout
from kperfir.targets.text import is_in
from kperfir.targets.writers import WRITES, all_write, are_all_writers, in_room, in_turn, site_word, writers
from kperfir.windows import ALL, NONE, Chosen, Window, Windows

_WORD = 1 << 32
_CONSTANT = re.compile(r"(\S+) = llvm\.mlir\.constant\((\d+) : i\d+\) : i\d+")
_OPERATION = re.compile(r'(\S+) = llvm\.(\w+) (?:"(\w+)" )?(%\w+), (%\w+) : i\d+')
_MEANING = {
    "sub": lambda a, b: (a - b) % _WORD,
    "add": lambda a, b: (a + b) % _WORD,
    "urem": lambda a, b: a % b,
    "shl": lambda a, b: a << b,
    "udiv": lambda a, b: a // b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "ult": lambda a, b: int(a < b),
    "ule": lambda a, b: int(a <= b),
    "eq": lambda a, b: int(a == b),
}


def run(lines: list[str], values: dict[str, int]) -> dict[str, int]:
    """What the lines define, each once."""
    values = dict(values)
    for line in lines:
        if found := _CONSTANT.fullmatch(line):
            name, value = found.group(1), int(found.group(2))
        else:
            found = _OPERATION.fullmatch(line)
            assert found, line
            name, operation, predicate, left, right = found.groups()
            value = _MEANING[predicate or operation](values[left], values[right])
        assert name not in values, f"{name} is defined twice"
        values[name] = value
    return values


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.none() | st.integers(0, 50), st.integers(1, 7)).map(
            lambda w: Window(w[0], None if w[1] is None else w[0] + w[1], w[2])
        ),
        max_size=3,
    ),
    st.integers(0, 120) | st.sampled_from([0, (1 << 31) - 1]),
)
def test_windows(parts: list[Window], number: int) -> None:
    windows = Windows(tuple(parts))
    assert run(is_in("%w", "%n", windows), {"%n": number})["%w"] == (number in windows)


CHOICES = [
    Chosen(),
    Chosen(ctas=Windows.parse("0-2+0-:5")),
    Chosen(sms=Windows.parse("1")),
    Chosen(warps=Windows.parse("4-")),
    Chosen(Windows.parse("0-:2"), Windows.parse("0-1"), Windows.parse("0-:4")),
    Chosen(ctas=NONE),
]


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
@pytest.mark.parametrize("step", [1, 2, 3, 4, 8])
def test_who_writes_and_into_which_ring(chosen: Chosen, step: int) -> None:
    frame = Frame(Layout(-(-8 // step), 32, warp_step=step), "%scratch", 0, 32)
    assert are_all_writers(frame, chosen) == (step == 1 and chosen == Chosen(ALL, ALL, ALL))
    names = {"ctas": "%c", "sms": "%s", "warps": "%kp_warp"}
    lines = writers(frame, chosen, names)
    for cta, sm, warp in product(range(7), range(3), range(8)):
        values = run(lines, {"%c": cta, "%s": sm, "%kp_warp": warp, "%kp_0": 0})
        expected = warp % step == 0 and cta in chosen.ctas and sm in chosen.sms and warp in chosen.warps
        assert values[WRITES] == expected
        assert values["%kp_ring_number"] == warp // step


def test_where_all_write_nothing_is_decided() -> None:
    values = run(all_write(), {"%kp_warp": 5, "%kp_0": 0})
    assert (values[WRITES], values["%kp_ring_number"]) == (1, 5)


@pytest.mark.parametrize("iterations", ["all", "none", "3", "0-1+4-:3", "last-3", "0+last-2+5"])
def test_records_of_other_turns_are_not_written(iterations: str) -> None:
    turn = Turn("%t", "%l", Windows.parse(iterations))
    lines, name = in_turn(7, turn, "%w", ("mov.u32 $0, $1;", "=r,r"))
    copies = {"(%t)": "%kp_number7 = llvm.or %t, %t : i32", "(%l)": "%kp_left7 = llvm.or %l, %l : i32"}
    lines = [next((copy for of, copy in copies.items() if f'asm"{of}' in line), line) for line in lines]
    for turns, writes in product((1, 4, 12), (0, 1)):
        for number in range(turns):
            values = run(lines, {"%t": number, "%l": turns - 1 - number, "%w": writes})
            assert values[name] == (writes and turn.iterations.hold(number, turns - 1 - number))
    assert in_turn(7, Turn(), "%w", ("", "")) == ([], "%w")


def test_a_ring_that_does_not_wrap_has_room_or_not() -> None:
    lines, name = in_room(3, "%i", "%w", wraps=False)
    for index, writes in product((0, 56, 64, 72), (0, 1)):
        assert run(lines, {"%i": index, "%w": writes, "%kp_ring_bytes": 64})[name] == (writes and index < 64)
    assert in_room(3, "%i", "%w", wraps=True) == ([], "%w")


@pytest.mark.parametrize("turn", [Turn(), Turn("%t")])
@pytest.mark.parametrize("record_bytes", [8, 16])
def test_the_first_word_of_a_record(turn: Turn, record_bytes: int) -> None:
    lines = [
        line.replace("llvm.zext %t : i32 to i64", "llvm.or %t, %t : i64")
        for line in site_word(2, 5, record_bytes, turn.number)
    ]
    version = 9 if turn.number and record_bytes == 16 else 0
    assert run(lines, {"%t": 9})["%kp_site2"] == 5 | version << 32
