"""Operations of the dialect `kperf_gpu` that make buffers."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from kperfir.ir.gpu_types import BufferType, Memory
from kperfir.records import ALIGNMENT_BYTES, MAX_STACK_SLOTS, WIDE_RECORD_BYTES


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
