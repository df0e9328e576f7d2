"""From device memory to the capture file, behind the back of the user's launches.

A launch gets memory in the order of its own stream and leaves an event behind it. A
thread looks whether events have passed, copies what lies before them on a stream of
its own through one pinned buffer, and writes it. Nothing waits for a stream.

Memory of the host needs no copy. There a launch that does not end in time is written as
it stands, once then and once more at the end; if it ends after all, it is written anew.
"""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from kperfir.capture.device.driver import Driver
from kperfir.capture.device.host import HostBlocks
from kperfir.capture.schema import Launch, Problem
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import DeviceError, KperfError
from kperfir.notes import note
from kperfir.records import Layout

STAGING_BYTES = 64 << 20
IN_FLIGHT_BYTES = 4 << 30
_POLL_SECONDS = 0.0005


@dataclass(frozen=True)
class Buffer:
    """Scratch memory of one launch; what Triton's allocator protocol asks for.

    Attributes:
        pointer: address on the device. host: on the host, 0 for device memory.
    """

    pointer: int
    size_bytes: int
    host: int = 0

    def data_ptr(self) -> int:
        """Address on the device."""
        return self.pointer


@dataclass(frozen=True)
class _Job:
    launch: Launch
    layout: Layout
    buffer: Buffer
    event: int
    deadline: float


