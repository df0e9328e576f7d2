"""Plans and windows: text in, text out, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kperfir.errors import PlanError
from kperfir.plan import AUTO, Plan, sampled
from kperfir.session import _whole_plan, make_plan
from kperfir.windows import ALL, NONE, Window, Windows

NUMBERS = st.integers(0, 40)


@st.composite
def windows(draw: Any) -> Windows:
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        first, step = draw(NUMBERS), draw(st.integers(1, 5))
        last = draw(st.none() | st.integers(first, 60))
        parts.append(Window(first, last, 1 if last == first else step))
    return Windows(tuple(parts))


@given(windows())
def test_windows_survive_their_text_and_hold_what_they_say(chosen: Windows) -> None:
    again = Windows.parse(str(chosen))
    assert str(again) == str(chosen)
    expected = set()
    for part in chosen.parts:
        expected |= set(range(part.first, (100 if part.last is None else part.last) + 1, part.step))
    assert [n in again for n in range(100)] == [n in expected for n in range(100)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("all", range(20)),
        ("none", []),
        ("3", [3]),
        ("0-2+18-", [0, 1, 2, 18, 19]),
        ("0-:8", [0, 8, 16]),
        ("1-10:4", [1, 5, 9]),
    ],
)
def test_windows(text: str, numbers: Any) -> None:
    chosen = Windows.parse(text)
    assert [n for n in range(20) if n in chosen] == list(numbers)
    assert str(chosen) == text


@pytest.mark.parametrize(
    "text", ["", "a", "-3", "5-3", "1-4:0", "3:2", "1+", "0--4", "2147483648", "1-2-3", "all+1", "²"]
)
def test_wrong_windows_are_refused(text: str) -> None:
    with pytest.raises(PlanError) as refused:
        Windows.parse(text)
    assert "joined by +" in refused.value.cure


@given(
    regions=st.just(("auto",)) | st.lists(st.sampled_from(AUTO), unique=True).map(tuple),
    buffer=st.sampled_from(["auto", "shared", "global"]),
    slots=st.sampled_from([0, 2, 256]),
    metric=st.sampled_from(["clock32", "clock64", "time"]),
    granularity=st.sampled_from(["warp", "warp-group", "cta", "2", "12"]),
    kernels=st.lists(st.sampled_from(["add*", "!sub", "m?l"]), unique=True).map(tuple),
    launches=windows(),
    ctas=windows(),
    warps=windows(),
)
def test_plans_survive_their_text(**values: Any) -> None:
    plan = Plan(**values)
    assert str(Plan.parse(str(plan))) == str(plan)
    assert Plan.parse(str(plan)).kernels == plan.kernels


def test_defaults_are_not_printed() -> None:
    assert str(Plan.make("auto")) == "regions=auto;buffer=auto;slots=0"
    assert Plan.parse("regions=auto") == Plan.make("auto") == make_plan("auto", 3, 100, (), ())
    assert str(Plan.make(None, metric="time", ctas="0-7")) == "regions=none;buffer=auto;slots=0;metric=time;ctas=0-7"


@pytest.mark.parametrize(
    ("knobs", "word"),
    [
        ({"regions": ""}, "'' is no rule"),
        ({"regions": "load++dot"}, "'' is no rule"),
        ({"buffer": "texture"}, "buffer"),
        ({"metric": "joules"}, "metric"),
        ({"granularity": "0"}, "granularity"),
        ({"granularity": "lane"}, "granularity"),
        ({"slots": 3}, "3 slots"),
        ({"slots": "many"}, "slots"),
        ({"ctas": "few"}, "few"),
        ({"iterations": "last 8"}, "last 8"),
        ({"version": "tile"}, "version"),
        ({"strategy": "aggregate", "version": "iteration"}, "no version"),
        ({"strategy": "average"}, "strategy"),
        ({"strategy": "aggregate", "slots": 64}, "no slots"),
        ({"strategy": "flush", "buffer": "shared"}, "flushed to global"),
        ({"kernels": "!"}, "pattern"),
        ({"kernels": ("a;b",)}, "pattern"),
        ({"color": "red"}, "no knob 'color'"),
        ({"first": -1}, "first is -1"),
        ({"every": -1}, "every is -1"),
    ],
)
def test_knobs_that_make_no_sense(knobs: dict[str, Any], word: str) -> None:
    words = {"regions": "auto", "first": 3, "every": 100, "include": (), "exclude": ()} | knobs
    with pytest.raises(PlanError, match=word) as refused:
        make_plan(**words)
    assert refused.value.cure


@pytest.mark.parametrize("text", ["regions", "color=red", "slots=2;slots=4", "metric=clock16", "regions=auto+load"])
def test_texts_that_are_no_plan(text: str) -> None:
    with pytest.raises(PlanError):
        Plan.parse(text)


def test_kernels() -> None:
    plan = make_plan("auto", 3, 100, ["add*", "mul"], "add_slow")
    assert [n for n in ("add", "add_fast", "add_slow", "mul", "mul2") if plan.wants(n)] == ["add", "add_fast", "mul"]
    assert [n for n in ("a", "b") if make_plan("auto", 3, 100, (), ["a"]).wants(n)] == ["b"]


@pytest.mark.parametrize(("first", "every", "expected"), [(3, 100, [0, 1, 2, 100]), (0, 60, [0, 60]), (2, 0, [0, 1])])
def test_sampled_launches(first: int, every: int, expected: list[int]) -> None:
    assert [n for n in range(120) if n in sampled(first, every)] == expected


def test_none_and_all() -> None:
    assert 0 in ALL and 0 not in NONE and ALL.are_all and not NONE.are_all


@pytest.mark.parametrize(("text", "warps"), [("warp", 1), ("warp-group", 4), ("cta", 0), ("3", 3)])
def test_granularities(text: str, warps: int) -> None:
    assert Plan(granularity=text).warps_per_writer == warps


def test_a_whole_plan_stands_alone() -> None:
    """`kp.record(plan=...)` takes the place of the other knobs, which must not be given beside it."""
    untouched = make_plan("auto", 3, 100, (), (), buffer="auto", slots=0)
    plan = Plan.make("load", metric="time")
    assert _whole_plan(untouched, None) is untouched
    assert _whole_plan(untouched, plan) is plan
    assert _whole_plan(untouched, str(plan)) == plan
    with pytest.raises(PlanError, match="knobs beside it"):
        _whole_plan(make_plan("auto", 3, 100, (), (), slots=64), plan)


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ("load", ("load",)),
        ("load+store", ("load", "store")),
        ("store, load", ("store", "load")),
        (["atomic", "atomic"], ("atomic",)),
        ("all", ("load", "store", "async-copy", "atomic")),
        ("none", ()),
        ("", ()),
        ((), ()),
    ],
)
def test_addresses(given: Any, kinds: tuple[str, ...]) -> None:
    plan = Plan.make("auto", addresses=given)
    assert plan.addresses == kinds
    assert plan.regions == (() if kinds else ("auto",)), "nothing is timed beside"
    assert Plan.parse(str(plan)) == plan


def test_a_trace_of_addresses_stays_in_its_text() -> None:
    plan = Plan.parse("addresses=load+async-copy;slots=128;ctas=0-7")
    assert str(plan) == "regions=none;buffer=auto;slots=128;ctas=0-7;addresses=load+async-copy"


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"addresses": "prefetch"}, "'prefetch' is no kind of memory access."),
        ({"addresses": "all+load"}, "'all' is no kind of memory access."),
        ({"regions": "load"}, "times nothing"),
        ({"buffer": "shared"}, "written to global memory"),
        ({"metric": "time"}, "has no metric"),
        ({"strategy": "flush"}, "has no strategy"),
        ({"version": "iteration"}, "has no version"),
        ({"iterations": "0-7"}, "has no iterations"),
    ],
)
def test_what_a_trace_of_addresses_has_not(knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as refused:
        Plan.make(**({"regions": "auto", "addresses": "load"} | knobs))
    assert said in str(refused.value)
