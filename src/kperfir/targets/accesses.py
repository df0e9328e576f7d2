"""Memory accesses of NVIDIA kernels: from a line of the LLVM dialect to pointer, width and predicate.

Triton writes most of them as PTX in inline assembly, such as
"@$2 ld.global.v4.b32 { ... }, [ $1 + 0 ];", the others as operations of the LLVM
dialect. Instructions: https://docs.nvidia.com/cuda/parallel-thread-execution/#instruction-set.
"""

from __future__ import annotations

import re

from kperfir.ir.store_address import Accessed
from kperfir.passes.addresses import Untraced
from kperfir.records import AccessKind

_ASSEMBLY = re.compile(
    r'"llvm\.inline_asm"\((?P<operands>[^)]*)\).*?asm_string = "(?P<text>(?:[^"\\]|\\.)*)"'
    r', constraints = "(?P<constraints>[^"]*)"'
)
_INSTRUCTION = re.compile(
    r"(?:@(?P<predicate>\S+)\s+)?"
    r"\b(?P<name>(?:ld|st|atom|red)\.[\w.:]*\bglobal\b[\w.:]*|cp\.async\.c[ag]\.shared[\w.:]*\.global[\w.:]*)"
    r"\s+(?P<operands>[^;]*);"
)
_ADDRESS = re.compile(r"\[\s*\$(\d+)\s*(?:\+\s*(-?\w+)\s*)?\]")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_COPIED = re.compile(r"\]\s*,\s*(\w+)\s*(?:,\s*\$(\d+)\s*)?(?:,[^\]]*)?$")
_OPERATION = re.compile(
    r'"llvm\.(?P<name>load|store|atomicrmw|cmpxchg)"\((?P<operands>[^)]*)\).*'
    r" : \((?P<types>.*)\) -> (?P<result>.*?)(?: loc\(.*)?$"
)
_VECTOR = re.compile(r"\.v(\d)\b")
_ELEMENT = re.compile(r"\.(?:b|u|s|f|bf)(\d+)(?:x(\d))?$")
_TYPE = re.compile(r"(?:vector<(\d+)x)?(?:b?f|i)(\d+)>?")
_BULK = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?!commit|wait|prefetch)[\w.:]*")
_POINTER_BYTES = 8
_GLOBAL = "!llvm.ptr<1>"
_KINDS: dict[str, AccessKind] = {
    "ld": "load", "st": "store", "atom": "atomic", "red": "atomic", "cp": "async-copy",
    "load": "load", "store": "store", "atomicrmw": "atomic", "cmpxchg": "atomic",
}  # fmt: skip


def accesses_of(line: str) -> list[Accessed | Untraced]:
    """The accesses to global memory of one line, in order."""
    if found := _BULK.search(line):
        reason = "A bulk copy (TMA) names a descriptor and coordinates, not an address a lane, so it is not traced."
        return [Untraced("async-copy", found[0], reason)]
    if "llvm.inline_asm" in line and "global" in line:
        return _of_assembly(line)
    return _of_operation(line) if _GLOBAL in line else []


def _of_assembly(line: str) -> list[Accessed | Untraced]:
    found = _ASSEMBLY.search(line)
    if found is None:
        return []
    outputs = sum(part.startswith("=") for part in found["constraints"].split(","))
    names = [name.strip() for name in found["operands"].split(",")]
    values = {outputs + i: name for i, name in enumerate(names)}
    text = found["text"].replace("\\0A", "\n").replace("\\09", "\t")
    return [_of_instruction(match, values) for match in _INSTRUCTION.finditer(text)]


def _of_instruction(match: re.Match[str], values: dict[int, str]) -> Accessed | Untraced:
    name, operands = match["name"], match["operands"]
    kind = _KINDS[name.partition(".")[0]]
    is_copy = kind == "async-copy"
    brackets = _BRACKETS.findall(operands)
    address = _ADDRESS.fullmatch(brackets[is_copy]) if len(brackets) > is_copy else None
    predicate = _value(match["predicate"] or "", values)
    copied = _COPIED.search(operands) if is_copy else None
    width_bytes = int(copied[1], 0) if copied else 0 if is_copy else _width_bytes(name)
    pointer = values.get(int(address[1])) if address else None
    if address is None or pointer is None or predicate is None or not width_bytes:
        return Untraced(kind, name, f"Its {name} is not written as Triton writes one, so it is not traced.")
    source_bytes = values[int(copied[2])] if copied and copied[2] else ""
    return Accessed(kind, width_bytes, name, pointer, int(address[2] or "0", 0), predicate, source_bytes)


def _value(operand: str, values: dict[int, str]) -> str | None:
    """The value of a predicate "$2" or "!$2"; empty for none, None for a register of the assembly's own."""
    if not operand:
        return ""
    found = re.fullmatch(r"(!?)\$(\d+)", operand)
    value = values.get(int(found[2])) if found else None
    return f"{found[1]}{value}" if found and value else None


def _width_bytes(instruction: str) -> int:
    """What a lane accesses; 0 where it cannot be told."""
    element, vector = _ELEMENT.search(instruction), _VECTOR.search(instruction)
    if element is None:
        return 0
    return int(element[1]) * int(element[2] or 1) * (int(vector[1]) if vector else 1) // 8


def _of_operation(line: str) -> list[Accessed | Untraced]:
    found = _OPERATION.search(line)
    if found is None:
        return []
    name = found["name"]
    values, types = found["operands"].split(", "), found["types"].split(", ")
    pointer = 1 if name == "store" else 0
    if types[pointer] != _GLOBAL:
        return []
    accessed = found["result"] if name == "load" else types[1 - pointer]
    kind = _KINDS[name]
    width_bytes = _type_bytes(accessed)
    if not width_bytes:
        return [
            Untraced(
                kind, f"llvm.{name}", f"Its llvm.{name} of {accessed} has no size known here, so it is not traced."
            )
        ]
    return [Accessed(kind, width_bytes, f"llvm.{name}", values[pointer])]


def _type_bytes(kind: str) -> int:
    """Size of an integer, float, pointer or vector of them; 0 for another type."""
    if kind.startswith("!llvm.ptr"):
        return _POINTER_BYTES
    found = _TYPE.fullmatch(kind)
    return int(found[1] or 1) * int(found[2]) // 8 if found else 0
