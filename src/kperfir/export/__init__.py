"""A trace as files other tools read. One format a file; the suffix picks it."""

from __future__ import annotations

from pathlib import Path

from kperfir.errors import ExportError
from kperfir.export import chrome, tables
from kperfir.export.exported import Exported
from kperfir.trace import Trace

__all__ = ["Exported", "export"]

_WRITERS = {
    ".json": chrome.write,
    ".json.gz": chrome.write_compressed,
    ".csv": tables.write_csv,
    ".parquet": tables.write_parquet,
    ".arrow": tables.write_arrow,
}
_CURE = "Use .json or .json.gz (timeline for https://ui.perfetto.dev), .csv, .parquet or .arrow (events)."
_ONLY_TABLES = "Use .csv, .parquet or .arrow, which hold the accesses."


def export(trace: Trace, path: str | Path) -> Exported:
    """Write `trace` to `path`.

    Raises:
        ExportError: the suffix names no format, a timeline is asked for where addresses were traced
            in the place of times, or the place cannot be written.
    """
    place = Path(path)
    if place.name.endswith(".pftrace"):
        raise ExportError("Perfetto's own format (.pftrace) cannot be written yet.", _CURE)
    writer = next((w for suffix, w in _WRITERS.items() if place.name.endswith(suffix)), None)
    if writer is None:
        raise ExportError(f"'{place.name}' names no format that can be written.", _CURE)
    if writer in (chrome.write, chrome.write_compressed) and tables.holds_accesses(trace):
        raise ExportError("A trace of addresses has no times, so there is no timeline of it.", _ONLY_TABLES)
    try:
        return writer(trace, place)
    except OSError as error:
        raise ExportError(f"{place} cannot be written: {error.strerror or error}.", "Choose another place.") from None
