"""Reads a capture file, up to the last whole batch where it was cut short."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from kperfir.capture.schema import FORMAT_VERSION, End, Kernel, Launch, Message, Problem, Session, Shares, Tally
from kperfir.capture.writer import FORMAT_NAME, SCHEMA, child_captures
from kperfir.errors import CaptureError

_NO_SHARES = "the recording did not come to its end, or left them out"
_INT64 = range(-(1 << 63), 1 << 63)
_INT32 = range(-(1 << 31), 1 << 31)
_KINDS: dict[str, type[Message]] = {m.kind: m for m in (Session, Kernel, Shares, Launch, Problem, Tally, End)}


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
        shares: kernel id -> where the instructions of its scopes lie; see `shares_of`.
    """

    path: Path
    session: Session
    kernels: dict[int, Kernel]
    launches: tuple[Recorded, ...]
    problems: tuple[Problem, ...]
    tally: dict[str, dict[str, int]]
    complete: bool
    shares: dict[int, Shares] = field(default_factory=dict)

    def shares_of(self, kernel: int) -> Shares:
        """Of one kernel; where the capture has none, it says why."""
        return self.shares.get(kernel, Shares(kernel, absent=_NO_SHARES))


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


def read_captures(path: str | Path) -> tuple[tuple[Capture, ...], tuple[Problem, ...]]:
    """Read a capture file or all of a directory; and what is wrong with those of a directory that cannot be read.

    Raises:
        CaptureError: the file, or every file of the directory, cannot be read.
    """
    captures: list[Capture] = []
    problems: list[Problem] = []
    files = capture_files(path)
    for file in files:
        try:
            captures.append(read_capture(file))
        except CaptureError as error:
            if len(files) == 1 + len(problems):
                raise
            problems.append(Problem("unreadable-capture", str(file), error.what, error.cure))
    if Path(path).is_file():
        problems += _children(Path(path), captures[0].session.run)
    return tuple(captures), tuple(problems)


def _children(place: Path, run: str) -> list[Problem]:
    """What child processes of the same run recorded lies beside a capture, and is not read with it."""
    beside = [f for f in child_captures(place) if _run_of(f) == run]
    if not beside:
        return []
    names = ", ".join([f.name for f in beside[:4]] + ["..."] * (len(beside) > 4))
    what = f"{len(beside)} child processes recorded as well: {names}."
    return [Problem("children", str(place), what, "Report a folder to see all captures in it together.", len(beside))]


def _run_of(file: Path) -> str | None:
    try:
        return next((m.run for m, _ in _messages(file, []) if isinstance(m, Session)), None)
    except CaptureError:
        return None


def read_capture(path: str | Path) -> Capture:
    """Read one capture file.

    Raises:
        CaptureError: it is missing, empty, foreign, of a newer format, or holds no whole message.
    """
    place = Path(path)
    problems: list[Problem] = []
    messages = list(_messages(place, problems))
    sessions = [m for m, _ in messages if isinstance(m, Session)]
    if not sessions and problems:
        raise CaptureError(f"{place} is broken: {problems[0].what}", "Record again.")
    if not sessions:
        raise CaptureError(f"{place} ends before its first message.", "The program died at its start; record again.")
    kernels = {m.id: m for m, _ in messages if isinstance(m, Kernel)}
    complete = any(isinstance(m, End) for m, _ in messages)
    if not complete:
        what = "The capture was not closed: the program died, or the disk was full. What was written before is shown."
        problems.append(Problem("truncated", str(place), what))
    shares = {m.id: m for m, _ in messages if isinstance(m, Shares)}
    tally = [m.launches for m, _ in messages if isinstance(m, Tally)]
    noted = [m for m, _ in messages if isinstance(m, Problem)]
    parts = [(m, p) for m, p in messages if isinstance(m, Launch)]
    known = [(m, p) for m, p in parts if m.kernel in kernels]
    if len(known) < len(parts):
        what = f"{len(parts) - len(known)} launches are of a kernel that the capture does not describe."
        problems.append(Problem("unreadable", str(place), what, "They are left out.", len(parts) - len(known)))
    launches = _launches(known)
    noted_and_found = (*noted, *problems)
    counts = tally[-1] if tally else {}
    return Capture(place, sessions[-1], kernels, launches, noted_and_found, counts, complete, shares)


def _messages(place: Path, problems: list[Problem]) -> Iterator[tuple[Message, memoryview]]:
    """All that can be read; what cannot is noted."""
    for batch in _batches(place, problems):
        for row in range(batch.num_rows):
            kind, info, payload = (batch.column(name)[row] for name in ("kind", "info", "payload"))
            message = _message(place, kind.as_py(), info.as_py(), problems)
            if message is not None:
                yield message, memoryview(payload.as_buffer() or b"")


