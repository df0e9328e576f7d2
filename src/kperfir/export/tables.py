"""The events table as CSV, Parquet or an Arrow file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from kperfir.trace import Trace


def write_csv(trace: Trace, path: Path) -> None:
    """Comma-separated, with a header line."""
    pyarrow.csv.write_csv(trace.events(), path)


def write_parquet(trace: Trace, path: Path) -> None:
    """Apache Parquet."""
    pyarrow.parquet.write_table(trace.events(), path)


def write_arrow(trace: Trace, path: Path) -> None:
    """Arrow IPC file."""
    table = trace.events()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
