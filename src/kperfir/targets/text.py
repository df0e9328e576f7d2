"""Lines of the LLVM dialect that both vendors write."""

from __future__ import annotations

from collections.abc import Sequence

from kperfir.windows import Last, Window, Windows


def constant(name: str, value: int, kind: str = "i32") -> str:
    """Define an integer."""
    return f"{name} = llvm.mlir.constant({value} : {kind}) : {kind}"


def assembly(
    text: Sequence[str],
    constraints: str,
    operands: Sequence[tuple[str, str]] = (),
    result: tuple[str, str] | None = None,
) -> str:
    """Inline assembly with side effects.

    Args:
        text: instructions, without quotes.
        constraints: as LLVM's inline assembly has them.
        operands: (name, type) of each.
        result: name and type of what it defines.
    """
    left = f"{result[0]} = " if result else ""
    names = ", ".join(name for name, _ in operands)
    kinds = ", ".join(kind for _, kind in operands)
    string = " ".join(text)
    return (
        f'{left}"llvm.inline_asm"({names}) <{{asm_dialect = 0 : i64, asm_string = "{string}", '
        f'constraints = "{constraints}", has_side_effects}}> : ({kinds}) -> {result[1] if result else "()"}'
    )


def intrinsic(name: str, operands: Sequence[tuple[str, str]] = (), result: tuple[str, str] | None = None) -> str:
    """Call of an LLVM intrinsic, in generic form: the custom one is not stable between Triton versions."""
    left = f"{result[0]} = " if result else ""
    names = ", ".join(n for n, _ in operands)
    kinds = ", ".join(k for _, k in operands)
    return (
        f'{left}"llvm.call_intrinsic"({names}) <{{fastmathFlags = #llvm.fastmath<none>, intrin = "{name}", '
        f"op_bundle_sizes = array<i32>, operandSegmentSizes = array<i32: {len(operands)}, 0>}}> "
        f": ({kinds}) -> {result[1] if result else '()'}"
    )


def stack_ring(size_bytes: int, kind: str, name: str) -> str:
    """Define a ring in each thread's stack; it must stand in the entry block."""
    return f"{name} = llvm.alloca %kp_1 x !llvm.array<{size_bytes} x i8> {{alignment = 16 : i64}} : (i32) -> {kind}"


def is_in(name: str, number: str, windows: Windows, left: str = "") -> list[str]:
    """Define a bit: whether a number, 32 bits and not negative, lies in the windows.

    Args:
        left: name of how many numbers follow it, which windows of the last ask for.
    """
    lines = [constant(f"{name}_none", 0, "i1")]
    before = f"{name}_none"
    for n, window in enumerate(windows.parts):
        part, result = f"{name}_{n}", f"{name}_or{n}"
        inside = _is_last(part, left, window) if isinstance(window, Last) else _is_in_window(part, number, window)
        lines += [*inside, f"{result} = llvm.or {before}, {part} : i1"]
        before = result
    return [*lines, f"{name} = llvm.or {before}, {name}_none : i1"]


def _is_last(name: str, left: str, window: Last) -> list[str]:
    count = constant(f"{name}_count", window.count)
    return [count, f'{name} = llvm.icmp "ult" {left}, {name}_count : i32']


def _is_in_window(name: str, number: str, window: Window) -> list[str]:
    """`(number - first) % step == 0`, where the difference as unsigned is at most `last - first`."""
    width = (1 << 31) - 1 - window.first if window.last is None else window.last - window.first
    return [
        constant(f"{name}_first", window.first),
        constant(f"{name}_width", width),
        constant(f"{name}_step", window.step),
        constant(f"{name}_zero", 0),
        f"{name}_since = llvm.sub {number}, {name}_first : i32",
        f"{name}_rest = llvm.urem {name}_since, {name}_step : i32",
        f'{name}_within = llvm.icmp "ule" {name}_since, {name}_width : i32',
        f'{name}_even = llvm.icmp "eq" {name}_rest, {name}_zero : i32',
        f"{name} = llvm.and {name}_within, {name}_even : i1",
    ]
