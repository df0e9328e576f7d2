"""xDSL operations -> generic MLIR text.

What was read is printed as it was, names and comments included; operations that
a pass inserted get names of their own.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from kperfir.errors import IRError
from kperfir.ir.foreign import ForeignModule, ForeignOp, TextType
from kperfir.ir.kperf import Record


def print_module(module: ForeignModule, without_records: bool = False) -> str:
    """The module as generic text.

    Args:
        without_records: leave `kperf.record` out, which has no values: what is left is the kernel.

    Raises:
        IRError: an operation of kperfir's dialects is left that nothing lowered.
    """
    printer = _Printer(module, without_records)
    printer.operation(module.root, "")
    return "\n".join([*module.prologue, *printer.lines, *module.epilogue])


class _Printer:
    def __init__(self, module: ForeignModule, without_records: bool) -> None:
        self.without_records = without_records
        self.names = dict(module.names)
        self.blocks = module.blocks
        self.labels: dict[Block, str] = {}
        self.lines: list[str] = []
        self.fresh = 0

    def operation(self, op: ForeignOp, indent: str) -> None:
        names = self.names
        left = self.left(op)
        operands = op.operands_text or ", ".join([names[v] for v in op._operands])
        head = f'{indent}{left}"{op.opname}"({operands})'
        if op.successors:
            head += f"[{', '.join(self.label(b) for b in op.successors)}]"
        head += op.properties_text
        if op.regions:
            self.regions(op, head, indent)
            head = indent + "})" + op.attributes_text
        self.lines.append(head + (op.signature_text or _signature(op)) + op.location_text)

    def left(self, op: ForeignOp) -> str:
        if op.results and op.results[0] not in self.names:  # made by a pass; it keeps no name, for the next to print
            return ", ".join([self.invent(v) for v in op.results]) + " = "
        return ", ".join(op.result_names) + " = " if op.result_names else ""

    def invent(self, value: SSAValue) -> str:
        self.fresh += 1
        return self.names.setdefault(value, f"%kperf_{self.fresh}")

    def regions(self, op: ForeignOp, head: str, indent: str) -> None:
        self.lines.append(head + " ({")
        for i, region in enumerate(op.regions):
            if i:
                self.lines.append(indent + "}, {")
            for block in region.blocks:
                self.block(block, indent)

    def block(self, block: Block, indent: str) -> None:
        text = self.blocks.get(block)
        if text is None:
            self.lines.append(f"{indent}{self.label(block)}{self.arguments(block)}:")
        elif not text.implicit:
            arguments = f"({text.arguments})" if text.arguments else ""
            self.lines.append(f"{indent}{text.label}{arguments}:{text.comment}")
        for op in block.ops:
            if self.without_records and isinstance(op, Record):
                continue
            if not isinstance(op, ForeignOp):
                raise IRError(f"{op.name} was not lowered before the module was printed.", "This is a bug in a pass.")
            self.operation(op, indent + "  ")

    def arguments(self, block: Block) -> str:
        texts = [f"{self.invent(a)}: {_text(a)}" for a in block.args]
        return f"({', '.join(texts)})" if texts else ""

    def label(self, block: Block) -> str:
        text = self.blocks.get(block)
        return text.label if text else self.labels.setdefault(block, f"^kperf{len(self.labels)}")


def _text(value: SSAValue) -> str:
    kind = value.type
    return kind.data if isinstance(kind, TextType) else str(kind)


def _signature(op: ForeignOp) -> str:
    operands = ", ".join(_text(v) for v in op.operands)
    results = [_text(v) for v in op.results]
    outs = results[0] if len(results) == 1 and not results[0].startswith("(") else f"({', '.join(results)})"
    return f" : ({operands}) -> {outs}"
