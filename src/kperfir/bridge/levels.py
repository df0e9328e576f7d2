"""The levels of IR between a kernel's source and its binary, and the passes of kperfir that lead from one to the next.

tag-scopes     scopes of TTIR become location tags                   shown at ttir
place          rules and tags become `kperf.record`                  shown at kperf
lower-records  `kperf.record` becomes a carrier Triton can lower     shown at ttgir
to-gpu         carriers become `kperf_gpu` operations                shown at kperf-gpu
to-llvm        those become LLVM-dialect text for the target         shown at llvm-dialect
"""

from __future__ import annotations

from dataclasses import dataclass

from kperfir.errors import PlanError

PASSES = ("tag-scopes", "place", "lower-records", "to-gpu", "to-llvm")
# the first five are what the pass of the same number makes
LEVELS = ("ttir", "kperf", "ttgir", "kperf-gpu", "llvm-dialect", "llir", "ptx", "amdgcn", "sass")
STATES = ("TTIR", "TTGIR", "TTGIR with kperf.record", "TTGIR with carriers of records")
_FIRST_LEVEL = (0, 1, 1, 2)  # of each state
_ONLY_ON = {"ptx": "cuda", "sass": "cuda", "amdgcn": "hip"}


@dataclass(frozen=True)
class Route:
    """Passes to run, in order, and the level to end at."""

    passes: tuple[str, ...]
    emit: str


def route(state: int, passes: tuple[str, ...], emit: str | None, backend: str) -> Route:
    """What to run for what was asked for.

    Args:
        state: number in `STATES` of what the file holds.
        passes: as asked for; none: all that are between the file and `emit`.
        emit: as asked for; None: the level of the last pass. backend: "cuda" or "hip".

    Raises:
        PlanError: a name is unknown, or passes and levels do not fit together.
    """
    for name in passes:
        if name not in PASSES:
            raise PlanError(f"'{name}' is no pass.", f"Use {', '.join(PASSES)}.")
    numbers = [PASSES.index(name) for name in passes]
    if numbers != sorted(set(numbers)):
        raise PlanError(f"Passes run in one order, and not as {', '.join(passes)}.", f"It is {', '.join(PASSES)}.")
    if numbers and numbers[0] < state:
        raise PlanError(f"The file holds {STATES[state]}, which is behind {passes[0]}.", "Leave that pass out.")
    emit = emit or LEVELS[numbers[-1] if numbers else len(PASSES) - 1]
    end = _end(emit, state, backend)
    chosen = tuple(numbers) or tuple(i for i in range(len(PASSES)) if state <= i <= end)
    _check_chain(state, chosen, end)
    return Route(tuple(PASSES[i] for i in chosen), emit)


def _end(emit: str, state: int, backend: str) -> int:
    if emit not in LEVELS:
        raise PlanError(f"'{emit}' is no level.", f"Use {', '.join(LEVELS)}.")
    if _ONLY_ON.get(emit, backend) != backend:
        other = "ptx or sass" if backend == "cuda" else "amdgcn"
        raise PlanError(f"There is no {emit} for a {backend} target.", f"Use --emit {other}.")
    end = LEVELS.index(emit)
    if end < _FIRST_LEVEL[state]:
        raise PlanError(f"The file holds {STATES[state]}, which is behind the level {emit}.", "Use a later level.")
    return end


def _check_chain(state: int, chosen: tuple[int, ...], end: int) -> None:
    """Each pass finds what it needs, and leaves nothing that the next level cannot hold."""
    for i in chosen:
        if i > end:
            raise PlanError(f"{PASSES[i]} works behind the level {LEVELS[end]}.", "Use a later level for --emit.")
        if i >= 2 and i > state and i - 1 not in chosen:
            raise PlanError(f"{PASSES[i]} needs what {PASSES[i - 1]} makes.", f"Add --pass {PASSES[i - 1]}.")
    has_records = 1 in chosen or state == 2
    if has_records and 2 not in chosen and end > 1:
        raise PlanError("Triton cannot read kperf.record.", "Add --pass lower-records, or use --emit kperf.")
    if 3 in chosen and 4 not in chosen and end > 3:
        raise PlanError("Triton cannot read kperf_gpu.", "Add --pass to-llvm, or use --emit kperf-gpu.")
    if (end == 1 and not has_records) or (end == 3 and 3 not in chosen):
        raise PlanError(f"{LEVELS[end]} shows what {PASSES[end]} makes.", f"Add --pass {PASSES[end]}.")
