"""How often each region must occur in a warp, worked out by hand from how Triton pipelines a loop on sm_90.

Nothing here looks at a capture or at kperfir. `n` is the trip count, `s` the number of
stages. A pipelined loop starts s - 1 iterations' copies ahead of itself, predicated
where there are fewer, and n more inside. Keys are origin and name of a region; regions
of one key are added up. Operations of one kind on one line are one region.
"""

from __future__ import annotations

Counts = dict[tuple[str, str], int]
KERNEL: Counts = {("kernel", "kernel"): 1}


def matmul(n: int, s: int) -> Counts:
    """Two loads, a dot and its wait an iteration; with stages the loads are copies, waited for once an iteration."""
    counts = KERNEL | {("scope", "epilogue"): 1}
    counts |= {("scope", "mma.issue"): n, ("scope", "mma.wait"): n, ("rule", "dot.issue"): n}
    if s == 1:
        return counts | {("scope", "load"): n, ("rule", "load"): 2 * n, ("rule", "wait"): n}
    counts |= {("scope", "load.issue"): n + s - 1, ("scope", "load.wait"): n}
    return counts | {("rule", "load.issue"): 2 * n, ("rule", "wait"): 2 * n}


def attention(n: int, s: int) -> Counts:
    """Two copies, two dots and two reductions an iteration; one wait for both copies, one for the first dot.

    The second dot is waited for behind the loop.
    """
    counts = KERNEL | {("scope", "scores.issue"): n + s - 1, ("scope", "values.issue"): n + s - 1}
    counts |= {("scope", "scores.wait"): n, ("scope", "softmax"): n}
    return counts | {("rule", kind): 2 * n for kind in ("wait", "dot.issue", "reduce", "load.issue")}


def layernorm(n: int, s: int) -> Counts:
    """Three loops: a load, a load, and two lines with loads of which one stores."""
    return KERNEL | {("rule", "load"): 4 * n, ("rule", "store"): n}


def softmax(n: int, s: int) -> Counts:
    """No loop: everything once."""
    return KERNEL | {("rule", "load"): 1, ("rule", "reduce"): 2, ("rule", "store"): 1}
