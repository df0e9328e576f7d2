"""The way into Triton: modules as text, stages, compile keys, launches. The only part that knows Triton."""
