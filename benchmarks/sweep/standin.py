"""A driver and a device that are not there: wrappers of libraries run on CPU tensors, and no kernel is launched.

It changes torch and Triton for good, so it belongs into a process of its own, before the library is imported.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

Launch = Callable[[Any, Callable[[], Any]], Any]


@dataclass(frozen=True)
class Device:
    """What libraries ask of a device to choose their kernels and block sizes."""

    target: GPUTarget
    name: str
    capability: tuple[int, int]
    processors: int
    shared_bytes: int


DEVICES = {
    "cuda:80": Device(GPUTarget("cuda", 80, 32), "NVIDIA A100", (8, 0), 108, 166912),
    "cuda:90": Device(GPUTarget("cuda", 90, 32), "NVIDIA H100", (9, 0), 132, 232448),
    "cuda:100": Device(GPUTarget("cuda", 100, 32), "NVIDIA B200", (10, 0), 148, 232448),
    "hip:gfx942": Device(GPUTarget("hip", "gfx942", 64), "AMD Instinct MI300X", (9, 4), 304, 65536),
}


def stand_in(device: Device, launch: Launch) -> None:
    """Pretend that `device` is there.

    Args:
        launch: called instead of every launch, with the kernel's JITFunction and a function that
            compiles it; what it returns is what the wrapper gets for the launch.
    """
    triton.runtime.driver.set_active(_Driver(device))
    _replace_launches(launch)
    _replace_torch(device)


def _replace_launches(launch: Launch) -> None:
    """Launches compile, and an autotuner takes the first configuration that its own pruning leaves."""
    run = JITFunction.run

    def compile_only(self: Any, *arguments: Any, grid: Any = None, warmup: bool = False, **options: Any) -> Any:
        return launch(self, lambda: run(self, *arguments, grid=grid, warmup=True, **options))

    JITFunction.run = compile_only
    Autotuner._bench = lambda self, *arguments, config, **meta: [1.0, 1.0, 1.0]


class _Driver:
    """As much of Triton's driver as wrappers and a compile ask for."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.utils = types.SimpleNamespace(
            get_device_properties=lambda index: _properties(device),
            load_binary=lambda *arguments: (1, 1, 64, 0, 1024),  # module, function, registers, spills, most threads
        )

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return lambda *arguments: None

    def get_current_target(self) -> GPUTarget:
        return self.device.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, index: int) -> None:
        pass

    def get_current_stream(self, index: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_capability(self, index: int = 0) -> tuple[int, int]:
        return self.device.capability

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Any:
        return lambda call, quantiles=None, **options: [1.0, 1.0, 1.0]


def _properties(device: Device) -> dict[str, Any]:
    return {
        "max_shared_mem": device.shared_bytes,
        "multiprocessor_count": device.processors,
        "max_num_regs": 65536,
        "max_threads_per_sm": 2048,
        "warpSize": device.target.warp_size,
    }


def _torch_properties(device: Device) -> Any:
    return types.SimpleNamespace(
        name=device.name,
        gcnArchName=str(device.target.arch),
        major=device.capability[0],
        minor=device.capability[1],
        multi_processor_count=device.processors,
        warp_size=device.target.warp_size,
        total_memory=80 << 30,
        L2_cache_size=50 << 20,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=device.shared_bytes,
        shared_memory_per_multiprocessor=device.shared_bytes + 1024,
    )


def _replace_torch(device: Device) -> None:
    stream = types.SimpleNamespace(cuda_stream=0, wait_stream=lambda other: None, synchronize=lambda: None)
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "device": contextlib.nullcontext(),
        "stream": contextlib.nullcontext(),
        "Stream": stream,
        "set_stream": None,
        "get_device_properties": _torch_properties(device),
        "get_device_capability": device.capability,
        "get_device_name": device.name,
        "synchronize": None,
        "set_device": None,
        "current_stream": stream,
        "is_current_stream_capturing": False,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _answering(answer))
    version: Any = torch.version
    version.cuda, version.hip = ("13.0", None) if device.target.backend == "cuda" else (None, "7.0")
    tensor: Any = torch.Tensor
    tensor.is_cuda = property(lambda self: True)
    torch.compile = _as_it_is
    _OnCpu().__enter__()


def _answering(answer: Any) -> Callable[..., Any]:
    """A function of its own for each name: torch refuses one that stands under two."""
    return lambda *arguments, **options: answer


def _as_it_is(function: Any = None, **options: Any) -> Any:
    """Instead of `torch.compile`: what it would generate are no kernels of the library."""
    return function if function is not None else lambda decorated: decorated


_UNSET = frozenset({"empty", "empty_like", "empty_strided", "new_empty"})
_MOST_FILLED = 1 << 28  # elements; more may not fit into memory, and nothing reads them


class _OnCpu(TorchFunctionMode):
    """What asks for a tensor on the device gets one on the CPU; what kernels would have filled holds ones."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = {k: "cpu" if k == "device" and _is_device(v) else v for k, v in (kwargs or {}).items()}
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0]
        if name == "to":
            args = tuple("cpu" if _is_device(a) else a for a in args)
        result = function(*args, **options)
        return result.fill_(1) if name in _UNSET and result.numel() <= _MOST_FILLED else result


def _is_device(value: Any) -> bool:
    return (isinstance(value, (str, torch.device)) and str(value).startswith("cuda")) or type(value) is int
