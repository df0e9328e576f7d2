"""Raw blocks -> events: decode, unwrap, pair, align. NumPy and Arrow; no Triton, no GPU."""

from kperfir.trace.events import EVENTS
from kperfir.trace.model import LaunchTrace, Trace

__all__ = ["EVENTS", "LaunchTrace", "Trace"]