class Drain:
    """Buffers of launches on one device, and the thread that empties them.

    Args:
        hang_timeout_s: when a launch that writes to host memory counts as one that hangs.
    """

    def __init__(
        self, driver: Driver, writer: CaptureWriter, on_written: Callable[[], None], hang_timeout_s: float
    ) -> None:
        self._driver = driver
        self._writer = writer
        self._on_written = on_written
        self._process = os.getpid()
        self._context = driver.current_context()
        self._hang_timeout_s = hang_timeout_s
        self._hanging: list[_Job] = []
        self._host = HostBlocks(driver)
        self._copies = driver.stream()
        self._staging = driver.pinned(STAGING_BYTES)
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._in_flight_bytes = 0
        self._thread = threading.Thread(target=self._run, name="kperfir-drain", daemon=True)
        self._thread.start()

    @property
    def in_flight_bytes(self) -> int:
        """Scratch memory that is not written yet."""
        return self._in_flight_bytes

    def allocate(self, layout: Layout, ctas: int, stream: int) -> Buffer:
        """Memory for a launch, its headers zeroed, in the order of the stream.

        Raises:
            DeviceError: there is none; why not. It may be an earlier failure of the
                program's own, which its next call shows.
        """
        size_bytes = layout.cta_bytes * ctas
        self._reserve(layout.cta_bytes, size_bytes)
        try:
            if layout.is_read_early:
                device, host = self._host.take(size_bytes)
                return Buffer(device, size_bytes, host)
            buffer = Buffer(self._driver.allocate(size_bytes, stream), size_bytes)
        except DeviceError:
            self._release(size_bytes)
            raise
        try:
            self._driver.clear(buffer.pointer, layout.cta_bytes, layout.cleared_bytes, ctas, stream)
        except DeviceError:
            self.discard(buffer, stream)
            raise
        return buffer

    def _reserve(self, cta_bytes: int, size_bytes: int) -> None:
        if cta_bytes > STAGING_BYTES:
            raise DeviceError(
                f"a CTA's {_mib(cta_bytes)} of records are more than the {_mib(STAGING_BYTES)} that are copied at once."
            )
        with self._lock:
            if self._in_flight_bytes + size_bytes > IN_FLIGHT_BYTES:
                waiting = _mib(self._in_flight_bytes)
                raise DeviceError(
                    f"{waiting} of records wait to be written, and {_mib(IN_FLIGHT_BYTES)} is the most that may."
                )
            self._in_flight_bytes += size_bytes

    def discard(self, buffer: Buffer, stream: int) -> None:
        """Give a buffer back whose launch did not happen, or is not written; host memory is not used again then."""
        if buffer.host:
            return
        with suppress(DeviceError):  # the launch has failed already, and that error is the one to see
            self._driver.free(buffer.pointer, stream)
        self._release(buffer.size_bytes)

    def submit(self, launch: Launch, layout: Layout, buffer: Buffer, stream: int) -> None:
        """Hand over a launch that is on its stream.

        Raises:
            DeviceError: the buffer is the caller's still.
        """
        deadline = time.monotonic() + self._hang_timeout_s
        self._jobs.put(_Job(launch, layout, buffer, self._driver.record_event(stream), deadline))

    def close(self) -> None:
        """Write everything that was submitted, and end the thread. This waits for the launches but those that hang.

        A forked process has neither the thread nor a device it could ask.
        """
        if os.getpid() != self._process:
            return
        self._jobs.put(None)
        self._thread.join()
        if self._hanging:
            return  # giving memory back would wait for them
        with suppress(DeviceError):  # a device that failed is told of by the launches lost on it
            self._host.free()
            self._driver.free_pinned(self._staging)
            self._driver.destroy_stream(self._copies)

    def _release(self, size_bytes: int) -> None:
        with self._lock:
            self._in_flight_bytes -= size_bytes

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._hanging = [old for old in self._hanging if not self._settle(old)]
            if not self._settle(job, self._late()):
                if not self._hanging:
                    note(
                        f"launch {job.launch.id} does not end; `kperfir report {self._writer.path}` shows where it is."
                    )
                self._hanging.append(job)
        self._hanging = [old for old in self._hanging if not self._settle(old, self._late())]

    def _late(self) -> str:
        return f"It had not finished {self._hang_timeout_s:g} s after it was launched."

    def _settle(self, job: _Job, late: str = "") -> bool:
        """Write a launch that has ended and free its memory; whether it has.

        Args:
            late: why one that has not is written as it stands; empty to leave it.
        """
        try:
            self._driver.set_context(self._context)
            if not self._ends_in_time(job):
                if late:
                    self._write(job, late)
                return False
            self._write(job)
        except Exception as error:  # of whatever kind: this thread must outlive it, and the launch be accounted for
            self._lost(job, error)
        self._free(job.buffer)
        return True

    def _ends_in_time(self, job: _Job) -> bool:
        while not self._driver.has_passed(job.event):
            if job.buffer.host and time.monotonic() >= job.deadline:
                return False
            time.sleep(_POLL_SECONDS)
        self._driver.destroy_event(job.event)
        return True

    def _lost(self, job: _Job, error: Exception) -> None:
        """What a failed device has left in host memory is evidence."""
        if job.buffer.host and isinstance(error, DeviceError):
            try:
                self._write(job, f"The device failed before it was seen to end: {error.what}")
                return
            except Exception as another:  # as above
                error = another
        self._writer.write(lost_launch(f"launch {job.launch.id}", error))

    def _free(self, buffer: Buffer) -> None:
        if buffer.host:
            self._host.give(buffer.pointer)
        else:
            with suppress(DeviceError):  # the launch was told of as lost already
                self._driver.free(buffer.pointer, self._copies)
        self._release(buffer.size_bytes)

    def _write(self, job: _Job, unfinished: str = "") -> None:
        """Write one launch, chunks of whole CTAs at a time."""
        cta_bytes, launch = job.layout.cta_bytes, replace(job.launch, unfinished=unfinished)
        step = STAGING_BYTES // cta_bytes
        for first in range(0, launch.ctas, step):
            size_bytes = min(step, launch.ctas - first) * cta_bytes
            address = self._on_host(job.buffer, first * cta_bytes, size_bytes)
            view = (ctypes.c_ubyte * size_bytes).from_address(address)
            self._writer.write(replace(launch, first_cta=first), memoryview(view).cast("B"))
        self._on_written()

    def _on_host(self, buffer: Buffer, offset_bytes: int, size_bytes: int) -> int:
        """Address on the host of a part of a buffer, copied where it has to be."""
        if buffer.host:
            return buffer.host + offset_bytes
        self._driver.copy_to_host(self._staging, buffer.pointer + offset_bytes, size_bytes, self._copies)
        self._wait(self._driver.record_event(self._copies))
        return self._staging

    def _wait(self, event: int) -> None:
        """Look at an event until it has passed; only this thread waits."""
        while not self._driver.has_passed(event):
            time.sleep(_POLL_SECONDS)
        self._driver.destroy_event(event)


def lost_launch(where: str, error: Exception) -> Problem:
    """The problem of a launch that ran with records which never reached the capture."""
    what, cure = (error.what, error.cure) if isinstance(error, KperfError) else (f"{error!r}.", "")
    return Problem("lost-launch", where, f"Its records were lost: {what}", cure)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"
