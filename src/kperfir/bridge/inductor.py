"""Kernels that torch.compile makes.

Inductor does not ask a kernel for its launcher at each launch: it keeps the launcher
in the globals of a function it generates, once a kernel. A kernel that ran before the
recording began would be missed, so those globals are brought up to date at each
launch. Its static launcher starts a cubin without Triton; such a launch is reported.
Read in torch 2.11 and 2.13 (torch/_inductor/runtime/triton_heuristics.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from kperfir.bridge.loaded import when_loaded
from kperfir.bridge.replaced import wrapped
from kperfir.bridge.trials import in_trial

_MODULE = "torch._inductor.runtime.triton_heuristics"


@contextmanager
def inductor_followed(missed: Callable[[str], None]) -> Iterator[None]:
    """While inside, Inductor's launches ask Triton for the launcher, and its trials are told apart.

    Args:
        missed: called with the kernel's name for each launch that cannot be recorded.
    """
    scopes: dict[int, dict[str, Any]] = {}
    with ExitStack() as stack:

        def follow(module: ModuleType) -> None:
            stack.enter_context(wrapped(module.CachingAutotuner, "bench", in_trial))
            stack.enter_context(wrapped(module.CachingAutotuner, "run", partial(_run, scopes, missed)))

        stack.enter_context(when_loaded(_MODULE, follow))
        yield
    for scope in scopes.values():
        _refresh(scope)


def _run(
    scopes: dict[int, dict[str, Any]],
    missed: Callable[[str], None],
    original: Callable[..., Any],
    tuner: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    for launcher in tuner.launchers:
        scope = launcher.__globals__
        if "bin" in scope:
            scopes[id(scope)] = scope
            _refresh(scope)
    result = original(tuner, *args, **kwargs)
    if any(getattr(launcher, "_is_static", False) for launcher in tuner.launchers):
        missed(tuner.fn.__name__)
    return result


def _refresh(scope: dict[str, Any]) -> None:
    """The launcher that the kernel answers with now."""
    scope["runner"] = scope["bin"].run
