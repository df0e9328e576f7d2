"""Writes a capture file: one Arrow record batch a message, flushed as it comes."""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import util
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa

from kperfir.capture.schema import FORMAT_VERSION, End, Kernel, Message, Session
from kperfir.errors import CaptureError

FORMAT_NAME = "kperfir-capture"
SCHEMA = pa.schema(
    [("kind", pa.string()), ("id", pa.int64()), ("info", pa.string()), ("payload", pa.large_binary())],
    metadata={"format": FORMAT_NAME, "version": str(FORMAT_VERSION)},
)


def child_capture(parent: Path, process: int) -> Path:
    """The capture of a child process lies beside its parent's."""
    return parent.with_name(f"{parent.stem}.{process}.kperf")


def child_captures(parent: Path) -> list[Path]:
    """Those that lie there, of this run or of earlier ones."""
    return sorted(parent.parent.glob(f"{glob.escape(parent.stem)}.[0-9]*.kperf"))


class CaptureWriter:
    """An open capture file. All methods may be called from any thread.

    A disk that fills up while a program runs must not harm the program: the first
    failed write closes the file, later messages are counted in `dropped`, and
    `failure` holds the error.

    A forked process inherits the writer but not the file: its first message opens a
    capture of its own beside this one, with the same descriptions in it.

    Args:
        before_end: called in such a process before its capture ends.

    Attributes:
        path: as given. place: the same in every folder that the program changes to.
        after_write: called with each message, and its blocks, behind the write that took it.

    Raises:
        CaptureError: the file cannot be created.
    """

    def __init__(self, path: str | Path, before_end: Callable[[], None] = lambda: None) -> None:
        self.path = Path(path)
        self.place = self.path.absolute()
        self.before_end = before_end
        self.after_write: Callable[[Message, bytes | memoryview], None] = lambda message, payload: None
        self.dropped = 0
        self.failure: OSError | None = None
        self._described: list[Session | Kernel] = []
        self._inherited: list[object] = []
        self._own()
        try:
            _check_replaceable(self.place)
            self._create()
        except OSError as error:
            raise CaptureError(
                f"The capture file {self.path} cannot be written: {error.strerror or error}.",
                "Choose another place with -o.",
            ) from None

    def _own(self) -> None:
        """Belong to this process; a lock that another thread held at a fork is never given back."""
        self._process = os.getpid()
        self._lock = threading.Lock()

    def _create(self) -> None:
        # Buffered, because a bare file may write less than it was given and Arrow does not look.
        self._file: BinaryIO = self.place.open("wb")
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        self._file.flush()
        self._bytes = self._file.tell()
        self._open = True

    @property
    def bytes_written(self) -> int:
        """Size of this process's file so far, to its last whole message."""
        return self._bytes if self.is_own else 0

    @property
    def is_own(self) -> bool:
        """Whether this process has a file: false in a forked one that has written nothing."""
        return os.getpid() == self._process

    def write(self, message: Message, payload: bytes | memoryview = b"") -> None:
        """Append one message, with its scratch blocks if it has any."""
        if not self.is_own:
            self._leave_parent()
        batch = _batch(message, payload)
        with self._lock:
            if not self._open:
                self.dropped += 1
                return
            if isinstance(message, (Session, Kernel)):
                self._described.append(message)
            try:
                self._stream.write_batch(batch)
                self._file.flush()
                self._bytes = self._file.tell()
            except OSError as error:
                self._fail(error)
                return
        self.after_write(message, payload)

    def _leave_parent(self) -> None:
        """Give this forked process a file of its own; the inherited one is neither written nor closed."""
        self._inherited += [self._stream, self._file]
        described, self._described = self._described, []
        self._own()
        self.path = self.place = child_capture(self.place, self._process)
        self.dropped = 0
        if not self._open:
            return
        try:
            self._create()
        except OSError as error:
            self._fail(error)
        for message in described:
            self.write(replace(message, process_id=self._process) if isinstance(message, Session) else message)
        # a worker of multiprocessing ends without unwinding what it inherited
        util.Finalize(None, self._end, exitpriority=0)

    def _end(self) -> None:
        if not self._open:
            return
        self.before_end()
        self.write(End())
        self.close()

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self.dropped += 1
        self._open = False
        with contextlib.suppress(OSError):
            self._file.close()

    def close(self) -> None:
        """End the stream; a second call does nothing, nor does one in a forked process that wrote nothing."""
        if not self.is_own:
            return
        with self._lock:
            if not self._open:
                return
            try:
                self._stream.close()
                self._file.close()
            except OSError as error:
                self._fail(error)
            self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_replaceable(path: Path) -> None:
    """A capture may replace a capture, and nothing else."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        head = file.read(4096)
    if FORMAT_NAME.encode() not in head:
        raise CaptureError(f"{path} exists and is no capture; it was left as it is.", "Choose another place with -o.")


def _batch(message: Message, payload: bytes | memoryview) -> pa.RecordBatch:
    number = int(getattr(message, "id", 0))
    buffer = pa.py_buffer(payload)
    length = pa.array([0, len(buffer)], pa.int64()).buffers()[1]
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, length, buffer])
    columns = [pa.array([message.kind]), pa.array([number], pa.int64()), pa.array([message.to_json()]), column]
    return pa.record_batch(columns, schema=SCHEMA)
