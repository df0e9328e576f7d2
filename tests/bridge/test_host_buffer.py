"""Records in host memory, with stand-ins for kernels and driver: what is written of a launch that hangs."""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path
from typing import Any

import handmade
import pytest
from test_launch import FakeDriver, Stage, kernel

import kperfir as kp
from kperfir.analysis.standing import standing
from kperfir.bridge.build import Twin
from kperfir.capture.device.host import HostBlocks
from kperfir.capture.policy import Policy
from kperfir.errors import DeviceError, PlanError
from kperfir.plan import Plan
from kperfir.records import Layout

LAYOUT = Layout(1, 4, "host", 16)
INSIDE = [(handmade.KERNEL_START, 1000), (handmade.LOAD_START, 1010)]
HUNG = handmade.block(LAYOUT, warps=[INSIDE], state=1, hanging=[0])
DONE = handmade.block(LAYOUT, warps=[[*INSIDE, (handmade.LOAD_END, 1500), (handmade.KERNEL_END, 1600)]])


class Device(FakeDriver):
    """Hands out host memory of its own, and does what the test says with events."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.freed: list[int] = []
        self.ends = threading.Event()

    def mapped(self, size_bytes: int) -> tuple[int, int]:
        self.blocks.append(ctypes.create_string_buffer(b"\xff" * size_bytes, size_bytes))
        host = ctypes.addressof(self.blocks[-1])
        return host, host + (1 << 40)

    def free_pinned(self, pointer: int) -> None:
        self.freed.append(pointer)

    def has_passed(self, _: int) -> bool:
        if "has_passed" in self.broken:
            raise DeviceError("cuEventQuery failed with CUDA_ERROR_ILLEGAL_ADDRESS.")
        return self.ends.is_set()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage(tmp_path / "x.kperf", monkeypatch)
    stage.device = Device()
    stage.layout, stage.policy = LAYOUT, Policy(Plan.make("auto", buffer="host", launches="0-9"), hang_timeout_s=0.05)
    stage.twin = kernel("twin", stage.ran)
    monkeypatch.setattr(
        "kperfir.bridge.launch.instrument", lambda *_: Twin(stage.twin, handmade.TABLE, layout=stage.layout)
    )
    return stage


def write(block: Any, data: bytes) -> None:
    """What a kernel does, to memory that is zero."""
    assert block.raw == bytes(len(data))
    block.raw = data


def wait_for(stage: Stage, launches: int) -> None:
    """Until so many launches can be read from the file, while it is open."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if stage.path.stat().st_size and len(kp.load(stage.path).launches) == launches:
            return
        time.sleep(0.01)
    raise AssertionError("nothing was written")


def test_a_launch_that_hangs_is_written_while_it_does(stage: Stage) -> None:
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (1, 1, 1))
        write(stage.device.blocks[0], HUNG)
        wait_for(stage, 1)
        (launch,) = kp.load(stage.path).launches
        assert launch.launch.unfinished == "It had not finished 0.05 s after it was launched."
        assert [(s.regions, s.clock) for s in standing(launch)] == [(("kernel", "load"), 1010)]
    assert stage.device.freed == [], "a kernel may still write there"


def test_closing_shows_how_far_it_came_and_does_not_wait(stage: Stage) -> None:
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (1, 1, 1))
        wait_for(stage, 1)
        write(stage.device.blocks[0], HUNG)
    (launch,) = kp.load(stage.path).launches
    assert [s.regions for s in standing(launch)] == [("kernel", "load")]


def test_one_that_ends_after_all_is_whole(stage: Stage) -> None:
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (1, 1, 1))
        write(stage.device.blocks[0], HUNG)
        wait_for(stage, 1)
        stage.device.blocks[0].raw = DONE
        stage.device.ends.set()
        stage.launch(kernel("plain", stage.ran), (1, 1, 1))
        write(stage.device.blocks[1], DONE)
    first, second = kp.load(stage.path).launches
    assert (first.launch.unfinished, second.launch.unfinished) == ("", "")
    assert first.written == second.written == 4 and len(first.standing.row) == 0
    assert len(stage.device.freed) == 3, "both blocks, and the memory that copies go through"


def test_blocks_are_used_again_when_their_launch_has_ended(stage: Stage) -> None:
    stage.device.ends.set()
    plain = kernel("plain", stage.ran)
    with stage.recording() as launches:
        for n in range(3):
            stage.launch(plain, (1, 1, 1))
            wait_for(stage, n + 1)
            until = time.monotonic() + 10
            while launches._in_flight_bytes() and time.monotonic() < until:  # given back behind the write
                time.sleep(0.001)
    assert len(stage.device.blocks) == 1


def test_a_device_that_fails_leaves_what_was_written(stage: Stage) -> None:
    stage.device.broken = ("has_passed",)
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (1, 1, 1))
        stage.device.blocks[0].raw = HUNG
        time.sleep(0.02)
    (launch,) = kp.load(stage.path).launches
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in launch.launch.unfinished


def test_without_host_memory_the_plain_kernel_runs(stage: Stage) -> None:
    def refuse(_: int) -> tuple[int, int]:
        raise DeviceError("cuMemHostAlloc failed with CUDA_ERROR_OUT_OF_MEMORY.")

    stage.device.mapped = refuse
    with stage.recording():
        stage.launch(kernel("plain", stage.ran), (1, 1, 1))
    assert stage.ran == ["plain"] and stage.counts == {"no-buffer": 1}


def test_a_block_is_zero_whenever_it_is_taken() -> None:
    device: Any = Device()
    blocks = HostBlocks(device)
    first, host = blocks.take(64)
    assert (ctypes.c_char * 64).from_address(host).raw == bytes(64) and first == host + (1 << 40)
    ctypes.memset(host, 1, 64)
    blocks.give(first)
    small, again = blocks.take(32)
    assert (small, again) == (first, host) and (ctypes.c_char * 32).from_address(host).raw == bytes(32)
    other, _ = blocks.take(64)
    assert other != first
    blocks.give(small)
    blocks.free()
    assert device.freed == [host], "the other is still taken"


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_timeout_is_a_number_of_seconds(seconds: float) -> None:
    with pytest.raises(PlanError, match="hang_timeout_s"):
        Policy(hang_timeout_s=seconds)
