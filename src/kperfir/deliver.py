"""Delivers each recorded launch, decoded, to a callback when its records are written."""

from __future__ import annotations

from collections.abc import Callable

from kperfir.capture.reader import Capture, Chunk, Recorded
from kperfir.capture.schema import Kernel, Launch, Message, Problem, Session
from kperfir.capture.writer import CaptureWriter
from kperfir.trace import LaunchTrace, Trace

OnLaunch = Callable[[LaunchTrace], object]


class Delivery:
    """Puts the messages of launches together and hands each whole launch over.

    A launch is decoded by itself, so one that is too short to measure the frequency by
    has cycles alone, even where the capture gives it nanoseconds. All chunks of one launch
    come from one thread, so there is no lock, which a fork could leave held.
    """

    def __init__(self, writer: CaptureWriter, session: Session, on_launch: OnLaunch) -> None:
        self._writer = writer
        self._session = session
        self._on_launch = on_launch
        self._kernels: dict[int, Kernel] = {}
        self._chunks: dict[int, list[Chunk]] = {}
        self._failed = False

    def written(self, message: Message, payload: bytes | memoryview) -> None:
        """A message was written. Blocks are copied: their memory is used again."""
        if isinstance(message, Kernel):
            self._kernels[message.id] = message
        elif isinstance(message, Launch) and not message.unfinished:
            chunk = Chunk(message.first_cta, memoryview(bytes(payload)))
            kernel = self._kernels[message.kernel]
            chunks = self._chunks.setdefault(message.id, [])
            chunks.append(chunk)
            if sum(len(c.payload) for c in chunks) >= message.ctas * kernel.layout.cta_bytes:
                self._deliver(kernel, message, tuple(self._chunks.pop(message.id)))

    def _deliver(self, kernel: Kernel, launch: Launch, chunks: tuple[Chunk, ...]) -> None:
        recorded = Recorded(launch, chunks)
        capture = Capture(self._writer.path, self._session, {kernel.id: kernel}, (recorded,), (), {}, False)
        try:
            self._on_launch(Trace((capture,)).launches[0])
        except (Exception, SystemExit) as error:  # it must reach neither the program nor the thread that writes
            self._report(f"{kernel.name}, launch {launch.number}", error)

    def _report(self, where: str, error: BaseException) -> None:
        if self._failed:
            return
        self._failed = True
        text = " ".join(str(error).split())[:300]
        what = f"The callback of the recording raised {type(error).__name__}{': ' + text if text else ''}."
        self._writer.write(Problem("callback-failed", where, what, "Later failures of it are not told of."))
