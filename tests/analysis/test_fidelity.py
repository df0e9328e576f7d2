"""What a capture tells of its scopes: both halves joined, doubts among the problems, older captures without."""

from __future__ import annotations

import json
from pathlib import Path

import handmade

import kperfir as kp
from kperfir.capture.schema import End, Kernel, Message, Shares
from kperfir.fidelity import Fate, Kept, Share

LOAD = Fate("tt.load", "k.py", 2, held=1, inside=3, works=True)
GOOD = Kept("load", "scope", "k.py", 2, (1,), (("k.py", 2),), (LOAD,))
BAD = Kept("late", "scope", "k.py", 7, (1,), (("k.py", 8),), (Fate("tt.load", "k.py", 8, 1, outside=1, works=True),))
WHOLE = Share(own=10, between=10)


def kernel(*kept: Kept) -> Kernel:
    return Kernel(0, "add", "hash", "cuda:90", handmade.LAYOUT, handmade.TABLE, fidelity=kept)


def load(path: Path, found: Kernel, *last: Message):  # type: ignore[no-untyped-def]
    block = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)] * 2)
    return kp.load(handmade.write(path / "x.kperf", [(handmade.launch(0, 1), block)], found, last=last))


def test_both_halves_come_back_joined(tmp_path: Path) -> None:
    trace = load(tmp_path, kernel(GOOD, BAD), Shares(0, (WHOLE, None)), End(0))
    (found,) = trace.fidelity().kernels
    assert (found.name, found.target, found.absent) == ("add", "cuda:90", "")
    assert [(s.kept, s.share) for s in found.scopes] == [(GOOD, WHOLE), (BAD, None)]
    rows = [line.split() for line in str(trace.fidelity()).splitlines()]
    assert ["load", "1", "1", "2", "0", "0", "0", "0", "10", "10", "(100%)", "0", "k.py:2"] in rows
    assert str(trace.fidelity()).splitlines()[1] in str(trace.summary())


def test_a_doubt_is_a_problem_that_names_scope_and_line(tmp_path: Path) -> None:
    trace = load(tmp_path, kernel(GOOD, BAD), Shares(0, (Share(own=10, between=8), None)), End(0))
    doubts = [p for p in trace.problems() if p.code == "fidelity"]
    assert [p.where for p in doubts] == ["add, k.py:2", "add, k.py:7"]
    assert doubts[0].what.startswith("Only 80% of the instructions of scope 'load'")
    assert "tt.load of line 8 lies outside its records" in doubts[1].what
    assert all(p.cure for p in doubts)


def test_no_doubt_where_all_lies_between(tmp_path: Path) -> None:
    trace = load(tmp_path, kernel(GOOD), Shares(0, (WHOLE,)), End(0))
    assert not [p for p in trace.problems() if p.code == "fidelity"]


def test_a_recording_that_did_not_close_says_so(tmp_path: Path) -> None:
    (found,) = load(tmp_path, kernel(GOOD)).fidelity().kernels
    assert found.scopes[0].share is None and "did not come to its end" in found.absent


def test_an_older_capture_has_nothing_of_it(tmp_path: Path) -> None:
    data = json.loads(kernel().to_json())
    del data["fidelity"]
    assert Kernel.from_json(json.dumps(data)).fidelity == ()
    trace = kp.load(Path(__file__).parents[1] / "data" / "softmax.kperf")
    assert trace.fidelity().kernels == () and "between" not in str(trace.summary())


def test_a_share_that_makes_no_sense_is_left_out_and_told(tmp_path: Path) -> None:
    trace = load(tmp_path, kernel(GOOD), Shares(0, (Share(own="ten", between=1),)), End(0))  # type: ignore[arg-type]
    assert "unreadable" in {p.code for p in trace.problems()}
    assert trace.fidelity().kernels[0].scopes[0].share is None
