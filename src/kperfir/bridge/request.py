"""What one instrumented compile is asked to do; all of it is part of the compile key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from kperfir.passes.iterations import IterationNumbers
from kperfir.plan import Metric, Plan, Strategy, Version
from kperfir.records import ADDRESS_BYTES, NARROW_RECORD_BYTES, SUMS_BYTES, WIDE_RECORD_BYTES, Layout, Place, Table
from kperfir.windows import Chosen, Windows

DEFAULT_SLOTS = 256
FLUSHED_SLOTS = 1024
ADDRESS_SLOTS = 32
STACK_SLOTS = 64
MODULE_ATTRIBUTE = "kperf.request"
SITES_ATTRIBUTE = "kperf.sites"
SCOPES_ATTRIBUTE = "kperf.scopes"
_COMPILE_HALF = (
    "records.py",
    "fidelity.py",
    "windows.py",
    "plan.py",
    "markers.py",
    "ir",
    "passes",
    "targets",
    "bridge",
    "language",
)


@dataclass(frozen=True)
class Request:
    """Attributes:
    regions: rules that place records.
    place: where the rings lie.
    slots: records a warp's ring holds.
    metric: what a record holds. strategy: whether records are kept or sums of regions.
    warps_per_writer: of so many warps the first records; 0: the first of the CTA.
    ctas, sms, warps: windows of those that write. iterations: turns of loops in which they do.
    version: whether records carry the turn of their loop, or of the outermost.
    passes: keys of users' passes, in order.
    addresses: kinds of access whose addresses are traced; then nothing is timed.
    slots_chosen: nobody asked for a number of slots.
    holds_scalars: a record carries a scalar, and all have room for it.
    file: the kernel's, which the table of regions names; Triton's own key does not have it.
    """

    regions: tuple[str, ...]
    place: Place = "shared"
    slots: int = DEFAULT_SLOTS
    metric: Metric = "clock32"
    strategy: Strategy = "circular"
    warps_per_writer: int = 1
    ctas: str = "all"
    sms: str = "all"
    warps: str = "all"
    iterations: str = "all"
    version: Version = "none"
    passes: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    slots_chosen: bool = False
    holds_scalars: bool = False
    file: str = ""

    @staticmethod
    def of(plan: Plan) -> Request:
        """What a plan asks for where nothing is known of the kernel yet."""
        return Request(
            regions=plan.regions,
            place=_place(plan),
            slots=plan.slots or _slots(plan),
            metric=plan.metric,
            strategy=plan.strategy,
            warps_per_writer=plan.warps_per_writer,
            ctas=str(plan.ctas),
            sms=str(plan.sms),
            warps=str(plan.warps),
            iterations=str(plan.iterations),
            version=plan.version,
            addresses=plan.addresses,
            slots_chosen=not plan.slots,
        )

    @property
    def record_bytes(self) -> int:
        """Size of a record of this metric, or of the sums of a region."""
        if self.strategy == "aggregate":
            return SUMS_BYTES
        return NARROW_RECORD_BYTES if self.counter_bits == 32 else WIDE_RECORD_BYTES

    @property
    def counter_bits(self) -> int:
        """What is read at a record; one with a version or a scalar has room for the whole clock, one in host memory
        needs it.
        """
        narrow = self.metric == "clock32" and self.version == "none" and self.place != "host"
        return 32 if narrow and not self.holds_scalars else 64

    def with_scalars(self) -> Request:
        """The same for a kernel whose records carry scalars.

        Slots in shared memory were chosen by the room that there is: rings of longer records keep their bytes.
        """
        wide = replace(self, holds_scalars=True)
        if self.place != "shared" or not self.slots_chosen or self.record_bytes == wide.record_bytes:
            return wide
        return replace(wide, slots=max(self.slots * self.record_bytes // wide.record_bytes, 2))

    def turns(self) -> IterationNumbers | None:
        """What numbers of turns the records in loops need, for one kernel."""
        if self.version == "none" and self.iterations == "all":
            return None
        return IterationNumbers(Windows.parse(self.iterations).ask_for_last, of_outermost=self.version == "tile")

    @property
    def chosen(self) -> Chosen:
        """Who writes records."""
        return Chosen(*(Windows.parse(text) for text in (self.ctas, self.sms, self.warps)))

    def layout(self, warps: int, regions: int = 1, warp_size: int = 32) -> Layout:
        """Shape of a CTA's block, for a kernel of so many warps and regions."""
        step = min(self.warps_per_writer or warps, warps)
        if self.addresses:
            size = warp_size * ADDRESS_BYTES
            return Layout(-(-warps // step), self.slots, "global", size, step, wraps=False, lanes=warp_size)
        slots = regions if self.strategy == "aggregate" else self.slots
        return Layout(
            warps=-(-warps // step),
            slots=slots,
            place=self.place,
            record_bytes=self.record_bytes,
            warp_step=step,
            wraps=self.strategy == "circular",
            holds_sums=self.strategy == "aggregate",
        )

    @lru_cache(64)  # noqa: B019 - frozen, and as many as there are kinds of plans
    def to_json(self) -> str:
        """As the module's attribute and the kernel's metadata hold it."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Request:
        """The inverse of `to_json`."""
        data = json.loads(text)
        listed = {name: tuple(data[name]) for name in ("regions", "passes", "addresses")}
        return Request(**data | listed)

    def digest(self) -> str:
        """Differs whenever the instrumented binary may: by request, or by kperfir's own compile half."""
        return hashlib.sha256(f"{self.to_json()}-{_own_code()}".encode()).hexdigest()[:24]


def _place(plan: Plan) -> Place:
    if plan.buffer == "host" or plan.buffer == "stack":
        return plan.buffer
    return "global" if plan.buffer == "global" or plan.strategy == "flush" or plan.addresses else "shared"


def _slots(plan: Plan) -> int:
    if plan.addresses:
        return ADDRESS_SLOTS
    if plan.strategy == "flush":
        return FLUSHED_SLOTS
    return STACK_SLOTS if plan.buffer == "stack" else DEFAULT_SLOTS


def site_pieces(table: Table) -> tuple[tuple[int, int], ...]:
    """Region and piece of each site."""
    return tuple((site.region, site.piece) for site in table.sites)


def pieces_text(table: Table) -> str:
    """The same as a module's attribute holds it, for text that is lowered later."""
    return ",".join(f"{region}.{piece}" for region, piece in site_pieces(table))


def read_pieces(text: str | None) -> tuple[tuple[int, int], ...]:
    """The inverse of `pieces_text`; none where there is no such attribute."""
    pairs = (pair.split(".") for pair in text.split(",")) if text else ()
    return tuple((int(region), int(piece)) for region, piece in pairs)


@lru_cache(maxsize=1)
def _own_code() -> str:
    """Hash of the sources that decide what is compiled."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for name in _COMPILE_HALF:
        path = root / name
        for file in [path] if path.is_file() else sorted(path.glob("*.py")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