def _batches(place: Path, problems: list[Problem]) -> Iterator[pa.RecordBatch]:
    """Whole batches; a stream that ends in the middle of a batch ends before it."""
    stream = _open(place)
    for number in itertools.count():
        try:
            batch = stream.read_next_batch()
        except (StopIteration, pa.ArrowException, OSError):
            return
        try:
            batch.validate(full=True)  # Arrow trusts offsets and text until it is asked.
        except pa.ArrowException as error:
            what = f"Batch {number} holds what no recording writes: {error}."
            problems.append(Problem("unreadable", str(place), what, "It is left out."))
        else:
            yield batch


def _open(place: Path) -> pa.RecordBatchReader:
    try:
        if place.stat().st_size == 0:
            raise CaptureError(f"{place} is empty.", "The program died before it recorded anything; record again.")
        source = pa.memory_map(str(place), "r")
    except FileNotFoundError:
        raise CaptureError(f"There is no file {place}.", "Check the path.") from None
    except OSError as error:
        raise CaptureError(f"{place} cannot be read: {error.strerror or error}.", "Check the path.") from None
    try:
        stream = pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError):
        raise _foreign(place) from None
    _check_format(place, stream.schema)
    return stream


def _foreign(place: Path) -> CaptureError:
    return CaptureError(f"{place} is no kperfir capture.", "Give it a file that `kperfir record` wrote.")


def _check_format(place: Path, schema: pa.Schema) -> None:
    metadata = schema.metadata or {}
    version = metadata.get(b"version", b"")
    if metadata.get(b"format") != FORMAT_NAME.encode() or not version.isdigit():
        raise _foreign(place)
    if int(version) > FORMAT_VERSION:
        raise CaptureError(
            f"{place} has capture format {int(version)}; this kperfir reads up to {FORMAT_VERSION}.",
            "Update kperfir to read it.",
        )
    if any(schema.get_field_index(f.name) < 0 or schema.field(f.name).type != f.type for f in SCHEMA):
        raise _foreign(place)


def _message(place: Path, kind: str, info: str, problems: list[Problem]) -> Message | None:
    """A kind that this version does not know is passed over."""
    known = _KINDS.get(kind)
    if known is None:
        return None
    try:
        message = known.from_json(info)
        if not _fits(message, known) or (isinstance(message, Kernel) and not _is_sound(message)):
            raise ValueError("its fields do not fit together")
        return message
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"A message of kind '{kind}' cannot be read: {error}."
        problems.append(Problem("unreadable", str(place), what, "It is left out."))
        return None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value that came from JSON is what its dataclass declares; NumPy holds 64-bit integers."""
    origin, inside = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return isinstance(value, hint) and all(_fits(getattr(value, name), of) for name, of in _declared(hint))
    if origin is Literal:
        return value in inside
    if origin in (UnionType, Union):  # of a Literal and None it is the latter
        return any(_fits(value, of) for of in inside)
    if origin is dict:
        return type(value) is dict and all(_fits(k, inside[0]) and _fits(v, inside[1]) for k, v in value.items())
    if origin is tuple and type(value) is tuple:
        each = inside[:1] * len(value) if inside[-1] is Ellipsis else inside
        return len(value) == len(each) and all(map(_fits, value, each))
    return type(value) is hint and (hint is not int or value in _INT64)


@cache
def _declared(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((f.name, hints[f.name]) for f in fields(kind))


def _is_sound(kernel: Kernel) -> bool:
    """Whether ids are places in the table, a region's parent comes before it, and sizes are some."""
    regions, sites = kernel.table.regions, kernel.table.sites
    nested = all(r.id == at and (r.parent is None or r.parent in range(at)) for at, r in enumerate(regions))
    placed = all(s.id == at and s.region in range(len(regions)) for at, s in enumerate(sites))
    accesses = kernel.table.accesses
    numbered = all(a.id == at and a.operation in range(len(accesses)) for at, a in enumerate(accesses))
    wide = all(a.width_bytes > 0 and a.width_bytes in _INT32 and a.line in _INT32 for a in accesses)
    counted = all(n in _INT32 for n in (kernel.layout.warp_step, kernel.layout.warps, kernel.layout.slots))
    return nested and placed and numbered and wide and counted and kernel.layout.cta_bytes in _INT64


def _launches(parts: list[tuple[Launch, memoryview]]) -> tuple[Recorded, ...]:
    """Chunks of one launch together; of one that was written unfinished and then again, the later."""
    grouped: dict[int, list[tuple[Launch, memoryview]]] = {}
    for launch, payload in parts:
        before = grouped.get(launch.id)
        if before and before[0][0].unfinished and launch.first_cta == 0:
            before.clear()
        grouped.setdefault(launch.id, []).append((launch, payload))
    return tuple(
        Recorded(group[0][0], tuple(Chunk(launch.first_cta, payload) for launch, payload in group))
        for _, group in sorted(grouped.items())
    )
