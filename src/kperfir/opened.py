"""A trace with its outputs at hand: what `kperfir.load` returns. It stands above the folders it joins."""

from __future__ import annotations

from pathlib import Path

from kperfir.analysis import Fidelity, Summary, fidelity, summarise
from kperfir.capture.reader import read_captures
from kperfir.export import Exported, export
from kperfir.trace import Trace


class OpenedTrace(Trace):
    """A `Trace` that summarises and exports itself."""

    def summary(self) -> Summary:
        """Count, total, median, 95th percentile and share of every region; printing it gives the report."""
        return summarise(self)

    def fidelity(self) -> Fidelity:
        """What became of the operations of every scope, in IR and in the binary; printing it gives a table."""
        return fidelity(self)

    def export(self, path: str | Path) -> Exported:
        """Write a timeline (.json, .json.gz) or the events (.csv, .parquet, .arrow); the suffix picks.

        Raises:
            ExportError: the suffix names no format, or the place cannot be written.
        """
        return export(self, path)


def load(path: str | Path) -> OpenedTrace:
    """Read a capture file, or all captures of a directory.

    Raises:
        CaptureError: the file, or every file of the directory, cannot be read.
    """
    return OpenedTrace(*read_captures(path))
