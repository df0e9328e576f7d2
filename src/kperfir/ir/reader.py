"""Generic MLIR text -> xDSL operations.

MLIR's generic printer writes one operation a line (regions span lines), so a
line reader is enough and is an order of magnitude faster than a full parser.
Form: `%r:2 = "name"(%a, %b)[^bb1] <{properties}> ({` regions `}) {attributes} :
(types) -> types loc(...)`, as in https://mlir.llvm.org/docs/LangRef/#operations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from xdsl.ir import Block, Region, SSAValue

from kperfir.errors import IRError
from kperfir.ir.foreign import BlockText, ForeignModule, ForeignOp, TextType, append, text_type

_OPERATION = re.compile(r'\s*(?:(%[^=]*?) = )?"([\w.$]+)"\(([^)]*)\)(?:\[([^\]]*)\])?(.*)', re.DOTALL)
_BLOCK = re.compile(r"\s*(\^\w+)(?:\((.*)\))?:(\s*//.*)?$")
_NEXT_ARGUMENT = re.compile(r", (?=%)")
_CURE = "kperfir cannot instrument this kernel; it runs as it is. Please report the line."


def read_module(text: str, with_values: bool = True) -> ForeignModule:
    """Read a module printed in generic form.

    Args:
        text: the module.
        with_values: whether operands and results are read. A pass that looks at names,
            regions and locations only does without, in two thirds of the time; the
            values stay text then.

    Raises:
        IRError: the text is no such module; the line is named.
    """
    return _Reader(text, with_values).read()


def split_top(text: str) -> list[str]:
    """Split at the commas that lie in no bracket and no string."""
    if "," not in text:
        return [text] if text else []
    parts: list[str] = []
    depth = start = 0
    quoted = False
    for i, char in enumerate(text):
        if char == '"' and (i == 0 or text[i - 1] != "\\"):
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and text[i - 1] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts


class _Reader:
    def __init__(self, text: str, with_values: bool) -> None:
        self.with_values = with_values
        self.lines = text.split("\n")
        self.at = 0
        self.values: dict[str, SSAValue] = {}
        self.labels: list[dict[str, Block]] = []
        self.names: dict[SSAValue, str] = {}
        self.blocks: dict[Block, BlockText] = {}

    def read(self) -> ForeignModule:
        while self.at < len(self.lines) and not self.lines[self.at].startswith('"builtin.module"'):
            self.at += 1
        prologue = self.lines[: self.at]
        if self.at == len(self.lines):
            raise IRError("The text holds no module in generic form.", _CURE)
        root = self.operation()
        return ForeignModule(prologue, root, self.lines[self.at :], self.blocks, self.names)

    def operation(self) -> ForeignOp:
        line = self.lines[self.at]
        match = _OPERATION.match(line)
        if match is None:
            raise IRError(f"Line {self.at + 1} is no operation: {line.strip()[:120]!r}.", _CURE)
        left, opname, operands, successors, rest = match.groups()
        self.at += 1
        regions: list[Region] = []
        before = ""
        if rest.endswith("({"):
            before = rest[:-2].rstrip()
            regions, rest = self.regions()
        try:
            attributes, signature, results, location = _split_signature(rest)
            args = [self.values[a] for a in operands.split(", ")] if operands and self.with_values else []
        except (ValueError, KeyError) as error:
            raise IRError(f"Line {self.at} cannot be read ({error}): {line.strip()[:120]!r}.", _CURE) from None
        targets = [self.block(label) for label in successors.split(", ")] if successors else []
        inner, outer = (before, attributes) if regions else (attributes, "")
        op = ForeignOp(
            opname,
            args,
            _result_types(results) if self.with_values else (),
            inner,
            location,
            regions=regions,
            successors=targets,
            result_names=tuple(left.split(", ")) if left else (),
            attributes_text=outer,
            signature_text=signature,
            operands_text="" if self.with_values else operands,
        )
        if left and self.with_values:
            self.define(op)
        return op

    def define(self, op: ForeignOp) -> None:
        names: Sequence[str] = op.result_names
        if len(op.results) == 1:
            result = op.results[0]
            name = names[0].partition(":")[0] + "#0" if ":" in names[0] else names[0]
            self.values[name], self.names[result] = result, name
            return
        if len(names) != len(op.results):
            names = _each_name(names)
        self.values.update(zip(names, op.results))
        self.names.update(zip(op.results, names))  # names come again in another function

    def block(self, label: str) -> Block:
        return self.labels[-1].setdefault(label, Block())

    def regions(self) -> tuple[list[Region], str]:
        regions: list[Region] = []
        while True:
            region, closing = self.region()
            regions.append(region)
            if closing != "}, {":
                return regions, closing[2:]

    def region(self) -> tuple[Region, str]:
        self.labels.append({})
        blocks: list[Block] = []
        while True:
            if self.at >= len(self.lines):
                raise IRError("The text ends inside a region.", _CURE)
            line = self.lines[self.at]
            stripped = line.lstrip()
            if stripped.startswith(("})", "}, {")):
                self.at += 1
                self.labels.pop()
                return Region(blocks), stripped
            if stripped.startswith("^"):
                blocks.append(self.header(line))
                continue
            if not blocks:
                blocks.append(Block())
                self.blocks[blocks[0]] = BlockText(implicit=True)
            append(blocks[-1], self.operation())

    def header(self, line: str) -> Block:
        match = _BLOCK.match(line)
        if match is None:
            raise IRError(f"Line {self.at + 1} is no block header: {line.strip()[:120]!r}.", _CURE)
        label, arguments, comment = match.groups()
        block = self.block(label)
        if arguments and self.with_values:
            self.define_arguments(block, arguments)
        self.blocks[block] = BlockText(label, arguments or "", comment or "")
        self.at += 1
        return block

    def define_arguments(self, block: Block, arguments: str) -> None:
        for text in _NEXT_ARGUMENT.split(arguments):
            name, _, kind = text.partition(": ")
            argument = block.insert_arg(text_type(kind.partition(" loc(")[0]), len(block.args))
            self.values[name], self.names[argument] = argument, name


def _each_name(texts: Sequence[str]) -> list[str]:
    """`%a:2` is `%a#0` and `%a#1`."""
    names: list[str] = []
    for text in texts:
        name, colon, count = text.partition(":")
        names += [f"{name}#{i}" for i in range(int(count))] if colon else [name]
    return names


@lru_cache(4096)
def _result_types(text: str) -> tuple[TextType, ...]:
    """`i32`, `()` or `(i32, tensor<4xf32>)` -> types."""
    texts = split_top(text[1:-1]) if text.startswith("(") else [text]
    return tuple(text_type(t) for t in texts)


def _split_signature(rest: str) -> tuple[str, str, str, str]:
    """` {attributes} : (ins) -> outs loc(...)` -> attributes, ` : (ins) -> outs`, outs, location."""
    end = rest.rfind(" loc(#")
    if end < 0 or rest.find(")", end) != len(rest) - 1:
        end = _location_start(rest)
    colon = rest.rindex(" : (", 0, end)
    outs = rest.index(") -> ", colon, end) + len(") -> ")
    return rest[:colon], rest[colon:end], rest[outs:end], rest[end:]


def _location_start(rest: str) -> int:
    """Where a location that is no alias starts; the end where there is none."""
    cut = rest.find(" loc(", rest.rfind(") -> ")) if rest.endswith(")") else -1
    return cut if cut >= 0 else len(rest)
