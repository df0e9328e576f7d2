"""Questions to a trace: plain functions from a trace to a frozen result."""
