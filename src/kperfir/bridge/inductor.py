"""Kernels that torch.compile makes.

Inductor does not ask a kernel for its launcher at each launch: it keeps the launcher
in the globals of a function it generates, once a kernel. A kernel that ran before the
recording began would be missed, so those globals are brought up to date at each
launch and at the end. Its static launcher starts a cubin without Triton; such a
launch is reported. What it measures to choose by, configurations of a kernel and
candidates of a template alike, goes through its benchmarkers: those are trials.
Read in torch 2.11 and 2.13 (triton_heuristics.py, benchmarking.py in
torch/_inductor/runtime).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import Any

from kperfir.bridge.loaded import when_loaded
from kperfir.bridge.replaced import wrapped
from kperfir.bridge.trials import in_trial
from kperfir.capture.schema import Problem

_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_BENCHMARKING = "torch._inductor.runtime.benchmarking"
_OTHERWISE = "This torch's Inductor is built in a way that kperfir does not know"
_MAY_MISS = "Kernels of torch.compile may run without records, or its trials with them; use a torch that was tested."


@contextmanager
def inductor_followed(missed: Callable[[str], None], report: Callable[[Problem], None]) -> Iterator[None]:
    """While inside, Inductor's launches ask Triton for the launcher, and its trials are told apart.

    Args:
        missed: called with the kernel's name for each launch that cannot be recorded.
        report: called where this torch's Inductor is built otherwise and cannot be followed.
    """
    scopes: dict[int, dict[str, Any]] = {}
    with ExitStack() as stack:

        def follow(act: Callable[[ModuleType, ExitStack], None], module: ModuleType) -> None:
            try:
                with ExitStack() as own:
                    act(module, own)
                    stack.push(own.pop_all())
            except Exception as error:  # the program only imported a module of torch's
                report(Problem("not-followed", module.__name__, f"{_OTHERWISE} ({error}).", _MAY_MISS))

        follow_kernels = partial(_follow_kernels, partial(_run, scopes, missed))
        stack.enter_context(when_loaded(_HEURISTICS, partial(follow, follow_kernels)))
        stack.enter_context(when_loaded(_BENCHMARKING, partial(follow, _follow_benchmarkers)))
        yield
    for scope in scopes.values():
        with suppress(Exception):  # a binary that is gone; the launcher it had runs it plain from now on
            _refresh(scope)


def _follow_kernels(run: Callable[..., Any], module: ModuleType, stack: ExitStack) -> None:
    stack.enter_context(wrapped(module.CachingAutotuner, "bench", in_trial))
    stack.enter_context(wrapped(module.CachingAutotuner, "run", run))


def _follow_benchmarkers(module: ModuleType, stack: ExitStack) -> None:
    for owner in vars(module).values():
        if isinstance(owner, type) and issubclass(owner, module.Benchmarker):
            for name in [n for n in vars(owner) if n.startswith("benchmark")]:
                stack.enter_context(wrapped(owner, name, in_trial))


def _run(
    scopes: dict[int, dict[str, Any]],
    missed: Callable[[str], None],
    original: Callable[..., Any],
    tuner: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """One launch of Inductor's. Launchers that it makes on the way have asked Triton themselves; they are noted too."""
    for scope in _noted(tuner, scopes):
        _refresh(scope)
    try:
        return original(tuner, *args, **kwargs)
    finally:
        _noted(tuner, scopes)
        if any(getattr(launcher, "_is_static", False) for launcher in tuner.launchers):
            missed(tuner.fn.__name__)


def _noted(tuner: Any, scopes: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The globals of a kernel's launchers that keep a binary; they are put back when the recording ends."""
    found = [s for launcher in tuner.launchers if "bin" in (s := getattr(launcher, "__globals__", {}))]
    scopes.update((id(s), s) for s in found)
    return found


def _refresh(scope: dict[str, Any]) -> None:
    """The launcher that the kernel answers with now."""
    scope["runner"] = scope["bin"].run
