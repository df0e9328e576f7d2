"""Kernels that run in Triton's interpreter instead of on a GPU."""

from kperfir.bridge.interpreted.launches import InterpretedLaunches

__all__ = ["InterpretedLaunches"]
