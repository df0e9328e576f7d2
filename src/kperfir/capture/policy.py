"""Which launches are recorded, and the count of what became of all."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal

from kperfir.capture.schema import Problem
from kperfir.errors import PlanError
from kperfir.plan import Plan

HANG_TIMEOUT_S = 10.0

Outcome = Literal[
    "recorded",
    "sampled-out",
    "autotune-trial",
    "graph-capture",
    "file-full",
    "no-buffer",
    "excluded",
    "not-instrumented",
]


@dataclass(frozen=True)
class Policy:
    """Bounds of a recording.

    Attributes:
        plan: which kernels and launches it wants.
        limit_bytes: size at which the capture file takes no more launches.
        hang_timeout_s: a launch that records into host memory and runs longer is written
            as one that has not finished.

    Raises:
        PlanError: the limit or the time is negative.
    """

    plan: Plan = field(default_factory=Plan)
    limit_bytes: int = 1 << 30
    hang_timeout_s: float = HANG_TIMEOUT_S

    def __post_init__(self) -> None:
        if self.limit_bytes < 0:
            raise PlanError(f"limit_bytes is {self.limit_bytes}, and cannot be negative.", "Use 0 or more.")
        if not 0 <= self.hang_timeout_s < float("inf"):
            raise PlanError(f"hang_timeout_s cannot be {self.hang_timeout_s}.", "Use a number of seconds, 0 or more.")

    def wants(self, name: str) -> bool:
        """Whether kernels of this name are recorded at all."""
        return self.plan.wants(name)

    def samples(self, number: int) -> bool:
        """Whether launch `number` of a kernel, counted from 0, is recorded."""
        return number in self.plan.launches

    def fits(self, bytes_so_far: int, payload_bytes: int) -> bool:
        """Whether the file takes another launch."""
        return bytes_so_far + payload_bytes <= self.limit_bytes

    def full(self, name: str) -> Problem:
        """What to tell the user when a launch does not fit; the tally counts how often."""
        what = f"A launch was not recorded: its records would pass the capture's limit of {self.limit_bytes >> 20} MiB."
        return Problem("file-full", name, what, "Ask for fewer slots or launches, or a higher limit.")


class LaunchTally:
    """Counts launches by kernel name and outcome; safe in threads. A forked process counts its own."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)

    def _locked(self) -> threading.Lock:
        if os.getpid() != self._process:
            self._reset()
        return self._lock

    def add(self, name: str, outcome: Outcome) -> None:
        """Count one launch."""
        with self._locked():
            self._counts[name][outcome] += 1

    def snapshot(self) -> dict[str, dict[str, int]]:
        """The counts so far, as `schema.Tally` holds them."""
        with self._locked():
            return {name: dict(counts) for name, counts in self._counts.items()}
