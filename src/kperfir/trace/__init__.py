"""Raw blocks -> events: decode, unwrap, pair, align. NumPy and Arrow; no Triton, no GPU."""

from kperfir.trace.model import EVENTS, LaunchTrace, Trace, load

__all__ = ["EVENTS", "LaunchTrace", "Trace", "load"]
