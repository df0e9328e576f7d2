"""What a capture file holds, as frozen dataclasses that print to JSON and back.

A capture file is an Arrow IPC stream of one schema, a row a message:

    kind     string        "session", "kernel", "launch", "problem", "tally", "end"
    id       int64         kernel id, launch id, else 0
    info     string        JSON of the dataclass below
    payload  large_binary  launch: scratch blocks of whole CTAs; else empty

The session message comes first, a kernel's message before its first launch. A
launch larger than a chunk is several messages with the same id. "tally" counts
everything seen so far and is written whenever a launch is and at the end; "end"
is written by a clean close, so its absence says that the program died.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from kperfir.records import Layout, Table

FORMAT_VERSION = 1

Source = Literal["gpu", "interpreter"]


@dataclass(frozen=True)
class Message:
    """Base: JSON out and in. Unknown keys, a newer writer's, are passed over."""

    kind: ClassVar[str] = ""

    def to_json(self) -> str:
        """The `info` column."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError: the text is no such message.
        """
        data = json.loads(text)
        known = {f.name for f in fields(cls)}
        return cls(**{k: cls._revive(k, v) for k, v in data.items() if k in known})

    @classmethod
    def _revive(cls, key: str, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Session(Message):
    """The program that was recorded.

    Attributes:
        source: "interpreter" times are host nanoseconds of Triton's interpreter,
            not a GPU's.
        plan: printed form of the plan.
        target: for example "cuda:90", "hip:gfx942", "interpreter".
        started_unix_ns: host clock at the start.
        run: the same for all processes of one recorded program, and for no other.
    """

    kind: ClassVar[str] = "session"

    source: Source
    plan: str
    target: str = ""
    device_name: str = ""
    kperfir_version: str = ""
    triton_version: str = ""
    torch_version: str = ""
    python_version: str = ""
    argv: tuple[str, ...] = ()
    process_id: int = 0
    started_unix_ns: int = 0
    run: str = ""


@dataclass(frozen=True)
class Resources:
    """What a binary needs; None where it is not known (no GPU loaded it)."""

    shared_bytes: int | None = None
    registers: int | None = None
    spills: int | None = None
    warps: int | None = None
    ctas_per_sm: int | None = None


@dataclass(frozen=True)
class Kernel(Message):
    """One instrumented kernel binary.

    Attributes:
        name: function name. hash: Triton's hash of the instrumented binary.
        place_reason: why the rings lie where they do, in words.
        num_ctas: CTAs in a cluster; the grid below counts programs, not CTAs.
        clock: "cycles" for an SM's clock; "ns" for global time and for interpreter times.
    """

    kind: ClassVar[str] = "kernel"

    id: int
    name: str
    hash: str
    target: str
    layout: Layout
    table: Table
    place_reason: str = ""
    num_ctas: int = 1
    clock: Literal["cycles", "ns"] = "cycles"
    plain: Resources = field(default_factory=Resources)
    instrumented: Resources = field(default_factory=Resources)

    @classmethod
    def _revive(cls, key: str, value: Any) -> Any:
        revivers: dict[str, Callable[[Any], Any]] = {
            "layout": lambda v: Layout(**v),
            "table": Table.from_json,
            "plain": lambda v: Resources(**v),
            "instrumented": lambda v: Resources(**v),
        }
        return revivers[key](value) if key in revivers else super()._revive(key, value)


@dataclass(frozen=True)
class Launch(Message):
    """One recorded launch, or one chunk of it.

    Attributes:
        id: number of the recorded launch in this file. kernel: id of its kernel.
        number: how many launches of this kernel came before it, recorded or not; an autotuner's trials
            and launches that a graph captures are not counted.
        grid: programs in x, y, z.
        first_cta: linear id of the first CTA in this chunk's payload.
        ctas: CTAs of the whole launch.
        enqueued_unix_ns: host clock when it was enqueued.
    """

    kind: ClassVar[str] = "launch"

    id: int
    kernel: int
    number: int
    grid: tuple[int, int, int]
    ctas: int
    first_cta: int = 0
    device: int = 0
    stream: int = 0
    enqueued_unix_ns: int = 0


@dataclass(frozen=True)
class Problem(Message):
    """Something the user must read: a kernel not recorded, a scope without anchor, ...

    Attributes:
        code: stable name, for programs: "not-recorded", "no-anchor", ...
        where: kernel, scope, file and line as far as known.
        what, cure: sentences. count: how often it happened, for programs; `what` says it too.
    """

    kind: ClassVar[str] = "problem"

    code: str
    where: str
    what: str
    cure: str = ""
    count: int = 1


@dataclass(frozen=True)
class Tally(Message):
    """Launches seen per kernel name, and what became of them.

    Attributes:
        launches: {kernel name: {outcome: count}} with outcome "recorded",
            "sampled-out", "autotune-trial", "graph-capture", "file-full",
            "no-buffer", "excluded", "not-instrumented".
    """

    kind: ClassVar[str] = "tally"

    launches: dict[str, dict[str, int]]


@dataclass(frozen=True)
class End(Message):
    """A clean close. exit_code: of a program that ended while it was recorded; None where it went on."""

    kind: ClassVar[str] = "end"

    exit_code: int | None = None
