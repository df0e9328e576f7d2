"""Launches are handed over whole and decoded, whatever thread writes them."""

from __future__ import annotations

import threading
from pathlib import Path

import handmade

from kperfir.capture.schema import Kernel, Problem, Session
from kperfir.capture.writer import CaptureWriter
from kperfir.deliver import Delivery
from kperfir.opened import load
from kperfir.trace import LaunchTrace

SPAN = handmade.span(1100, 1900, (1200, 1300))
KERNEL = Kernel(0, "add", "hash", "cuda:90", handmade.LAYOUT, handmade.TABLE)


def block(cta: int) -> bytes:
    return handmade.block(handmade.LAYOUT, cta=cta, warps=[SPAN, SPAN])


def test_chunks_are_one_launch_in_the_thread_that_wrote_the_last(tmp_path: Path) -> None:
    seen: list[tuple[LaunchTrace, threading.Thread]] = []
    with CaptureWriter(tmp_path / "a.kperf") as writer:
        session = Session("gpu", "regions=auto")
        writer.write(session)
        take = Delivery(writer, session, lambda launch: seen.append((launch, threading.current_thread())))
        writer.after_write = take.written
        writer.write(KERNEL)
        staging = bytearray(block(0) + block(1))

        def drain() -> None:
            writer.write(handmade.launch(0, 3), memoryview(staging))
            assert not seen
            staging[:] = bytes(len(staging))  # the memory is used again
            writer.write(handmade.launch(0, 3, first_cta=2), block(2))

        thread = threading.Thread(target=drain)
        thread.start()
        thread.join()
    ((launch, where),) = seen
    assert where is thread
    assert len(launch.headers) == 3
    assert launch.table.equals(load(tmp_path / "a.kperf").launches[0].table)


def test_a_launch_that_was_not_written_is_not_delivered(tmp_path: Path) -> None:
    seen: list[LaunchTrace] = []
    writer = CaptureWriter(tmp_path / "a.kperf")
    session = Session("gpu", "regions=auto")
    writer.after_write = Delivery(writer, session, seen.append).written
    writer.write(session)
    writer.write(KERNEL)
    writer.close()
    writer.write(handmade.launch(0, 1), block(0))
    assert (seen, writer.dropped) == ([], 1)


def test_a_failing_callback_is_a_problem_once(tmp_path: Path) -> None:
    def fail(launch: LaunchTrace) -> None:
        raise KeyError("mine")

    with CaptureWriter(tmp_path / "a.kperf") as writer:
        session = Session("gpu", "regions=auto")
        writer.after_write = Delivery(writer, session, fail).written
        for message in (session, KERNEL):
            writer.write(message)
        for number in (0, 1):
            writer.write(handmade.launch(number, 1), block(0))
    found = [p for p in load(tmp_path / "a.kperf").problems() if p.code == "callback-failed"]
    what = "The callback of the recording raised KeyError: 'mine'."
    assert found == [Problem("callback-failed", "add, launch 0", what, "Later failures of it are not told of.")]


def test_a_launch_that_has_not_finished_is_delivered_when_it_has(tmp_path: Path) -> None:
    seen: list[LaunchTrace] = []
    with CaptureWriter(tmp_path / "a.kperf") as writer:
        session = Session("gpu", "regions=auto")
        writer.after_write = Delivery(writer, session, seen.append).written
        for message in (session, KERNEL):
            writer.write(message)
        writer.write(handmade.launch(0, 1, unfinished="It had not finished."), block(0))
        assert not seen
        writer.write(handmade.launch(0, 1), block(0))
    assert [launch.launch.unfinished for launch in seen] == [""]
