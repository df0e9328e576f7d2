"""The one description of the bytes a kernel writes.

The compile half lays memory out by this page and the read half decodes by it;
neither states an offset of its own. Standard library only.

One CTA owns one block of scratch memory:

    offset  size
         0     4  magic, 0 where the CTA never ran
         4     4  linear CTA id: x + y * grid_x + z * grid_x * grid_y
         8     4  SM id
        12     4  state: 1 started, 2 finished
        16     8  clock at entry, cycles of this SM
        24     8  global time at entry, nanoseconds
        32     8  clock at exit
        40     8  global time at exit
        48    16  reserved, zero
        64  4 * w  records written by each warp; comes round after 2^32 bytes of them
         .     .  padding to 16 bytes
         .     .  one ring of `slots` records for each of the `w` warps

Where the kernel adds up instead (`strategy` "aggregate"), each warp has instead of a
ring one entry of 16 bytes a region: {u32 sum, u32 count, u32 greatest, u32 complement
of least}. All of it is zero before, so a count of 0 says that nothing was added. A sum
comes round where a warp spends 2^32 cycles in a region, about two seconds.

Where addresses are traced, a warp's ring is in two parts: `slots` heads {u32 site},
padded to 16 bytes, then `slots` times one u64 a lane: the address of that lane's access,
0 where the lane makes none. It does not wrap, so slot n is the warp's n-th access.

A record of 8 bytes is {u32 site, u32 clock bits 31:0}; one of 16 bytes is
{u32 site, u32 version, u64 clock}. Words are little-endian. A warp's n-th record
lies in slot n mod `slots`, so a ring that wrapped keeps the newest records and
its oldest is at (count mod slots). Where the site's region carries a scalar, its
32 bits stand in the place of the version. A layout that does not wrap keeps the first
`slots` records, and its count goes on. The count is kept in bytes, in 32 bits: past 2^32
bytes of records of one warp it begins again at 0, and so does a layout that does not wrap.
Accesses are counted one by one.

Rings in host memory can be read before their kernel ends. Their records have 16 bytes and
the whole block is zero before, so that a warp without a count yet shows how far it came:
a slot whose clock is 0 is not written, and where all are the newest has the greatest clock.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

MAGIC = 0x4B504631
STATE_STARTED = 1
STATE_FINISHED = 2

MAGIC_OFFSET = 0
CTA_OFFSET = 4
SM_OFFSET = 8
STATE_OFFSET = 12
START_CLOCK_OFFSET = 16
START_TIME_OFFSET = 24
END_CLOCK_OFFSET = 32
END_TIME_OFFSET = 40
HEADER_BYTES = 64
# a lowering writes the first four words in one store, and a clock with its time in another
assert (MAGIC_OFFSET, CTA_OFFSET, SM_OFFSET, STATE_OFFSET) == (0, 4, 8, 12)
assert (START_TIME_OFFSET, END_TIME_OFFSET) == (START_CLOCK_OFFSET + 8, END_CLOCK_OFFSET + 8)
COUNT_BYTES = 4
ALIGNMENT_BYTES = 16
NARROW_RECORD_BYTES = 8
WIDE_RECORD_BYTES = 16
SUMS_BYTES = 16
SITE_BYTES = 4
ADDRESS_BYTES = 8
SUM_OFFSET = 0
COUNT_OFFSET = 4
GREATEST_OFFSET = 8
LEAST_OFFSET = 12

MAX_STACK_SLOTS = 128

Place = Literal["shared", "global", "host", "stack"]
Role = Literal["sync", "issue", "wait"]
Origin = Literal["kernel", "scope", "rule", "mark", "pass", "value", "event"]
Kind = Literal["start", "end", "mark", "value"]
Scalar = Literal["int32", "uint32", "float32"]
AccessKind = Literal["load", "store", "async-copy", "atomic"]


@dataclass(frozen=True)
class Layout:
    """Shape of one CTA's scratch block.

    Attributes:
        warps: warps that have a ring, among those of all partitions and padding warps.
        slots: records a warp's ring holds; a power of two from 2, because rings are copied 16 bytes at a time.
            Of sums: regions.
        place: memory that holds the ring while the kernel runs.
        record_bytes: 8 (32-bit clock) or 16 (64-bit clock, or global time); of sums 16; of
            addresses 8 a lane, its head not counted.
        wraps: newer records overwrite the oldest; else those that find no slot are only counted.
        holds_sums: there are sums of regions in the place of rings.
        warp_step: ring n is that of the CTA's warp n * warp_step; warps between have none.
        lanes: of a warp, where addresses are traced; else 0.
    """

    warps: int
    slots: int
    place: Place = "shared"
    record_bytes: int = NARROW_RECORD_BYTES
    warp_step: int = 1
    wraps: bool = True
    holds_sums: bool = False
    lanes: int = 0

    def __post_init__(self) -> None:
        wrong = self.slots < 1 if self.holds_sums else self.slots < 2 or self.slots & (self.slots - 1)
        if self.warps < 1 or wrong:
            raise ValueError(f"no such layout: {self.warps} warps of {self.slots} slots")
        if self.warp_step < 1:
            raise ValueError(f"no such layout: a ring for each {self.warp_step} warps")
        known = (self.lanes * ADDRESS_BYTES,) if self.lanes else (NARROW_RECORD_BYTES, WIDE_RECORD_BYTES)
        if self.record_bytes not in known:
            raise ValueError(f"no such record: {self.record_bytes} bytes")
        if self.lanes and (self.wraps or self.holds_sums or self.place != "global"):
            raise ValueError("no such layout: addresses lie in global memory, the first of them")

    @property
    def cleared_bytes(self) -> int:
        """How much of a block must be zero before a launch, from its start on."""
        return self.cta_bytes if self.holds_sums or self.is_read_early else self.rings_offset_bytes

    @property
    def is_read_early(self) -> bool:
        """Whether the host can read the rings before the kernel ends."""
        return self.place == "host" and self.record_bytes == WIDE_RECORD_BYTES and not self.holds_sums

    @property
    def holds_addresses(self) -> bool:
        """Whether there are addresses of memory accesses in the place of times."""
        return self.lanes > 0

    @property
    def heads_bytes(self) -> int:
        """Size of the heads at the start of a ring; 0 where records hold their site themselves."""
        return _align(self.slots * SITE_BYTES) if self.lanes else 0

    @property
    def ring_bytes(self) -> int:
        """Size of one warp's ring."""
        return self.heads_bytes + self.slots * self.record_bytes

    @property
    def rings_offset_bytes(self) -> int:
        """Where the first ring starts."""
        return _align(HEADER_BYTES + self.warps * COUNT_BYTES)

    @property
    def cta_bytes(self) -> int:
        """Size of one CTA's block."""
        return self.rings_offset_bytes + self.warps * self.ring_bytes

    def ring_offset_bytes(self, warp: int) -> int:
        """Where the ring of `warp` starts."""
        return self.rings_offset_bytes + warp * self.ring_bytes


