"""Questions to a trace: plain functions from a trace to a frozen result."""

from kperfir.analysis.summary import KernelSummary, RegionSummary, Summary, summarise

__all__ = ["KernelSummary", "RegionSummary", "Summary", "summarise"]
