"""Every operation of the installed Triton's dialects is an anchor, or is known to be none: a new one is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from triton._C import libtriton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from kperfir.bridge.compat import NEWEST_TESTED, OLDEST, triton_version
from kperfir.bridge.refusal import refusal_of
from kperfir.ir.foreign import ForeignOp
from kperfir.passes.anchors import is_anchor

# arithmetic, layouts, descriptors, allocations, hints, structure; allocations that store are anchors by their operand
_NONE = """
amdg.concat amdg.extract_slice amdg.in_thread_transpose amdg.init_barrier amdg.instruction_sched_hint
amdg.scaled_downcast_fp4 amdg.scaled_downcast_fp8 amdg.scaled_upcast_fp4 amdg.scaled_upcast_fp8
amdg.update_tensor_descriptor amdg.upcast_mxfp gluon.set_auto_layout tt.addptr tt.advance tt.approx_divf
tt.assert tt.bitcast tt.broadcast tt.call tt.cat tt.clampf tt.elementwise_inline_asm tt.expand_dims
tt.extern_elementwise tt.fp_to_fp tt.func tt.get_num_programs tt.get_program_id
tt.grid_dependency_launch_dependents tt.int_to_ptr tt.join tt.make_range tt.make_tensor_descriptor
tt.make_tensor_ptr tt.map_elementwise tt.mulhiui tt.precise_divf tt.precise_sqrt tt.print tt.ptr_to_int
tt.reshape tt.return tt.splat tt.split tt.trans tt.unsplat ttg.convert_layout ttg.fp4_to_fp
ttg.global_scratch_alloc ttg.inline_asm ttg.local_alloc ttg.local_dealloc ttg.mask ttg.memdesc_index
ttg.memdesc_reinterpret ttg.memdesc_reshape ttg.memdesc_subslice ttg.memdesc_trans ttg.predicate_stage
ttg.warp_id ttg.warp_return ttg.warp_specialize ttg.warp_yield ttng.clc_get_program_id ttng.clc_is_canceled
ttng.fence_async_shared ttng.fence_mbarrier_init_release_cluster ttng.init_barrier ttng.inval_barrier
ttng.packed_arith ttng.reinterpret_tensor_descriptor ttng.tensormap_create ttng.tensormap_fenceproxy_acquire
ttng.tmem_alloc ttng.tmem_subslice
"""
NO_ANCHORS = frozenset(_NONE.split())
_NAME = re.compile(rb"(?<![\w.])(?:tt|ttg|ttng|amdg|gluon)\.[a-z][a-z0-9_]*")


def operations() -> set[str]:
    """Names in Triton's library that its parser takes for operations, even if they lack operands."""
    context = ir.context()
    ir.load_dialects(context)
    for target in (GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
        make_backend(target).load_dialects(context)
    names = {found.decode() for found in _NAME.findall(Path(libtriton.__file__).read_bytes())}
    module = '"builtin.module"() ({{\n  "{}"() : () -> ()\n}}) : () -> ()'
    return {name for name in names if "unregistered operation" not in refusal_of(module.format(name), context)}


def test_every_operation_is_an_anchor_or_none() -> None:
    found = operations()
    anchors = {name for name in found if is_anchor(ForeignOp(name, [], []))}
    assert {"tt.load", "ttng.warp_group_dot", "amdg.buffer_load"} <= anchors and len(found) > 100
    assert sorted(found - anchors - NO_ANCHORS) == []
    assert sorted(anchors & NO_ANCHORS) == []


@pytest.mark.skipif(triton_version() not in (OLDEST, NEWEST_TESTED), reason="others may lack some")
def test_waiting_for_memory_is_an_anchor() -> None:
    found = operations()
    assert ("tt.atomic_poll" in found) == (triton_version() == NEWEST_TESTED)
    assert is_anchor(ForeignOp("tt.atomic_poll", [], []))
