"""Memory in the dialect `kperf_gpu`: buffers, and the operations that make them."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from kperfir.records import ALIGNMENT_BYTES, MAX_STACK_SLOTS, WIDE_RECORD_BYTES


class Memory(StrEnum):
    """Levels that can hold a buffer."""

    SHARED = "shared"
    GLOBAL = "global"
    STACK = "stack"


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Memory of one CTA at one level; of each of its threads on the stack."""

    name = "kperf_gpu.buffer"

    memory: StringAttr

    @staticmethod
    def of(memory: Memory) -> BufferType:
        """The type of buffers at this level."""
        return BufferType(StringAttr(memory))

    def verify(self) -> None:
        if self.memory.data not in list(Memory):
            raise VerifyException(f"a buffer lies in {' or '.join(Memory)} memory, not {self.memory.data}")


class _Alloc(IRDLOperation):
    size_bytes = prop_def(IntegerAttr)
    buffer = result_def(BufferType)

    assembly_format = "$size_bytes attr-dict `:` type($buffer)"
    MEMORY: ClassVar[Memory]

    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            properties={"size_bytes": IntegerAttr(size_bytes, i32)}, result_types=[BufferType.of(self.MEMORY)]
        )

    def verify_(self) -> None:
        size = self.size_bytes.value.data
        if size <= 0 or size % ALIGNMENT_BYTES:
            raise VerifyException(f"a buffer is a multiple of {ALIGNMENT_BYTES} bytes, not {size}")
        kind = self.buffer.type
        if not isinstance(kind, BufferType) or kind.memory.data != self.MEMORY:
            raise VerifyException(f"{self.name} makes a buffer in {self.MEMORY} memory, not {kind}")


@irdl_op_definition
class LocalAllocOp(_Alloc):
    """Memory of the CTA behind what the kernel's own shared memory takes."""

    name = "kperf_gpu.local_alloc"
    MEMORY: ClassVar[Memory] = Memory.SHARED


@irdl_op_definition
class GlobalScratchAllocOp(_Alloc):
    """The CTA's block of the kernel's profile-scratch argument."""

    name = "kperf_gpu.global_scratch_alloc"
    MEMORY: ClassVar[Memory] = Memory.GLOBAL


@irdl_op_definition
class StackAllocOp(_Alloc):
    """Local memory of each thread. Only the first lane of a warp writes into its own."""

    name = "kperf_gpu.stack_alloc"
    MEMORY: ClassVar[Memory] = Memory.STACK

    def verify_(self) -> None:
        super().verify_()
        most = MAX_STACK_SLOTS * WIDE_RECORD_BYTES
        if self.size_bytes.value.data > most:
            raise VerifyException(f"a buffer on the stack has {most} bytes at most, not {self.size_bytes.value.data}")
