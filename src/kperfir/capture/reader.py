"""Reads a capture file, up to the last whole batch where it was cut short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kperfir.capture.schema import FORMAT_VERSION, End, Kernel, Launch, Message, Problem, Session, Tally
from kperfir.capture.writer import FORMAT_NAME
from kperfir.errors import CaptureError

_KINDS: dict[str, type[Message]] = {m.kind: m for m in (Session, Kernel, Launch, Problem, Tally, End)}


@dataclass(frozen=True)
class Chunk:
    """Scratch blocks of whole CTAs of one launch: CTA `first_cta` and those after it."""

    first_cta: int
    payload: memoryview


@dataclass(frozen=True)
class Recorded:
    """One recorded launch: what it was, and its blocks."""

    launch: Launch
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Capture:
    """Everything a capture file holds.

    Attributes:
        launches: in the order of their ids.
        problems: what the recording noted, and what reading found.
        tally: launches per kernel name and what became of them.
        complete: whether the file was closed cleanly.
    """

    path: Path
    session: Session
    kernels: dict[int, Kernel]
    launches: tuple[Recorded, ...]
    problems: tuple[Problem, ...]
    tally: dict[str, dict[str, int]]
    complete: bool


def capture_files(path: str | Path) -> list[Path]:
    """The file itself, or the captures in a directory, one a process.

    Raises:
        CaptureError: there is none.
    """
    place = Path(path)
    files = sorted(place.glob("*.kperf")) if place.is_dir() else [place]
    if not files:
        raise CaptureError(
            f"There is no capture in {place}.", "Record one with `kperfir record`; captures end in .kperf."
        )
    return files


def read_capture(path: str | Path) -> Capture:
    """Read one capture file.

    Raises:
        CaptureError: it is missing, empty, foreign, of a newer format, or holds no whole message.
    """
    place = Path(path)
    problems: list[Problem] = []
    messages = list(_messages(place, problems))
    sessions = [m for m, _ in messages if isinstance(m, Session)]
    if not sessions:
        raise CaptureError(f"{place} ends before its first message.", "The program died at its start; record again.")
    kernels = {m.id: m for m, _ in messages if isinstance(m, Kernel)}
    complete = any(isinstance(m, End) for m, _ in messages)
    if not complete and not problems:
        problems.append(_cut(place))
    tally = [m.launches for m, _ in messages if isinstance(m, Tally)]
    noted = [m for m, _ in messages if isinstance(m, Problem)]
    launches = _launches([(m, p) for m, p in messages if isinstance(m, Launch) and m.kernel in kernels])
    return Capture(place, sessions[0], kernels, launches, (*noted, *problems), tally[-1] if tally else {}, complete)


def _messages(place: Path, problems: list[Problem]) -> Iterator[tuple[Message, memoryview]]:
    try:
        source = pa.memory_map(str(place), "r")
    except FileNotFoundError:
        raise CaptureError(f"There is no file {place}.", "Check the path.") from None
    except OSError as error:
        raise CaptureError(f"{place} cannot be read: {error}.", "Check the path.") from None
    if source.size() == 0:
        raise CaptureError(f"{place} is empty.", "The program died before it recorded anything; record again.")
    try:
        stream = pa.ipc.open_stream(source)
    except (pa.ArrowInvalid, OSError):
        raise CaptureError(f"{place} is no kperfir capture.", "Give it a file that `kperfir record` wrote.") from None
    _check_format(place, stream.schema)
    while True:
        try:
            batch = stream.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowInvalid, OSError):
            problems.append(_cut(place))
            return
        message = _message(place, batch, problems)
        if message is not None:
            yield message, memoryview(batch.column(3)[0].as_buffer())


def _check_format(place: Path, schema: pa.Schema) -> None:
    metadata = schema.metadata or {}
    if metadata.get(b"format") != FORMAT_NAME.encode():
        raise CaptureError(f"{place} is no kperfir capture.", "Give it a file that `kperfir record` wrote.")
    version = int(metadata.get(b"version", b"0"))
    if version > FORMAT_VERSION:
        raise CaptureError(
            f"{place} has capture format {version}; this kperfir reads up to {FORMAT_VERSION}.",
            "Update kperfir to read it.",
        )


def _message(place: Path, batch: pa.RecordBatch, problems: list[Problem]) -> Message | None:
    """A kind that this version does not know is passed over."""
    kind = _KINDS.get(batch.column(0)[0].as_py())
    if kind is None:
        return None
    try:
        return kind.from_json(batch.column(2)[0].as_py())
    except (ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        what = f"A message of kind '{kind.kind}' cannot be read: {error}."
        problems.append(Problem("unreadable", str(place), what, "It is left out."))
        return None


def _cut(place: Path) -> Problem:
    what = "The capture was not closed: the program died, or the disk was full. What was written before is shown."
    return Problem("truncated", str(place), what)


def _launches(parts: list[tuple[Launch, memoryview]]) -> tuple[Recorded, ...]:
    """Chunks of one launch together."""
    grouped: dict[int, list[tuple[Launch, memoryview]]] = {}
    for launch, payload in parts:
        grouped.setdefault(launch.id, []).append((launch, payload))
    return tuple(
        Recorded(group[0][0], tuple(Chunk(launch.first_cta, payload) for launch, payload in group))
        for _, group in sorted(grouped.items())
    )
