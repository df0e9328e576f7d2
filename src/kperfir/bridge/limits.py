"""What one GPU offers, asked of its driver."""

from __future__ import annotations

from kperfir.bridge.occupancy import DeviceLimits
from kperfir.capture.device import driver as d


def device_limits(driver: d.Driver, device: int) -> DeviceLimits:
    """Limits of a device by its ordinal."""

    def ask(number: int) -> int:
        return driver.attribute(number, device)

    warp_size = ask(d.MAX_WARP_SIZE)
    return DeviceLimits(
        shared_per_block_bytes=ask(d.MAX_SHARED_PER_BLOCK_OPTIN),
        shared_per_sm_bytes=ask(d.MAX_SHARED_PER_SM),
        reserved_per_block_bytes=ask(d.RESERVED_SHARED_PER_BLOCK),
        registers_per_sm=ask(d.MAX_REGISTERS_PER_SM),
        warps_per_sm=ask(d.MAX_THREADS_PER_SM) // warp_size,
        ctas_per_sm=ask(d.MAX_BLOCKS_PER_SM),
        warp_size=warp_size,
    )
