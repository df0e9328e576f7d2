"""The gate of a recording, in threads and across a fork."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from kperfir.bridge.gate import Gate


def test_closing_waits_for_those_inside_and_lets_nobody_in() -> None:
    gate, order = Gate(), []
    assert not gate.enter()
    gate.open()
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        assert gate.enter()
        entered.set()
        leave.wait(10)
        order.append("left")
        gate.leave()

    inside = threading.Thread(target=stay)
    inside.start()
    assert entered.wait(10)
    closing = threading.Thread(target=lambda: (gate.close(), order.append("closed")))
    closing.start()
    closing.join(0.05)
    assert not gate.enter() and order == []
    leave.set()
    closing.join(10)
    assert order == ["left", "closed"] and not gate.enter()
    gate.open()
    assert gate.enter()


def test_a_launch_whose_hook_closes_the_recording_is_not_waited_for() -> None:
    gate = Gate()
    gate.open()

    def close_inside() -> None:
        gate.enter()
        gate.close()

    thread = threading.Thread(target=close_inside, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("inside", ["another thread", "the thread that forks"])
def test_a_forked_process_waits_for_nobody_of_its_parent(inside: str) -> None:
    gate, entered, leave = Gate(), threading.Event(), threading.Event()
    gate.open()

    def stay() -> None:
        gate.enter()
        entered.set()
        leave.wait(30)

    thread = threading.Thread(target=stay)
    if inside == "another thread":
        thread.start()
        entered.wait(10)
    else:
        gate.enter()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        assert gate.enter()
        gate.leave()
        if inside == "the thread that forks":
            gate.leave()
        gate.close()
        os._exit(0)
    leave.set()
    assert os.waitpid(child, 0)[1] == 0
