"""A trace: captures, decoded launch by launch, as one table of events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from kperfir.capture.reader import Capture, Recorded
from kperfir.capture.schema import Kernel, Launch, Problem
from kperfir.trace.addresses import (
    ADDRESSES,
    Addresses,
    addresses_table,
    join_addresses,
    known_accesses,
    read_addresses,
)
from kperfir.trace.align import Axis, Slope, align, given_axis, slope, timer_step_ns
from kperfir.trace.decode import I64, Headers, Records, decode, join, join_headers, read_headers
from kperfir.trace.events import EVENTS, events_table
from kperfir.trace.pair import Spans, pair
from kperfir.trace.problems import launch_problems
from kperfir.trace.sums import Sums, join_sums, read_sums


class _Clocks:
    """Both clocks of all launches of one capture, read once and when first asked for."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    @cached_property
    def headers(self) -> dict[int, Headers]:
        """Launch id -> headers, of all launches."""
        layouts = {k: kernel.layout for k, kernel in self._capture.kernels.items()}
        return {
            r.launch.id: join_headers([read_headers(c.payload, layouts[r.launch.kernel]) for c in r.chunks])
            for r in self._capture.launches
        }

    @cached_property
    def devices(self) -> dict[int, tuple[int | None, Slope]]:
        """Device -> step of its global timer, and what all its launches say of the frequency."""
        of: dict[int, list[Headers]] = {}
        for recorded in self._capture.launches:
            of.setdefault(recorded.launch.device, []).append(self.headers[recorded.launch.id])
        return {device: (timer_step_ns(h), sum(map(slope, h), Slope())) for device, h in of.items()}


