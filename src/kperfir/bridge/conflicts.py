"""Other profilers that change what Triton compiles."""

from __future__ import annotations

import sys

from triton import knobs

from kperfir.errors import BridgeError


def check_conflicts() -> None:
    """Refuse to record beside a profiler that instruments kernels itself.

    Raises:
        BridgeError: one is active.
    """
    proton = sys.modules.get("triton.profiler.hooks.instrumentation")
    if proton is not None and proton.InstrumentationHook.active_count > 0:
        raise BridgeError(
            "Proton's instrumentation is active in this process.",
            "Finalize it (proton.finalize()) before recording with kperfir, or use one of the two.",
        )
    mode = knobs.compilation.instrumentation_mode
    if mode:
        raise BridgeError(
            f"Triton's instrumentation mode '{mode}' is on.", "Unset TRITON_INSTRUMENTATION_MODE, or do not record."
        )
