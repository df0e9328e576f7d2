"""Whatever a capture file holds: it is read, with what is wrong said, or refused in one clear sentence."""

from __future__ import annotations

import struct
from pathlib import Path

import handmade
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kperfir as kp
from kperfir.capture.schema import Session
from kperfir.capture.writer import SCHEMA
from kperfir.errors import CaptureError, KperfError

DATA = Path(__file__).parents[1] / "data"
NAMES = ("softmax.kperf", "layernorm.kperf")
WHOLE = {name: (DATA / name).read_bytes() for name in NAMES}
SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def use(path: Path) -> list[str]:
    """Everything a reader does with a capture; the codes of its problems."""
    trace = kp.load(path)
    str(trace.summary())
    trace.events()
    for suffix in ("json", "csv"):
        trace.export(path.with_suffix(f".{suffix}"))
    return [p.code for p in trace.problems()]


@pytest.mark.parametrize("name", NAMES)
@given(share=st.floats(0, 1, exclude_max=True))
@SETTINGS
def test_a_file_that_is_cut(name: str, share: float, tmp_path: Path) -> None:
    """Behind the last message lie the 8 bytes that end an Arrow stream; without them nothing is missing."""
    path = tmp_path / name
    length = int(share * len(WHOLE[name]))
    path.write_bytes(WHOLE[name][:length])
    try:
        assert "truncated" in use(path) or length >= len(WHOLE[name]) - 8
    except CaptureError as error:
        assert str(path) in error.what and error.cure


@pytest.mark.parametrize("name", NAMES)
@given(flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=4))
@SETTINGS
def test_a_file_with_flipped_bits(name: str, flips: list[tuple[float, int]], tmp_path: Path) -> None:
    data = bytearray(WHOLE[name])
    for share, bit in flips:
        data[int(share * len(data))] ^= 1 << bit
    _read_or_refused(tmp_path / name, bytes(data))


@pytest.mark.parametrize("name", NAMES)
@given(at=st.integers(0, 6000), junk=st.binary(min_size=1, max_size=40))
@SETTINGS
def test_a_file_with_junk_in_its_descriptions(name: str, at: int, junk: bytes, tmp_path: Path) -> None:
    """Schema, session and region table lie at the front."""
    data = WHOLE[name]
    _read_or_refused(tmp_path / name, data[:at] + junk + data[at + len(junk) :])


@pytest.mark.parametrize("name", NAMES)
def test_a_digit_or_word_changed_in_every_description(name: str, tmp_path: Path) -> None:
    """Still JSON, but other values: ids out of range, sizes of nothing, kinds nobody knows."""
    data = WHOLE[name]
    changes = [(b'"id":0', b'"id":9'), (b'"warps":', b'"warps":-'), (b'"slots":', b'"slots":-')]
    changes += [(b'"warps":4', b'"warps":0'), (b'"warps":8', b'"warps":0'), (b'"slots":32', b'"slots":00')]
    changes += [
        (b'"slots":32', b'"slots":77'),
        (b'"record_bytes":8', b'"record_bytes":3'),
        (b'"region":1', b'"region":7'),
    ]
    changes += [
        (b'"start"', b'"strat"'),
        (b"null", b"true"),
        (b'"ctas":64', b'"ctas":-1'),
        (b'"ctas":64', b'"ctas":99'),
    ]
    changes += [(b'"cycles"', b'"fathom"'), (b'"parent":0', b'"parent":3'), (b'"device":0', b'"device":x')]
    found = [(a, b) for a, b in changes if a in data]
    assert len(found) > 10
    for before, after in found:
        if len(before) < len(after):  # the digit behind goes
            before = data[data.index(before) :][: len(after)]
        _read_or_refused(tmp_path / name, data.replace(before, after))


def _read_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        use(path)
    except KperfError as error:
        assert path.name in error.what, error


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_cut_between_batches(name: str, tmp_path: Path) -> None:
    ends = _batch_ends(DATA / name)
    assert len(ends) > 4
    for number, end in enumerate(ends):
        path = tmp_path / name
        path.write_bytes(WHOLE[name][:end])
        if number == 0:  # the schema alone
            with pytest.raises(CaptureError, match="ends before its first message"):
                use(path)
        else:
            assert ("truncated" in use(path)) == (number < len(ends) - 1)


def _batch_ends(path: Path) -> list[int]:
    """Where the schema and each batch end."""
    source = pa.memory_map(str(path))
    stream = pa.ipc.open_stream(source)
    ends = [source.tell(), *[source.tell() for _ in stream]]
    return [*ends[:-1], path.stat().st_size]


def test_a_batch_with_offsets_out_of_bounds_is_left_out(tmp_path: Path) -> None:
    """Arrow itself would read beyond its buffers."""
    good = [["session"], [0], [Session("gpu", "regions=auto").to_json()], [b""]]
    path = tmp_path / "a.kperf"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(pa.record_batch(good, schema=SCHEMA))
        stream.write_batch(pa.record_batch([["end"], [0], ["{}"], [bytes(777)]], schema=SCHEMA))
        stream.write_batch(pa.record_batch([[None], [None], [None], [None]], schema=SCHEMA))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<qq", 0, 777), struct.pack("<qq", 0, 1 << 40)))
    assert path.read_bytes() != data
    assert use(path) == ["unreadable", "truncated"]
    assert "Batch 1 " in kp.load(path).problems()[0].what


@given(words=st.lists(st.tuples(st.integers(0, 17), st.integers(0, 2**32 - 1)), min_size=1, max_size=8))
@SETTINGS
def test_headers_with_any_words_in_them(words: list[tuple[int, int]], tmp_path: Path) -> None:
    data = bytearray(handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900, (1200, 1300))] * 2))
    for at, word in words:
        struct.pack_into("<I", data, 4 * at, word)
    launches = [(handmade.launch(0, 2), bytes(data) * 2), (handmade.launch(0, 2), bytes(data))]
    use(handmade.write(tmp_path / "a.kperf", launches))


def test_more_ctas_than_the_launch_has_are_said(tmp_path: Path) -> None:
    data = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)] * 2, times_ns=(0, 500_000))
    trace = kp.load(handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), data)] * 3))
    assert [(p.code, p.count) for p in trace.problems() if "ctas" in p.code] == [("extra-ctas", 2)]
