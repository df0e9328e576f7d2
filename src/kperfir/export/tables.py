"""The events as CSV, Parquet or an Arrow file; the accesses instead where addresses were traced.

The latter two say in their schema what the times are.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from kperfir.export.exported import Exported, times_of
from kperfir.trace import Trace


def write_csv(trace: Trace, path: Path) -> Exported:
    """Comma-separated, with a header line; addresses of lanes in hexadecimal, a blank between two."""
    table = _table(trace)
    if "addresses" in table.column_names:
        lanes = [" ".join(f"{address:x}" for address in each) for each in table["addresses"].to_pylist()]
        table = table.drop_columns(["addresses"]).append_column("addresses", pa.array(lanes, pa.string()))
    plain = pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema])
    with path.open("wb") as out:
        pyarrow.csv.write_csv(table.cast(plain), out)
    return Exported(path, table.num_rows, interpreted=trace.is_interpreted)


def write_parquet(trace: Trace, path: Path) -> Exported:
    """Apache Parquet."""
    table = _table(trace)
    with path.open("wb") as out:
        pyarrow.parquet.write_table(table, out)
    return Exported(path, table.num_rows, interpreted=trace.is_interpreted)


def write_arrow(trace: Trace, path: Path) -> Exported:
    """Arrow IPC file."""
    table = _table(trace)
    with path.open("wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return Exported(path, table.num_rows, interpreted=trace.is_interpreted)


def holds_accesses(trace: Trace) -> bool:
    """Whether addresses were traced, and nothing else; beside other captures only their events are written."""
    return bool(trace.kernels) and all(kernel.layout.holds_addresses for kernel in trace.kernels)


def _table(trace: Trace) -> pa.Table:
    if holds_accesses(trace):
        return trace.addresses()
    return trace.events().replace_schema_metadata({"times": times_of(trace)})
