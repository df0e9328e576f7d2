"""Lines of the LLVM dialect that both vendors write."""

from __future__ import annotations

from collections.abc import Sequence


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
