"""The events table as CSV, Parquet or an Arrow file; the latter two say in their schema what the times are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from kperfir.export.exported import Exported, times_of
from kperfir.trace import Trace


def write_csv(trace: Trace, path: Path) -> Exported:
    """Comma-separated, with a header line."""
    table = trace.events()
    plain = pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema])
    with path.open("wb") as out:
        pyarrow.csv.write_csv(table.cast(plain), out)
    return Exported(path, table.num_rows, interpreted=trace.is_interpreted)


def write_parquet(trace: Trace, path: Path) -> Exported:
    """Apache Parquet."""
    table = _described(trace)
    with path.open("wb") as out:
        pyarrow.parquet.write_table(table, out)
    return Exported(path, table.num_rows, interpreted=trace.is_interpreted)


def write_arrow(trace: Trace, path: Path) -> Exported:
    """Arrow IPC file."""
    table = _described(trace)
    with path.open("wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return Exported(path, table.num_rows, interpreted=trace.is_interpreted)


def _described(trace: Trace) -> pa.Table:
    return trace.events().replace_schema_metadata({"times": times_of(trace)})
