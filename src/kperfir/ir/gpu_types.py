"""Types of the dialect `kperf_gpu`."""

from __future__ import annotations

from enum import StrEnum

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException


class Memory(StrEnum):
    """Levels that can hold a buffer."""

    SHARED = "shared"
    GLOBAL = "global"


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Memory of one CTA, at one level."""

    name = "kperf_gpu.buffer"

    memory: StringAttr

    @staticmethod
    def of(memory: Memory) -> BufferType:
        """The type of buffers at this level."""
        return BufferType(StringAttr(memory))

    def verify(self) -> None:
        if self.memory.data not in list(Memory):
            raise VerifyException(f"a buffer lies in {' or '.join(Memory)} memory, not {self.memory.data}")


@irdl_attr_definition
class IndexType(ParametrizedAttribute, TypeAttribute):
    """A warp's place in its ring: how many bytes it has written so far."""

    name = "kperf_gpu.index"
