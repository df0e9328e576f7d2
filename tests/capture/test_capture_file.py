"""The capture file: what is written comes back, and what is wrong with a file is said."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import handmade
import pyarrow as pa
import pytest

from kperfir.capture.reader import read_capture, read_captures
from kperfir.capture.schema import FORMAT_VERSION, End, Problem, Session
from kperfir.capture.writer import SCHEMA, CaptureWriter
from kperfir.errors import CaptureError

BLOCK = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)] * 2)


def _stream(path: Path, schema: pa.Schema) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema):
        pass
    return path


def test_everything_comes_back(tmp_path: Path) -> None:
    problem = Problem("no-anchor", "add, k.py:2", "Scope 'x' has no anchor.", "Move it.", 3)
    tally = {"add": {"recorded": 2, "sampled-out": 5}}
    parts = [
        (handmade.launch(1, 1), BLOCK),
        (handmade.launch(0, 2), BLOCK),
        (handmade.launch(0, 2, first_cta=1), BLOCK),
    ]
    capture = read_capture(handmade.write(tmp_path / "a.kperf", parts, problems=[problem], tally=tally))
    assert [r.launch.id for r in capture.launches] == [0, 1]
    assert [[(c.first_cta, bytes(c.payload)) for c in r.chunks] for r in capture.launches] == [
        [(0, BLOCK), (1, BLOCK)],
        [(0, BLOCK)],
    ]
    assert capture.kernels[0].table == handmade.TABLE
    assert capture.kernels[0].layout == handmade.LAYOUT
    assert (capture.session.device_name, capture.problems, capture.tally) == ("a GPU", (problem,), tally)
    assert capture.complete


def test_a_file_cut_anywhere_is_read_to_its_last_whole_message(tmp_path: Path) -> None:
    whole = handmade.write(tmp_path / "a.kperf", [(handmade.launch(i, 1), BLOCK) for i in range(3)]).read_bytes()
    cut, counts = tmp_path / "cut.kperf", set()
    for length in range(0, len(whole), 97):
        cut.write_bytes(whole[:length])
        try:
            capture = read_capture(cut)
        except CaptureError as error:
            assert error.cure
            assert not counts, "a longer file must not be worse than a shorter one"
            continue
        counts.add(len(capture.launches))
        assert [bytes(r.chunks[0].payload) for r in capture.launches] == [BLOCK] * len(capture.launches)
        if not capture.complete:
            assert [p.code for p in capture.problems] == ["truncated"]
    assert counts == {0, 1, 2, 3}


def test_what_is_flushed_is_readable_while_the_file_is_open(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "a.kperf") as writer:
        before = writer.bytes_written
        writer.write(Session("gpu", "regions=auto"))
        assert writer.bytes_written == (tmp_path / "a.kperf").stat().st_size > before
        assert read_capture(tmp_path / "a.kperf").session.plan == "regions=auto"
    assert writer.bytes_written > before


@pytest.mark.parametrize("content", [b"\x7fELF" * 100, b"{}", b"\xff\xff\xff\xff\x10\x00\x00\x00" + bytes(16)])
def test_a_foreign_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.kperf"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"a\.kperf is no kperfir capture\. Give it"):
        read_capture(path)


def test_a_foreign_arrow_stream(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is no kperfir capture"):
        read_capture(_stream(tmp_path / "a", pa.schema([("x", pa.int32())])))
    with pytest.raises(CaptureError, match="is no kperfir capture"):
        read_capture(_stream(tmp_path / "b", pa.schema([("x", pa.int32())], metadata=SCHEMA.metadata)))


def test_a_newer_file(tmp_path: Path) -> None:
    schema = SCHEMA.with_metadata({"format": "kperfir-capture", "version": str(FORMAT_VERSION + 1)})
    with pytest.raises(CaptureError, match=f"has capture format {FORMAT_VERSION + 1}; .* Update kperfir"):
        read_capture(_stream(tmp_path / "a.kperf", schema))


def test_empty_and_missing(tmp_path: Path) -> None:
    (tmp_path / "a.kperf").touch()
    with pytest.raises(CaptureError, match="is empty"):
        read_capture(tmp_path / "a.kperf")
    with pytest.raises(CaptureError, match="ends before its first message"):
        read_capture(_stream(tmp_path / "b.kperf", SCHEMA))
    with pytest.raises(CaptureError, match="There is no file"):
        read_captures(tmp_path / "none.kperf")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CaptureError, match="There is no capture in"):
        read_captures(tmp_path / "folder")


def test_a_directory_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    handmade.write(tmp_path / "2.kperf", [(handmade.launch(0, 1), BLOCK)])
    (tmp_path / "1.kperf").touch()
    captures, problems = read_captures(tmp_path)
    assert [c.path.name for c in captures] == ["2.kperf"]
    assert [(p.code, Path(p.where).name) for p in problems] == [("unreadable-capture", "1.kperf")]
    (tmp_path / "2.kperf").write_bytes(b"")
    with pytest.raises(CaptureError):
        read_captures(tmp_path)


def test_messages_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.kperf"
    rows = [
        ("session", '{"source":"gpu","plan":"p","newer":1}', b""),
        ("newer-kind", "{}", b""),
        ("kernel", '{"id":0}', b""),
        ("problem", "no json", b""),
        ("launch", handmade.launch(0, 1, kernel=5).to_json(), BLOCK),
        ("end", "{}", b""),
    ]
    kinds, infos, payloads = zip(*rows, strict=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(pa.record_batch([kinds, [0] * len(rows), infos, payloads], schema=SCHEMA))
    capture = read_capture(path)
    assert [p.code for p in capture.problems] == ["unreadable"] * 3
    assert "kernel that the capture does not describe" in capture.problems[2].what
    assert capture.complete
    assert not capture.launches


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_at_the_start() -> None:
    with CaptureWriter("/dev/full") as writer:
        writer.write(Session("gpu", "p"))
        assert writer.failure is not None
        writer.write(End(0))
    assert writer.dropped == 2


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be written: No such file"):
        CaptureWriter(tmp_path / "none" / "a.kperf")


def test_a_disk_that_fills_up_drops_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.kperf"
    with CaptureWriter(path) as writer:
        writer.write(Session("gpu", "p"))
        good = path.read_bytes()
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, writer._file.fileno())
        os.close(full)
        size = writer.bytes_written
        for _ in range(3):
            writer.write(handmade.launch(0, 1), BLOCK * 100)
        assert writer.dropped == 3
        assert writer.bytes_written == size
    assert writer.failure is not None
    assert writer.failure.strerror == "No space left on device"
    assert path.read_bytes() == good
    writer.write(End(0))
    assert writer.dropped == 4


def test_threads_do_not_mix_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.kperf"
    with CaptureWriter(path) as writer:
        writer.write(Session("gpu", "p"))

        def run(number: int) -> None:
            for i in range(50):
                writer.write(Problem(f"{number}", f"{i}", "what"))

        threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.write(End(0))
    problems = read_capture(path).problems
    for number in range(4):
        assert [p.where for p in problems if p.code == f"{number}"] == [f"{i}" for i in range(50)]
