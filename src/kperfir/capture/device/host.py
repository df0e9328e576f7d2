"""Host memory that kernels write their records into: it can be read while they run."""

from __future__ import annotations

import ctypes
import threading

from kperfir.capture.device.driver import Driver


class HostBlocks:
    """Blocks of pinned memory of one device's launches.

    They are kept and used again, because the driver may wait for running kernels
    when it makes or frees one.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._sizes: dict[int, tuple[int, int]] = {}  # address on the device -> on the host, bytes
        self._idle: list[int] = []

    def take(self, size_bytes: int) -> tuple[int, int]:
        """A block of zeros: its address on the device and on the host.

        Raises:
            DeviceError: there is none.
        """
        with self._lock:
            fitting = [block for block in self._idle if self._sizes[block][1] >= size_bytes]
            if fitting:
                device = min(fitting, key=lambda block: self._sizes[block][1])
                self._idle.remove(device)
            else:
                host, device = self._driver.mapped(size_bytes)
                self._sizes[device] = host, size_bytes
            host = self._sizes[device][0]
        ctypes.memset(host, 0, size_bytes)
        return device, host

    def give(self, device: int) -> None:
        """A block that no kernel writes into any more may be used again."""
        with self._lock:
            self._idle.append(device)

    def free(self) -> None:
        """Give idle blocks back to the driver; the others belong to kernels that may still write.

        Raises:
            DeviceError: the device failed.
        """
        with self._lock:
            while self._idle:
                self._driver.free_pinned(self._sizes.pop(self._idle.pop())[0])
