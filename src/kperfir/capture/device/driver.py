"""The few calls of NVIDIA's driver that recording needs, through ctypes.

Reference: https://docs.nvidia.com/cuda/cuda-driver-api. There is no call here that
waits for a stream, an event or a context.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_void_p
from functools import lru_cache
from typing import Any

from kperfir.errors import DeviceError

_NOT_READY = 600
_EVENT_DISABLE_TIMING = 2
_CAPTURE_RELAXED = 2
_STREAM_NON_BLOCKING = 1
_HOST_PORTABLE = 1
_HOST_DEVICEMAP = 2

# CUdevice_attribute
MAX_WARP_SIZE = 10
MAX_THREADS_PER_SM = 39
MAX_SHARED_PER_SM = 81
MAX_REGISTERS_PER_SM = 82
MAX_SHARED_PER_BLOCK_OPTIN = 97
MAX_BLOCKS_PER_SM = 106
RESERVED_SHARED_PER_BLOCK = 111


class Driver:
    """libcuda, with errors as exceptions.

    Raises:
        DeviceError: the library is missing or a call fails; the call is named.
    """

    def __init__(self, library: Any | None = None) -> None:
        self._library = library or _load()
        self._call("cuInit", c_uint(0))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise DeviceError(f"{name} failed with {self._error(status)}.")

    def _error(self, status: int) -> str:
        text = c_char_p()
        self._library.cuGetErrorName(c_int(status), byref(text))
        return text.value.decode() if text.value else f"error {status}"

    def current_context(self) -> int:
        """Handle of the thread's context, 0 if it has none."""
        context = c_void_p()
        self._call("cuCtxGetCurrent", byref(context))
        return context.value or 0

    def set_context(self, context: int) -> None:
        """Make a context current in this thread, and let its calls pass during a stream capture elsewhere."""
        self._call("cuCtxSetCurrent", c_void_p(context))
        self._exchange_capture_mode(_CAPTURE_RELAXED)

    @contextmanager
    def capture_unharmed(self) -> Iterator[None]:
        """Calls of this thread meanwhile pass during a stream capture elsewhere, and do not break it."""
        before = self._exchange_capture_mode(_CAPTURE_RELAXED)
        try:
            yield
        finally:
            self._exchange_capture_mode(before)

    def _exchange_capture_mode(self, wanted: int) -> int:
        mode = c_int(wanted)
        self._call("cuThreadExchangeStreamCaptureMode", byref(mode))
        return mode.value

    def ensure_context(self, device: int) -> None:
        """A thread that has made no call yet has no context; it gets the device's primary one, as Triton gives it."""
        if not self.current_context():
            context = c_void_p()
            self._call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
            self._call("cuCtxSetCurrent", context)

    def attribute(self, number: int, device: int) -> int:
        """A device attribute."""
        value = c_int()
        self._call("cuDeviceGetAttribute", byref(value), c_int(number), c_int(device))
        return value.value

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on the stream go into a graph; a stream that cannot be asked counts as such."""
        state = c_int()
        status = self._library.cuStreamIsCapturing(c_void_p(stream), byref(state))
        return bool(status != 0 or state.value != 0)

    def allocate(self, size_bytes: int, stream: int) -> int:
        """Device memory, in stream order."""
        pointer = c_void_p()
        self._call("cuMemAllocAsync", byref(pointer), c_size_t(size_bytes), c_void_p(stream))
        assert pointer.value
        return pointer.value

    def free(self, pointer: int, stream: int) -> None:
        """Give device memory back, in stream order."""
        self._call("cuMemFreeAsync", c_void_p(pointer), c_void_p(stream))

    def clear(self, pointer: int, pitch_bytes: int, width_bytes: int, rows: int, stream: int) -> None:
        """Zero the first `width_bytes` of each of `rows` blocks, in stream order."""
        self._call(
            "cuMemsetD2D8Async",
            c_void_p(pointer),
            c_size_t(pitch_bytes),
            c_ubyte(0),
            c_size_t(width_bytes),
            c_size_t(rows),
            c_void_p(stream),
        )

    def copy_to_host(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Device to pinned host memory, in stream order."""
        self._call("cuMemcpyDtoHAsync_v2", c_void_p(target), c_void_p(source), c_size_t(size_bytes), c_void_p(stream))

    def pinned(self, size_bytes: int) -> int:
        """Host memory that copies reach without staging."""
        pointer = c_void_p()
        self._call("cuMemHostAlloc", byref(pointer), c_size_t(size_bytes), c_uint(_HOST_PORTABLE))
        assert pointer.value
        return pointer.value

    def mapped(self, size_bytes: int) -> tuple[int, int]:
        """Pinned host memory that kernels write into: its address on the host and on the device."""
        host, device = c_void_p(), c_void_p()
        self._call("cuMemHostAlloc", byref(host), c_size_t(size_bytes), c_uint(_HOST_PORTABLE | _HOST_DEVICEMAP))
        self._call("cuMemHostGetDevicePointer_v2", byref(device), host, c_uint(0))
        assert host.value and device.value
        return host.value, device.value

    def free_pinned(self, pointer: int) -> None:
        """Give pinned memory back."""
        self._call("cuMemFreeHost", c_void_p(pointer))

    def stream(self) -> int:
        """A stream that does not order itself with the default stream."""
        handle = c_void_p()
        self._call("cuStreamCreate", byref(handle), c_uint(_STREAM_NON_BLOCKING))
        assert handle.value
        return handle.value

    def destroy_stream(self, stream: int) -> None:
        """Give a stream back when what is on it is done."""
        self._call("cuStreamDestroy_v2", c_void_p(stream))

    def record_event(self, stream: int) -> int:
        """A new event behind everything on the stream so far."""
        handle = c_void_p()
        self._call("cuEventCreate", byref(handle), c_uint(_EVENT_DISABLE_TIMING))
        self._call("cuEventRecord", handle, c_void_p(stream))
        assert handle.value
        return handle.value

    def has_passed(self, event: int) -> bool:
        """Whether the device is past the event."""
        status = self._library.cuEventQuery(c_void_p(event))
        if status not in (0, _NOT_READY):
            raise DeviceError(f"cuEventQuery failed with {self._error(status)}.")
        return bool(status == 0)

    def destroy_event(self, event: int) -> None:
        """Give an event back."""
        self._call("cuEventDestroy_v2", c_void_p(event))


_ASK = """
import ctypes
count = ctypes.c_int()
cuda = ctypes.CDLL("libcuda.so.1")
raise SystemExit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value)
"""


@lru_cache(maxsize=1)
def driver_present() -> bool:
    """Whether NVIDIA's driver is here and has a device.

    A process of its own asks, because asking settles for good which devices a process sees,
    and forked children of one that asked cannot use CUDA.
    """
    try:
        _load()
    except DeviceError:
        return False
    return subprocess.run([sys.executable, "-I", "-S", "-c", _ASK], capture_output=True, check=False).returncode == 0


@lru_cache(maxsize=1)
def _load() -> Any:
    for name in ("libcuda.so.1", "libcuda.so"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.cuGetErrorName.argtypes = [c_int, POINTER(c_char_p)]
        return library
    raise DeviceError("NVIDIA's driver library libcuda.so.1 is not on this machine.", "Install the driver.")
