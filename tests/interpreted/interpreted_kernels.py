"""Small kernels: right ones, and ones that are wrong in one way each."""

from __future__ import annotations

import triton
import triton.language as tl

import kperfir.language as kl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with kl.scope("body"):
        value = tl.load(x + at, at < n) + tl.load(y + at, at < n)
        tl.store(out + at, value, at < n)
    kl.mark("done")


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    value = tl.load(x + row + at, at < n, float("-inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row + at, value / tl.sum(value, 0), at < n)


@triton.jit
def matmul(a, b, c, K, N: tl.constexpr, BLOCK: tl.constexpr):
    tile, depth = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    rows, columns = tl.program_id(0) * BLOCK + tile, tl.program_id(1) * BLOCK + tile
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        with kl.scope("step"):
            left = tl.load(a + rows[:, None] * K + k + depth)
            total = tl.dot(left, tl.load(b + (k + depth)[:, None] * N + columns), total)
    tl.store(c + rows[:, None] * N + columns, total)


@triton.jit
def count_up(x, n):
    """Increments x n times in a while loop."""
    done = 0
    while done < n:
        with kl.scope("step"):
            tl.store(x, tl.load(x) + 1)
        done += 1


@triton.jit
def assigns_in_a_condition(x):
    """4 stores."""
    turn = 0
    while (turn := turn + 1) < 5:
        with kl.scope("in"):
            tl.store(x, tl.load(x) + 1)


@triton.jit
def leaves_loops(x, n):
    """Break, continue and a step downwards: 2 n stores."""
    for _ in range(n, 0, -1):
        for j in range(5):
            if j == 0:
                continue
            if j == 3:
                break
            with kl.scope("in"):
                tl.store(x, tl.load(x) + 1)


@triton.jit
def returns_from_a_loop(x):
    for i in range(4):
        with kl.scope("in"):
            if i == 2:
                return
            tl.store(x, tl.load(x) + 1)


@triton.jit
def helper(x):
    for _ in tl.static_range(3):
        with kl.scope("helped"):
            tl.store(x, tl.load(x) + 1)


@triton.jit
def calls_a_helper(x):
    with kl.scope("outer"):
        helper(x)


@triton.jit
def marks_later(x, flag):
    if flag > 0:
        kl.mark("new")
    tl.store(x, 1.0)


@triton.jit
def nothing(x):
    pass


# --- wrong scopes: each stores 1


@triton.jit
def crosses(x):
    kl.enter("a")
    kl.enter("b")
    tl.store(x, 1.0)
    kl.exit("a")
    kl.exit("b")


@triton.jit
def stays_open(x):
    kl.enter("a")
    tl.store(x, 1.0)


@triton.jit
def exits_alone(x):
    tl.store(x, 1.0)
    kl.exit("a")


@triton.jit
def enters_in_a_loop(x):
    for _ in range(1):
        kl.enter("a")
    tl.store(x, 1.0)
    kl.exit("a")


@triton.jit
def exits_in_a_loop(x):
    kl.enter("a")
    for _ in range(1):
        kl.exit("a")
    tl.store(x, 1.0)


@triton.jit
def enters_in_a_while(x):
    done = 0
    while done < 2:
        kl.enter("a")
        done += 1
    tl.store(x, 1.0)


@triton.jit
def enters_in_an_inner_loop(x):
    for _ in range(2):
        for _ in range(2):
            kl.enter("a")
        kl.exit("a")
    tl.store(x, 1.0)


@triton.jit
def breaks_out_of_a_scope(x):
    tl.store(x, 1.0)
    for i in range(3):
        kl.enter("a")
        if i == 1:
            break
        kl.exit("a")


WRONG = (
    crosses,
    stays_open,
    exits_alone,
    enters_in_a_loop,
    exits_in_a_loop,
    enters_in_a_while,
    enters_in_an_inner_loop,
    breaks_out_of_a_scope,
)


@triton.jit
def fails_if(x, bad):
    """An error of its own, between enter and exit, in two loops."""
    kl.enter("outer")
    for _ in range(2):
        for _ in range(2):
            kl.enter("inner")
            tl.load(x)
            tl.static_assert(bad == 0, "mine")
            kl.exit("inner")
    kl.exit("outer")


@triton.jit
def halved(x):
    kl.value("half", x / 2)
    return x / 2


@triton.jit
def values(x, out, n, BLOCK: tl.constexpr):
    """One value of each type: a number from memory, the turn, one known at compile time, one without sign."""
    at = tl.arange(0, BLOCK)
    for i in range(n):
        with kl.scope("row"):
            kl.value("turn", i)
            tl.store(out + at + i * BLOCK, tl.load(x + at + i * BLOCK) * halved(tl.load(x + i)))
    kl.value("block", BLOCK)
    kl.value("top", (n - 4).to(tl.uint32, bitcast=True))


@triton.jit
def carries_a_tensor(x, out, n, BLOCK: tl.constexpr):
    kl.value("all", tl.load(x + tl.arange(0, BLOCK)))


@triton.jit
def events(x, out, n, BLOCK: tl.constexpr):
    """An event starts in one turn and ends in the next; the last never ends."""
    at = tl.arange(0, BLOCK)
    for i in range(n):
        if i > 0:
            kl.end("row", i - 1)
        kl.begin("row", i)
        tl.store(out + at + i * BLOCK, tl.load(x + at + i * BLOCK))
