"""Everything that differs between Triton versions.

Read in Triton 3.6.0 and 3.9.0; the versions between were checked by the tests of
the bridge. From 3.7 on Triton asks the stage hook for its part of the compile key;
3.6 does not, so there the plan goes into the key as the option
`instrumentation_mode`, which 3.6 stores and otherwise only compares with "consan".
"""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import fields
from typing import Any

import triton
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.compiler.compiler import make_backend
from triton.runtime.cache import get_cache_key

from kperfir.errors import BridgeError
from kperfir.ir.attributes import get_integer

OLDEST = (3, 6, 0)
NEWEST_TESTED = (3, 9, 0)


def triton_version() -> tuple[int, int, int]:
    """The installed Triton, without suffixes."""
    numbers = [int(n) for n in re.findall(r"\d+", triton.__version__)]
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return major, minor, patch


def check_version() -> None:
    """Refuse a Triton that is too old, warn of one that nobody has tested.

    Raises:
        BridgeError: it is older than the oldest supported one.
    """
    version = triton_version()
    if version < OLDEST:
        raise BridgeError(
            f"Triton {triton.__version__} is installed; kperfir needs {_dotted(OLDEST)} or newer.",
            f"Install triton>={_dotted(OLDEST)}.",
        )
    if version > NEWEST_TESTED:
        warnings.warn(
            f"Triton {triton.__version__} is newer than {_dotted(NEWEST_TESTED)}, the newest kperfir was tested "
            "with. It checks itself before it records; run `kperfir doctor` to see the result.",
            stacklevel=2,
        )


def hook_is_in_key() -> bool:
    """Whether Triton asks the stage hook for its part of the compile key."""
    return triton_version() >= (3, 7, 0)


def key_options(digest: str) -> dict[str, Any]:
    """Compile options that put `digest` into the compile key where the hook cannot."""
    return {} if hook_is_in_key() else {"instrumentation_mode": f"kperf-{digest}"}


def compile_options(kernel: Any) -> dict[str, Any]:
    """The options a kernel was compiled with, read from its metadata.

    Raises:
        BridgeError: they cannot be told; the sentence says why.
    """
    backend = make_backend(kernel.metadata.target)
    known = {f.name for f in fields(type(backend.parse_options({})))}
    options = {k: _frozen(v) for k, v in kernel.metadata._asdict().items() if k in known}
    warps = _source_warps(kernel)
    if warps is not None:
        options["num_warps"] = warps
    if _hash_of(kernel, backend, options) != kernel.hash:
        raise BridgeError(
            "Its compile options cannot be told from its metadata, so an instrumented build might differ.",
            "Please report the kernel.",
        )
    return options


def is_launch_failure(error: BaseException) -> bool:
    """Whether Triton's launcher says that the driver refused a launch (driver.c of its backends); then nothing ran.

    A hook that runs behind the launch can raise the same, so beside one nobody can tell.
    """
    hook = triton.knobs.runtime.launch_exit_hook
    refused = isinstance(error, RuntimeError) and str(error).startswith("Triton Error [")
    return refused and not getattr(hook, "calls", hook)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def _source_warps(kernel: Any) -> int | None:
    """Warps as asked for: specialisation overwrites the number in the metadata."""
    return get_integer(kernel.asm.get("ttgir", ""), "ttg.num-warps")


def _hash_of(kernel: Any, backend: Any, options: dict[str, Any]) -> str:
    """The hash Triton's `compile` gives this source and these options."""
    environment = get_cache_invalidating_env_vars()
    parsed = backend.parse_options(dict(options, **kernel.src.parse_options()))
    key = get_cache_key(kernel.src, backend, parsed, env_vars=environment)
    hook = triton.knobs.runtime.add_stages_inspection_hook
    if hook_is_in_key() and hook is not None:
        key += hook()[0]
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
