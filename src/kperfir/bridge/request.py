"""What one instrumented compile is asked to do; all of it is part of the compile key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from kperfir.plan import Plan

DEFAULT_SLOTS = 256
MODULE_ATTRIBUTE = "kperf.request"
_COMPILE_HALF = ("records.py", "plan.py", "markers.py", "ir", "passes", "targets", "bridge", "language")


@dataclass(frozen=True)
class Request:
    """Attributes:
    regions: rules that place records.
    place: where the rings lie.
    slots: records a warp's ring holds.
    """

    regions: tuple[str, ...]
    place: Literal["shared", "global"] = "shared"
    slots: int = DEFAULT_SLOTS

    @staticmethod
    def of(plan: Plan) -> Request:
        """What a plan asks for where nothing is known of the kernel yet."""
        place: Literal["shared", "global"] = "global" if plan.buffer == "global" else "shared"
        return Request(plan.regions, place, plan.slots or DEFAULT_SLOTS)

    def to_json(self) -> str:
        """As the module's attribute and the kernel's metadata hold it."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Request:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return Request(tuple(data["regions"]), data["place"], int(data["slots"]))

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
