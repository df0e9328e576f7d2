"""Which operations place records, which part of asynchronous work they are, and which rule picks them.

Only anchors place records: memory, issue and wait of asynchronous work, dot,
reduce, barrier. Address arithmetic, constants and layout changes never do,
because schedulers scatter them over the whole kernel.
"""

from __future__ import annotations

from kperfir.ir.foreign import ForeignOp
from kperfir.records import Role

# name of the operation -> (rule that picks it or "", role)
_ANCHORS: dict[str, tuple[str, Role]] = {
    "tt.load": ("load", "sync"),
    "tt.gather": ("", "sync"),
    "tt.atomic_load": ("load", "sync"),
    "tt.descriptor_load": ("load", "sync"),
    "tt.descriptor_gather": ("load", "sync"),
    "ttg.async_copy_global_to_local": ("load", "issue"),
    "ttg.async_commit_group": ("load", "issue"),
    "ttng.async_tma_copy_global_to_local": ("load", "issue"),
    "ttng.async_tma_gather": ("load", "issue"),
    "ttng.async_copy_mbarrier_arrive": ("load", "issue"),
    "ttng.barrier_expect": ("load", "issue"),
    "amdg.buffer_load": ("load", "sync"),
    "amdg.masked_load": ("load", "sync"),
    "amdg.buffer_load_to_local": ("load", "issue"),
    "amdg.async_tdm_copy_global_to_local": ("load", "issue"),
    "amdg.async_tdm_gather": ("load", "issue"),
    "amdg.async_tdm_fused_copy_global_to_local": ("load", "issue"),
    "amdg.async_copy_mbarrier_arrive": ("load", "issue"),
    "amdg.tdm_prefetch": ("load", "issue"),
    "tt.store": ("store", "sync"),
    "tt.atomic_rmw": ("store", "sync"),
    "tt.atomic_cas": ("store", "sync"),
    "tt.atomic_store": ("store", "sync"),
    "tt.descriptor_store": ("store", "sync"),
    "tt.descriptor_reduce": ("store", "sync"),
    "tt.descriptor_scatter": ("store", "sync"),
    "ttng.async_tma_copy_local_to_global": ("store", "issue"),
    "ttng.async_tma_reduce": ("store", "issue"),
    "ttng.async_tma_scatter": ("store", "issue"),
    "amdg.buffer_store": ("store", "sync"),
    "amdg.masked_store": ("store", "sync"),
    "amdg.buffer_atomic_rmw": ("store", "sync"),
    "amdg.buffer_atomic_cas": ("store", "sync"),
    "amdg.async_tdm_copy_local_to_global": ("store", "issue"),
    "amdg.async_tdm_scatter": ("store", "issue"),
    "amdg.async_copy_local_to_global": ("store", "issue"),
    "tt.dot": ("dot", "sync"),
    "tt.dot_scaled": ("dot", "sync"),
    "ttng.warp_group_dot": ("dot", "sync"),
    "ttng.tc_gen5_mma": ("dot", "issue"),
    "ttng.tc_gen5_mma_scaled": ("dot", "issue"),
    "ttng.tc_gen5_commit": ("dot", "issue"),
    "tt.reduce": ("reduce", "sync"),
    "tt.scan": ("reduce", "sync"),
    "tt.histogram": ("reduce", "sync"),
    "tt.atomic_poll": ("wait", "wait"),
    "tt.grid_dependency_wait": ("wait", "wait"),
    "ttg.async_wait": ("wait", "wait"),
    "ttng.wait_barrier": ("wait", "wait"),
    "ttng.warp_group_dot_wait": ("wait", "wait"),
    "ttng.async_tma_store_wait": ("wait", "wait"),
    "ttng.tmem_wait": ("wait", "wait"),
    "amdg.async_wait": ("wait", "wait"),
    "amdg.async_tdm_wait": ("wait", "wait"),
    "amdg.async_tdm_intrinsic_wait": ("wait", "wait"),
    "amdg.wait_barrier": ("wait", "wait"),
    "amdg.memory_counter_wait": ("wait", "wait"),
    "gpu.barrier": ("barrier", "sync"),
    "ttg.barrier": ("barrier", "sync"),
    "ttg.local_barrier": ("barrier", "sync"),
    "ttng.arrive_barrier": ("barrier", "sync"),
    "ttng.cluster_arrive": ("barrier", "sync"),
    "ttng.cluster_wait": ("barrier", "wait"),
    "ttng.cluster_barrier": ("barrier", "sync"),
    "amdg.arrive_barrier": ("barrier", "sync"),
    "amdg.cond_barrier": ("barrier", "sync"),
    "amdg.cluster_barrier_arrive": ("barrier", "sync"),
    "amdg.cluster_barrier_wait": ("barrier", "wait"),
    "ttg.local_load": ("", "sync"),
    "ttg.local_store": ("", "sync"),
    "ttg.local_gather": ("", "sync"),
    "ttg.local_scatter": ("", "sync"),
    "ttg.local_atomic_scatter_rmw": ("", "sync"),
    "amdg.local_load_packed_transposed": ("", "sync"),
    "amdg.local_load_packed_tranposed": ("", "sync"),  # as Triton 3.6 spells it
    "ttng.async_shared_store": ("", "issue"),
    "ttng.clc_try_cancel": ("", "issue"),
    "ttng.clc_try_cancel_sync": ("", "sync"),
    "ttng.clc_load_result": ("", "sync"),
    "ttng.tmem_load": ("", "sync"),
    "ttng.tmem_store": ("", "sync"),
    "ttng.tmem_copy": ("", "issue"),
}