def _align(offset_bytes: int) -> int:
    return -(-offset_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@dataclass(frozen=True)
class Region:
    """Something that is timed: one row of the region table.

    Attributes:
        id: index in the table.
        name: what reports print: the user's name or the rule's kind, followed by
            ".issue" or ".wait" where the region holds that part of asynchronous work.
        role: "issue" and "wait" are the two facts of asynchronous operations.
        origin: what asked for it.
        parent: id of the enclosing region, None at the top.
        file, line: source position of the scope, or of the operation for a rule.
        operations: names of the IR operations that place its records.
        scalar: type of what its records carry; None where they carry nothing.
    """

    id: int
    name: str
    role: Role = "sync"
    origin: Origin = "scope"
    parent: int | None = None
    file: str = ""
    line: int = 0
    operations: tuple[str, ...] = ()
    scalar: Scalar | None = None

    @property
    def is_moment(self) -> bool:
        """Whether its records stand for moments, which have no time to add up."""
        return self.origin in ("mark", "value")


@dataclass(frozen=True)
class Site:
    """A place in the kernel that writes a record; its id is the record's first word.

    The compiler may copy a site, so one id may write from several instructions.
    `versioned` sites write a version: the number of the turn of a loop around them.
    An instance that a sibling region interrupts is recorded in pieces: piece 0
    opens it, later pieces continue the newest instance of the same region and warp.
    """

    id: int
    region: int
    kind: Kind
    piece: int = 0
    versioned: bool = False


@dataclass(frozen=True)
class Access:
    """An instruction whose addresses are traced; its id is what the head of a record holds.

    Attributes:
        operation: number of the memory operation it is part of: a load of many elements becomes several
            instructions, and a pipelined one stands in the prologue of its loop as well.
        instruction: as the compiler spells it, such as "ld.global.v4.b32".
        width_bytes: what one lane reads or writes.
        region: name of the innermost scope around it; empty where there is none.
        file, line: source position.
    """

    id: int
    operation: int
    kind: AccessKind
    width_bytes: int
    instruction: str
    region: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Table:
    """All regions and sites of one kernel; or the accesses whose addresses are traced."""

    regions: tuple[Region, ...]
    sites: tuple[Site, ...]
    accesses: tuple[Access, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries, as metadata and capture files hold them."""
        return {
            "regions": [asdict(r) for r in self.regions],
            "sites": [asdict(s) for s in self.sites],
            "accesses": [asdict(a) for a in self.accesses],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Table:
        """The inverse of `to_json`; unknown keys (a newer writer's) are passed over."""
        regions = tuple(Region(**_known(Region, r) | {"operations": tuple(r["operations"])}) for r in data["regions"])
        sites = tuple(Site(**_known(Site, s)) for s in data["sites"])
        return Table(regions, sites, tuple(Access(**_known(Access, a)) for a in data.get("accesses", ())))


def _known(kind: type[Region] | type[Site] | type[Access], data: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in data.items() if k in kind.__dataclass_fields__}