@dataclass(frozen=True)
class LaunchTrace:
    """One recorded launch. Everything but its description is decoded when first asked for.

    Attributes:
        capture: number of its capture in the trace.
    """

    capture: int
    kernel: Kernel
    recorded: Recorded
    _clocks: _Clocks

    @property
    def launch(self) -> Launch:
        """What the recording noted of it."""
        return self.recorded.launch

    @cached_property
    def headers(self) -> Headers:
        """Headers of the CTAs that ran; where a GPU's records hold nanoseconds, so do their clocks."""
        headers = self._clocks.headers[self.launch.id]
        if self.kernel.clock == "cycles" or self.kernel.target == "interpreter":
            return headers
        return replace(headers, start_clock=headers.start_time_ns, end_clock=headers.end_time_ns)

    @cached_property
    def axis(self) -> Axis:
        """The common axis of its SMs."""
        if self.kernel.clock == "ns":
            return given_axis(self.headers)
        return align(self.headers, *self._clocks.devices[self.launch.device])

    @cached_property
    def spans(self) -> Spans:
        """Its spans and marks, as arrays."""
        return pair(self._records, self.kernel.table)

    @cached_property
    def sums(self) -> Sums | None:
        """What its regions took, where the kernel added that up itself; then it has no spans."""
        if not self.kernel.layout.holds_sums:
            return None
        return join_sums([read_sums(c.payload, self.kernel.layout) for c in self.recorded.chunks])

    @cached_property
    def addresses(self) -> Addresses | None:
        """Its accesses to memory, where the kernel traced those; then it has no spans."""
        found = self._all_addresses
        return None if found is None else known_accesses(found, self.kernel.table.accesses)

    @cached_property
    def _all_addresses(self) -> Addresses | None:
        layout = self.kernel.layout
        if not layout.holds_addresses:
            return None
        return join_addresses([read_addresses(c.payload, layout) for c in self.recorded.chunks])

    @cached_property
    def table(self) -> pa.Table:
        """Its spans and marks, as rows of `EVENTS`."""
        return events_table(self.capture, self.launch, self.kernel, self.axis, self.headers, self.spans)

    @property
    def written(self) -> int:
        """Records written by all warps of finished CTAs."""
        return int(self.written_by_warp.sum())

    @property
    def kept(self) -> int:
        """Those of them that were not overwritten and found a slot."""
        return int(np.minimum(self.written_by_warp, self.kernel.layout.slots).sum())

    @property
    def written_by_warp(self) -> I64:
        """Records written, shape (CTAs that ran, warps)."""
        return self._records.written if self._all_addresses is None else self._all_addresses.written

    @property
    def kept_clocks(self) -> tuple[I64, I64]:
        """Clocks of each warp's oldest and newest kept records, by CTA, then warp; of a warp without: first > last."""
        warp = self._records.row * self.written_by_warp.shape[1] + self._records.warp
        limits = np.iinfo(np.int64)
        first, last = (np.full(self.written_by_warp.size, at) for at in (limits.max, limits.min))
        np.minimum.at(first, warp, self._records.clock)
        np.maximum.at(last, warp, self._records.clock)
        return first, last

    @property
    def missing_ctas(self) -> int:
        """CTAs without a header."""
        return self.launch.ctas - len(self.headers)

    @property
    def unfinished_ctas(self) -> int:
        """CTAs with a header that did not reach their end."""
        return int(np.count_nonzero(~self.headers.finished))

    @property
    def rest_bytes(self) -> int:
        """Bytes that fill no block."""
        return sum(len(c.payload) % self.kernel.layout.cta_bytes for c in self.recorded.chunks)

    @property
    def cut(self) -> dict[int, int]:
        """Region id -> ends whose start was overwritten, or starts whose end found no slot."""
        return self.spans.cut

    @property
    def unpaired(self) -> dict[int, int]:
        """Region id -> other records without partner."""
        return self.spans.unpaired

    @property
    def headless(self) -> dict[int, int]:
        """Region id -> pieces whose instance began before the oldest kept record."""
        return self.spans.headless

    @property
    def unknown_sites(self) -> int:
        """Records of a site that the kernel's table does not have."""
        if self._all_addresses is None or self.addresses is None:
            return self.spans.unknown_sites
        return len(self._all_addresses.row) - len(self.addresses.row)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What decoding found."""
        return launch_problems(self)

    @cached_property
    def _records(self) -> Records:
        return join([decode(c.payload, self.kernel.layout) for c in self.recorded.chunks])


@dataclass(frozen=True)
class Trace:
    """One capture, or those of several processes.

    Attributes:
        noted: problems of captures that could not be read at all.
    """

    captures: tuple[Capture, ...]
    noted: tuple[Problem, ...] = ()

    @cached_property
    def launches(self) -> tuple[LaunchTrace, ...]:
        """All recorded launches, capture by capture, in the order of their ids."""
        return tuple(
            LaunchTrace(number, capture.kernels[recorded.launch.kernel], recorded, clocks)
            for number, capture in enumerate(self.captures)
            for clocks in [_Clocks(capture)]
            for recorded in capture.launches
        )

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Kernel binaries of all captures."""
        return tuple(kernel for capture in self.captures for kernel in capture.kernels.values())

    @property
    def is_interpreted(self) -> bool:
        """Whether times are those of Triton's interpreter."""
        return any(c.session.source == "interpreter" for c in self.captures)

    def events(self) -> pa.Table:
        """Every span and mark, as an Arrow table with the columns `EVENTS`."""
        tables = [launch.table for launch in self.launches]
        return pa.concat_tables(tables).unify_dictionaries() if tables else EVENTS.empty_table()

    def addresses(self) -> pa.Table:
        """Every traced access to memory, as an Arrow table with the columns `ADDRESSES`."""
        tables = [
            addresses_table(launch.capture, launch.launch, launch.kernel, launch.headers, launch.addresses)
            for launch in self.launches
            if launch.addresses is not None
        ]
        return pa.concat_tables(tables).unify_dictionaries() if tables else ADDRESSES.empty_table()

    def problems(self) -> tuple[Problem, ...]:
        """Everything the user must read: from recording, from reading, from decoding."""
        found = [p for c in self.captures for p in c.problems] + [
            p for launch in self.launches for p in launch.problems
        ]
        return (*self.noted, *found)