WORK = ("load", "store", "dot")
"""Rules whose operations move or multiply data."""

# anchors of such a rule that only count, announce or wait for what others move
_BOOK_KEEPING = frozenset(
    {
        "ttg.async_commit_group",
        "ttng.async_copy_mbarrier_arrive",
        "ttng.barrier_expect",
        "ttng.tc_gen5_commit",
    }
)

LOOPS = frozenset({"scf.for", "scf.while"})
STRUCTURAL = LOOPS | {"scf.if", "ttg.warp_specialize", "scf.execute_region"}
_NEVER = frozenset({"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "ttg.convert_layout"})
_COMPUTE = ("arith.", "math.", "tt.extern_elementwise", "tt.fp_to_fp", "tt.map_elementwise", "tt.precise_")


def is_anchor(op: ForeignOp) -> bool:
    """Whether the operation places records by itself."""
    return op.opname in _ANCHORS or is_initialised_alloc(op)


def role_of(op: ForeignOp) -> Role:
    """Issue, wait, or neither."""
    if op.opname == "ttng.warp_group_dot" and "isAsync = true" in op.properties_text:
        return "issue"
    return _ANCHORS[op.opname][1] if op.opname in _ANCHORS else "sync"


def rule_of(op: ForeignOp) -> str:
    """The rule that picks this operation, or an empty string."""
    if op.opname in LOOPS:
        return "loop"
    return _ANCHORS[op.opname][0] if op.opname in _ANCHORS else ""


def work_of(op: ForeignOp) -> str:
    """The rule of an operation that itself moves or multiplies data, or an empty string."""
    rule = rule_of(op)
    return rule if rule in WORK and op.opname not in _BOOK_KEEPING else ""


def is_initialised_alloc(op: ForeignOp) -> bool:
    """An allocation that also writes: it stores its operand."""
    return op.opname in ("ttg.local_alloc", "ttng.tmem_alloc") and op.has_operands


def computes(op: ForeignOp) -> bool:
    """Floating-point arithmetic on tensors: it yields a scope's results; no address is ever one."""
    if op.opname in _NEVER or not op.opname.startswith(_COMPUTE) or op.opname == "arith.constant":
        return False
    text = op.first_type_text
    return text.startswith("tensor<") and _is_float(text)


def _is_float(tensor: str) -> bool:
    element = tensor[len("tensor<") :].partition(",")[0].rstrip(">").rpartition("x")[2]
    return element.startswith(("f", "bf", "tf"))
