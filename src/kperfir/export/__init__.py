"""A trace as files other tools read. One format a file; the suffix picks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kperfir.errors import ExportError
from kperfir.export import chrome, tables

if TYPE_CHECKING:
    from kperfir.trace import Trace

_WRITERS = {
    ".json": chrome.write,
    ".gz": chrome.write_compressed,
    ".csv": tables.write_csv,
    ".parquet": tables.write_parquet,
    ".arrow": tables.write_arrow,
}


def export(trace: Trace, path: Path) -> Path:
    """Write `trace` to `path`.

    Raises:
        ExportError: the suffix names no format, or the place cannot be written.
    """
    writer = _WRITERS.get(path.suffix)
    if writer is None or (path.suffix == ".gz" and not path.name.endswith(".json.gz")):
        raise ExportError(
            f"'{path.name}' names no format that can be written.",
            "Use .json or .json.gz (timeline for https://ui.perfetto.dev), .csv, .parquet or .arrow (events).",
        )
    try:
        writer(trace, path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}.", "Choose another place.") from None
    return path
