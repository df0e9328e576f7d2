"""Where the warps of a launch stood that never finished: the regions that were started and not ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kperfir.records import Region
from kperfir.trace import LaunchTrace


@dataclass(frozen=True)
class Stand:
    """One warp that did not end.

    Attributes:
        kernel: its name. launch: number of the launch among those of the kernel.
        regions: names of the regions that it was in, outermost first.
        turn: of the loop around its newest record, None where records do not say.
        last_kind, last_region, file, line: its newest record.
        clock: of that record.
    """

    kernel: str
    launch: int
    cta: int
    sm: int
    warp: int
    regions: tuple[str, ...]
    turn: int | None
    last_kind: str
    last_region: str
    file: str
    line: int
    clock: int


@dataclass(frozen=True)
class Together:
    """Warps of one launch that stood in one place: one of them, and the numbers of all, such as "0-3,7"."""

    stand: Stand
    ctas: str
    warps: str


def standing(launch: LaunchTrace) -> tuple[Stand, ...]:
    """One entry a warp that had written and did not end, by CTA and warp."""
    found, headers, table = launch.standing, launch.headers, launch.kernel.table
    stands = []
    for i in range(len(found.row)):
        row, site = int(found.row[i]), table.sites[int(found.site[i])]
        last, version = table.regions[site.region], int(found.version[i])
        # where no start is left without its end, the newest record tells what lies around it
        around = last.id if site.kind == "start" and last.origin != "event" else last.parent
        innermost = int(found.open_region[i]) if found.open_region[i] >= 0 else around
        stands.append(
            Stand(
                kernel=launch.kernel.name,
                launch=launch.launch.number,
                cta=int(headers.cta[row]),
                sm=int(headers.sm[row]),
                warp=int(found.warp[i]) * launch.kernel.layout.warp_step,
                regions=_path(innermost, table.regions),
                turn=version if version >= 0 else None,
                last_kind=site.kind,
                last_region=last.name,
                file=last.file,
                line=last.line,
                clock=int(found.clock[i]),
            )
        )
    return tuple(sorted(stands, key=lambda s: (s.cta, s.warp)))


def together(stands: Iterable[Stand]) -> tuple[Together, ...]:
    """Warps that stood in one place, whatever their clocks; those of several CTAs where the same warps did."""
    by_cta: dict[tuple[Stand, int], list[int]] = {}
    for stand in stands:
        place = replace(stand, cta=0, sm=0, warp=0, clock=0)
        by_cta.setdefault((place, stand.cta), []).append(stand.warp)
    by_warps: dict[tuple[Stand, str], list[int]] = {}
    for (place, cta), warps in by_cta.items():
        by_warps.setdefault((place, _ranges(warps)), []).append(cta)
    return tuple(Together(place, _ranges(ctas), warps) for (place, warps), ctas in by_warps.items())


def _path(region: int | None, regions: tuple[Region, ...]) -> tuple[str, ...]:
    names: list[str] = []
    while region is not None:
        names.insert(0, regions[region].name)
        region = regions[region].parent
    return tuple(names)


def _ranges(numbers: list[int]) -> str:
    """Numbers, with those that follow one another as a range."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
