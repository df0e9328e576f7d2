"""Builds the table of regions and sites while records are placed."""

from __future__ import annotations

from dataclasses import replace

from kperfir.records import Access, AccessKind, Kind, Origin, Region, Role, Scalar, Site, Table


class TableBuilder:
    """Regions that are the same in name, role, source, parent and what they carry are one."""

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self._sites: list[Site] = []
        self._accesses: list[Access] = []
        self._memory_operations: dict[tuple[str, str, int], int] = {}
        self._events: dict[str, int] = {}
        self._known: dict[tuple[int | None, str, Origin, str, int, Scalar | None], int] = {}

    def region(
        self,
        parent: int | None,
        name: str,
        role: Role,
        origin: Origin,
        file: str,
        line: int,
        scalar: Scalar | None = None,
    ) -> int:
        """Id of the region; a role other than "sync" becomes part of its name."""
        full = name if role == "sync" or name == role else f"{name}.{role}"
        key = (parent, full, origin, file, line, scalar)
        if key not in self._known:
            self._known[key] = len(self._regions)
            self._regions.append(Region(len(self._regions), full, role, origin, parent, file, line, scalar=scalar))
        return self._known[key]

    def event(self, name: str, file: str, line: int, scalar: Scalar | None) -> int:
        """Id of the region of events of a name: wherever they start and end, they are one."""
        if name not in self._events:
            self._events[name] = self.region(None, name, "sync", "event", file, line, scalar)
        return self._events[name]

    def name(self, region: int) -> str:
        """Name of a region, its role included."""
        return self._regions[region].name

    def region_of(self, site: int) -> int:
        """Id of a site's region."""
        return self._sites[site].region

    @property
    def has_sites(self) -> bool:
        """Whether anything is recorded."""
        return bool(self._sites)

    def operations(self, region: int, names: tuple[str, ...]) -> None:
        """Add operations that place a region's records."""
        old = self._regions[region]
        self._regions[region] = replace(old, operations=tuple(dict.fromkeys(old.operations + names)))

    def site(self, region: int, kind: Kind, piece: int = 0, versioned: bool = False) -> int:
        """A new site of a region."""
        self._sites.append(Site(len(self._sites), region, kind, piece, versioned))
        return len(self._sites) - 1

    @property
    def has_accesses(self) -> bool:
        """Whether addresses are traced."""
        return bool(self._accesses)

    def access(
        self, kind: AccessKind, width_bytes: int, instruction: str, location: str, region: str, file: str, line: int
    ) -> int:
        """A new access; those of one kind, width and location are of one memory operation."""
        key = (kind, location, width_bytes)
        operation = self._memory_operations.setdefault(key, len(self._memory_operations))
        number = len(self._accesses)
        self._accesses.append(Access(number, operation, kind, width_bytes, instruction, region, file, line))
        return number

    def table(self) -> Table:
        """Everything so far."""
        return Table(tuple(self._regions), tuple(self._sites), tuple(self._accesses))
