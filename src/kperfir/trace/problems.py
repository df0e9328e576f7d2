"""What a decoded launch has that its reader must know: one `Problem` a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kperfir.capture.schema import Problem
from kperfir.fidelity import doubt
from kperfir.plan import MAX_SLOTS
from kperfir.trace.decode import WRAP_CYCLES

_COUNTED_BYTES = 1 << 32
_LEAST_CYCLES_A_RECORD = 2

if TYPE_CHECKING:
    from kperfir.capture.reader import Capture
    from kperfir.trace.model import LaunchTrace


def launch_problems(launch: LaunchTrace) -> tuple[Problem, ...]:
    """Problems of one launch, the worst first."""
    return (*_lost_ctas(launch), *_lost_records(launch), *_doubts(launch), *_long_counts(launch), *_long_sums(launch))


def scope_problems(captures: tuple[Capture, ...]) -> tuple[Problem, ...]:
    """Scopes that time something else than was marked, each once."""
    found: dict[Problem, None] = {}
    for capture in captures:
        for kernel in capture.kernels.values():
            shares = capture.shares_of(kernel.id).shares
            for n, kept in enumerate(kernel.fidelity):
                told = doubt(kept, shares[n] if n < len(shares) else None)
                if told is not None:
                    found[Problem("fidelity", f"{kernel.name}, {kept.file}:{kept.line}", *told)] = None
    return tuple(found)


def _where(launch: LaunchTrace) -> str:
    return f"{launch.kernel.name}, launch {launch.launch.number}"


def _lost_ctas(launch: LaunchTrace) -> list[Problem]:
    where, ctas, found = _where(launch), launch.launch.ctas, []
    is_read_early = launch.kernel.layout.is_read_early
    if launch.launch.unfinished:
        what = f"{launch.launch.unfinished} What its warps had written by then is here."
        found.append(Problem("unfinished-launch", where, what))
    if launch.rest_bytes:
        what = f"{launch.rest_bytes} bytes at the end of its data fill no CTA's block."
        found.append(Problem("rest", where, what, "They are left out.", launch.rest_bytes))
    if launch.missing_ctas < 0:
        what = f"{-launch.missing_ctas} CTAs more than the launch's {ctas} left a header: several launches are mixed."
        found.append(Problem("extra-ctas", where, what, "", -launch.missing_ctas))
    if launch.missing_ctas > 0:
        what = f"{launch.missing_ctas} of {ctas} CTAs left no header: they never ran, or the capture was cut."
        found.append(Problem("missing-ctas", where, what, "", launch.missing_ctas))
    if launch.unfinished_ctas:
        what = f"{launch.unfinished_ctas} of {ctas} CTAs did not reach their end, or have a broken header."
        cure = "" if is_read_early else "Their records are left out."
        found.append(Problem("unfinished-ctas", where, what, cure, launch.unfinished_ctas))
    return found


def _lost_records(launch: LaunchTrace) -> list[Problem]:
    where, slots, found = _where(launch), launch.kernel.layout.slots, []
    if launch.kept < launch.written:
        lost = launch.written - launch.kept
        wraps = launch.kernel.layout.wraps
        how = "were overwritten: a warp's ring holds" if wraps else "found no slot: a warp has"
        what = f"{lost} of {launch.written} records {how} {slots}.{_cut(launch)}"
        cure = _more_slots(int(launch.written_by_warp.max()))
        if len(launch.standing.row):
            what, cure = f"At least {what}", ""
        found.append(Problem("overwritten" if wraps else "dropped", where, what, cure, lost))
    for region, count in launch.unpaired.items():
        what = f"{count} records of region '{_name(launch, region)}' have no partner."
        found.append(Problem("unpaired", where, what, "They are left out.", count))
    for region, count in launch.headless.items():
        what = f"{count} pieces of region '{_name(launch, region)}' lost the beginning of their instance."
        found.append(Problem("headless", where, what, "They are left out.", count))
    if launch.unknown_sites:
        what = f"{launch.unknown_sites} records name a site that the kernel's table does not have."
        found.append(
            Problem("unknown-site", where, what, "They are left out; please report this.", launch.unknown_sites)
        )
    return found


def _more_slots(written: int) -> str:
    enough = 1 << (written - 1).bit_length()
    if enough > MAX_SLOTS:
        return f"{enough} slots would keep all, but a ring has {MAX_SLOTS} at most: record fewer regions."
    return f"{enough} slots would keep all."


def _cut(launch: LaunchTrace) -> str:
    if not launch.cut:
        return ""
    regions = ", ".join(f"'{_name(launch, region)}' {count}" for region, count in launch.cut.items())
    end = "start" if launch.kernel.layout.wraps else "end"
    return f" Spans whose {end} is among them are left out: {regions}."


def _long_sums(launch: LaunchTrace) -> list[Problem]:
    if not launch.kernel.layout.holds_sums:
        return []
    headers = launch.headers
    took = (headers.end_clock - headers.start_clock)[headers.finished]
    long = int(np.count_nonzero(took >= WRAP_CYCLES))
    if not long:
        return []
    what = f"{long} CTAs ran for 2^32 {launch.kernel.clock} or more, so their sums may have come round."
    return [Problem("long-sums", _where(launch), what, "Record instead of adding up.", long)]


def _long_counts(launch: LaunchTrace) -> list[Problem]:
    """A warp issues one instruction a cycle at most, and a record is at least two of them."""
    layout, headers = launch.kernel.layout, launch.headers
    if layout.holds_sums or layout.holds_addresses or launch.kernel.target == "interpreter":
        return []
    most = _COUNTED_BYTES // layout.record_bytes
    took_cycles = (headers.end_clock - headers.start_clock)[headers.finished]
    long = int(np.count_nonzero(took_cycles >= _LEAST_CYCLES_A_RECORD * most))
    if not long:
        return []
    what = (
        f"{long} CTAs ran so long that the count of a warp's records, which has room for {most}, may have come round."
    )
    return [Problem("long-count", _where(launch), what, "The numbers of records may be too low.", long)]


def _doubts(launch: LaunchTrace) -> list[Problem]:
    where, found = _where(launch), []
    ambiguous = int(np.count_nonzero(launch.spans.ambiguous))
    if ambiguous:
        what = f"{ambiguous} events have clocks that may be off by multiples of 2^32 cycles."
        found.append(Problem("ambiguous-clock", where, what, "They are marked in the events table.", ambiguous))
    if launch.axis.frequency == "unknown" and len(launch.spans.row):
        why, cure = "The launch was too short to measure", "Record a longer launch, or more launches."
        if not launch.headers.finished.any():
            why, cure = "No CTA had ended, which is needed to measure", ""
        what = f"{why} the clock frequency, so there are cycles but no nanoseconds."
        found.append(Problem("unknown-frequency", where, what, cure))
    return found


def _name(launch: LaunchTrace, region: int) -> str:
    return launch.kernel.table.regions[region].name
