"""What one instrumented compile is asked to do; all of it is part of the compile key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from kperfir.plan import Metric, Plan
from kperfir.records import NARROW_RECORD_BYTES, WIDE_RECORD_BYTES, Layout
from kperfir.windows import Chosen, Windows

DEFAULT_SLOTS = 256
MODULE_ATTRIBUTE = "kperf.request"
_COMPILE_HALF = ("records.py", "windows.py", "plan.py", "markers.py", "ir", "passes", "targets", "bridge", "language")


@dataclass(frozen=True)
class Request:
    """Attributes:
    regions: rules that place records.
    place: where the rings lie.
    slots: records a warp's ring holds.
    metric: what a record holds.
    warps_per_writer: of so many warps the first records; 0: the first of the CTA.
    ctas, sms, warps: windows of those that write.
    passes: keys of users' passes, in order.
    """

    regions: tuple[str, ...]
    place: Literal["shared", "global"] = "shared"
    slots: int = DEFAULT_SLOTS
    metric: Metric = "clock32"
    warps_per_writer: int = 1
    ctas: str = "all"
    sms: str = "all"
    warps: str = "all"
    passes: tuple[str, ...] = ()

    @staticmethod
    def of(plan: Plan) -> Request:
        """What a plan asks for where nothing is known of the kernel yet."""
        return Request(
            regions=plan.regions,
            place="global" if plan.buffer == "global" else "shared",
            slots=plan.slots or DEFAULT_SLOTS,
            metric=plan.metric,
            warps_per_writer=plan.warps_per_writer,
            ctas=str(plan.ctas),
            sms=str(plan.sms),
            warps=str(plan.warps),
        )

    @property
    def record_bytes(self) -> int:
        """Size of a record of this metric."""
        return NARROW_RECORD_BYTES if self.metric == "clock32" else WIDE_RECORD_BYTES

    @property
    def chosen(self) -> Chosen:
        """Who writes records."""
        return Chosen(*(Windows.parse(text) for text in (self.ctas, self.sms, self.warps)))

    def layout(self, warps: int) -> Layout:
        """Shape of a CTA's block, for a kernel of so many warps."""
        step = min(self.warps_per_writer or warps, warps)
        return Layout(-(-warps // step), self.slots, self.place, self.record_bytes, step)

    def to_json(self) -> str:
        """As the module's attribute and the kernel's metadata hold it."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Request:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return Request(**data | {"regions": tuple(data["regions"]), "passes": tuple(data["passes"])})

    def digest(self) -> str:
        """Differs whenever the instrumented binary may: by request, or by kperfir's own compile half."""
        return hashlib.sha256(f"{self.to_json()}-{_own_code()}".encode()).hexdigest()[:24]


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
