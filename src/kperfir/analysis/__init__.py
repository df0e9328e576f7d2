"""Questions to a trace: plain functions from a trace to a frozen result."""

from kperfir.analysis.fidelity import Fidelity, KernelFidelity, ScopeFidelity, fidelity
from kperfir.analysis.summary import KernelSummary, RegionSummary, Summary, summarise

__all__ = [
    "Fidelity",
    "KernelFidelity",
    "KernelSummary",
    "RegionSummary",
    "ScopeFidelity",
    "Summary",
    "fidelity",
    "summarise",
]
