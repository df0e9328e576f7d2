"""From device memory to the capture file, behind the back of the user's launches.

A launch gets memory in the order of its own stream and leaves an event behind it. A
thread looks whether events have passed, copies what lies before them on a stream of
its own through one pinned buffer, and writes it. Nothing waits for a stream.
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
from kperfir.capture.schema import Launch, Problem
from kperfir.capture.writer import CaptureWriter
from kperfir.errors import DeviceError, KperfError
from kperfir.records import Layout

STAGING_BYTES = 64 << 20
IN_FLIGHT_BYTES = 4 << 30
_POLL_SECONDS = 0.0005


@dataclass(frozen=True)
class Buffer:
    """Scratch memory of one launch; what Triton's allocator protocol asks for."""

    pointer: int
    size_bytes: int

    def data_ptr(self) -> int:
        """Address on the device."""
        return self.pointer


@dataclass(frozen=True)
class _Job:
    launch: Launch
    layout: Layout
    buffer: Buffer
    event: int


class Drain:
    """Buffers of launches on one device, and the thread that empties them."""

    def __init__(self, driver: Driver, writer: CaptureWriter, on_written: Callable[[], None]) -> None:
        self._driver = driver
        self._writer = writer
        self._on_written = on_written
        self._process = os.getpid()
        self._context = driver.current_context()
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
        """Give a buffer back whose launch did not happen."""
        with suppress(DeviceError):  # the launch has failed already, and that error is the one to see
            self._driver.free(buffer.pointer, stream)
        self._release(buffer.size_bytes)

    def submit(self, launch: Launch, layout: Layout, buffer: Buffer, stream: int) -> None:
        """Hand over a launch that is on its stream.

        Raises:
            DeviceError: the buffer is the caller's still.
        """
        self._jobs.put(_Job(launch, layout, buffer, self._driver.record_event(stream)))

    def close(self) -> None:
        """Write everything that was submitted, and end the thread. This waits for the launches.

        A forked process has neither the thread nor a device it could ask.
        """
        if os.getpid() != self._process:
            return
        self._jobs.put(None)
        self._thread.join()
        with suppress(DeviceError):  # a device that failed is told of by the launches lost on it
            self._driver.free_pinned(self._staging)
            self._driver.destroy_stream(self._copies)

    def _release(self, size_bytes: int) -> None:
        with self._lock:
            self._in_flight_bytes -= size_bytes

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._driver.set_context(self._context)
                self._write(job)
            except Exception as error:  # of whatever kind: this thread must outlive it, and the launch be accounted for
                self._lost(job.launch, error)
            finally:
                self._free(job.buffer)

    def _lost(self, launch: Launch, error: Exception) -> None:
        self._writer.write(lost_launch(f"launch {launch.id}", error))

    def _free(self, buffer: Buffer) -> None:
        with suppress(DeviceError):  # the launch was told of as lost already
            self._driver.free(buffer.pointer, self._copies)
        self._release(buffer.size_bytes)

    def _write(self, job: _Job) -> None:
        """Copy and write one launch, chunks of whole CTAs at a time."""
        self._wait(job.event)
        cta_bytes = job.layout.cta_bytes
        step = STAGING_BYTES // cta_bytes
        for first in range(0, job.launch.ctas, step):
            size_bytes = min(step, job.launch.ctas - first) * cta_bytes
            self._driver.copy_to_host(self._staging, job.buffer.pointer + first * cta_bytes, size_bytes, self._copies)
            self._wait(self._driver.record_event(self._copies))
            view = (ctypes.c_ubyte * size_bytes).from_address(self._staging)
            self._writer.write(replace(job.launch, first_cta=first), memoryview(view).cast("B"))
        self._on_written()

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
