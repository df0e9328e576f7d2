"""Generic MLIR text -> xDSL operations.

MLIR's generic printer writes one operation a line (regions span lines), so a
line reader is enough and is an order of magnitude faster than a full parser.
Form: `%r:2 = "name"(%a, %b)[^bb1] <{properties}> ({` regions `}) {attributes} :
(types) -> types loc(...)`, as in https://mlir.llvm.org/docs/LangRef/#operations.
"""

from __future__ import annotations

import re

from xdsl.ir import Block, Region, SSAValue

from kperfir.errors import IRError
from kperfir.ir.foreign import BlockText, ForeignModule, ForeignOp, text_type

_OPERATION = re.compile(r'\s*(?:(%[^=]*?) = )?"([\w.$]+)"\(([^)]*)\)(?:\[([^\]]*)\])?(.*)', re.DOTALL)
_BLOCK = re.compile(r"\s*(\^\w+)(?:\((.*)\))?:(\s*//.*)?$")
_CURE = "kperfir cannot instrument this kernel; it runs as it is. Please report the line."


def read_module(text: str) -> ForeignModule:
    """Read a module printed in generic form.

    Raises:
        IRError: the text is no such module; the line is named.
    """
    return _Reader(text).read()


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
    def __init__(self, text: str) -> None:
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
            attributes, types, location = _split_signature(rest)
            args = [self.values[a] for a in operands.split(", ")] if operands else []
        except (ValueError, KeyError) as error:
            raise IRError(f"Line {self.at} cannot be read ({error}): {line.strip()[:120]!r}.", _CURE) from None
        targets = [self.block(label) for label in successors.split(", ")] if successors else []
        op = ForeignOp(operands=args, result_types=[text_type(t) for t in types], regions=regions, successors=targets)
        op.opname, op.location_text = opname, location
        op.properties_text, op.attributes_text = (before, attributes) if regions else (attributes, "")
        op.result_names = tuple(left.split(", ")) if left else ()
        self.define(op)
        return op

    def define(self, op: ForeignOp) -> None:
        results = iter(op.results)
        for text in op.result_names:
            name, colon, count = text.partition(":")
            if not colon:
                self.name(name, next(results))
                continue
            for i in range(int(count)):
                self.name(f"{name}#{i}", next(results))

    def name(self, name: str, value: SSAValue) -> None:
        self.values[name] = value
        self.names[value] = name

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
            blocks[-1].add_op(self.operation())

    def header(self, line: str) -> Block:
        match = _BLOCK.match(line)
        if match is None:
            raise IRError(f"Line {self.at + 1} is no block header: {line.strip()[:120]!r}.", _CURE)
        label, arguments, comment = match.groups()
        block = self.block(label)
        texts = []
        for text in split_top(arguments or ""):
            name, _, rest = text.partition(": ")
            cut = rest.find(" loc(")
            kind, location = (rest[:cut], rest[cut:]) if cut >= 0 else (rest, "")
            self.name(name, block.insert_arg(text_type(kind), len(block.args)))
            texts.append((name, location))
        self.blocks[block] = BlockText(label, tuple(texts), comment or "")
        self.at += 1
        return block


def _split_signature(rest: str) -> tuple[str, list[str], str]:
    """` {attributes} : (ins) -> outs loc(...)` -> attributes, result types, location."""
    cut = _location_start(rest)
    location, rest = rest[cut:], rest[:cut]
    colon = rest.rindex(" : (")
    results = rest[rest.index(") -> ", colon) + 5 :]
    if results.startswith("("):
        return rest[:colon], split_top(results[1:-1]), location
    return rest[:colon], [results], location


def _location_start(rest: str) -> int:
    if not rest.endswith(")"):
        return len(rest)
    cut = rest.rfind(" loc(#")
    if cut >= 0 and rest.find(")", cut) == len(rest) - 1:
        return cut
    cut = rest.find(" loc(", rest.rfind(") -> "))
    return cut if cut >= 0 else len(rest)
