"""Every wrapper of `fla.ops` that launches kernels, forward and backward.

Arguments are made by name: the library's wrappers agree on what `q`, `beta` or `g` are, with the exceptions below.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import fla.ops
import torch
from arguments_fla import INFERENCE, OPTIONS, SPECIAL, USUAL

Case = Callable[[], None]

LEFT_OUT = {
    "fused_chunk_delta_rule": "gone: it only raises",
    "deltaformer_attn": "needs flash-attn",
    "parallel_moba": "needs flash-attn",
    "parallel_delta_rule": "its module does not import",
    "fused_chunk_gla": "gone: it only raises",
    "chunk_gdn": "another name of chunk_gated_delta_rule",
    "fused_recurrent_gdn": "another name of fused_recurrent_gated_delta_rule",
}
# what `fla.ops` itself does not export
_FURTHER = {
    "attn.decoding": ("attn_decoding_one_step",),
    "gated_delta_product": ("chunk_gated_delta_product",),
    "gated_oja_rule": ("chunk_gated_oja_rule", "fused_recurrent_gated_oja_rule"),
    "gdn2": ("chunk_gdn2", "fused_recurrent_gdn2"),
    "hgrn": ("chunk_hgrn",),
    "lightnet": ("chunk_lightnet", "fused_recurrent_lightnet"),
    "mesa_net.decoding_one_step": ("mesa_net_decoding_one_step",),
    "parallax.decode": ("parallax_decode", "parallax_decode_one_step"),
    "rebased": ("parallel_rebased",),
    "rwkv4": ("fused_recurrent_rwkv4",),
    "rwkv7": ("fused_mul_recurrent_rwkv7",),
    "rwkv7.channel_mixing": ("channel_mixing_rwkv7",),
    "rwkv7.fused_addcmul": ("fused_addcmul_rwkv7",),
    "rwkv7.fused_k_update": ("fused_k_rwkv7",),
    "rwkv7.gate_output_correction": ("gate_output_correction",),
    "ttt": ("chunk_ttt_linear", "fused_chunk_ttt_linear"),
    "utils": ("addmm", "matmul", "mean_pooling", "sinkhorn", "softmax_fwd", "softmax_bwd", "logsumexp_fwd"),
}


def cases() -> dict[str, Case]:
    """Names to calls: what is required only, and with options that choose other kernels."""
    functions = {name: getattr(fla.ops, name) for name in fla.ops.__all__ if name not in LEFT_OUT}
    for module, names in _FURTHER.items():
        functions |= {name: getattr(importlib.import_module(f"fla.ops.{module}"), name) for name in names}
    made = {name: partial(_both_ways, name, function, {}) for name, function in functions.items()}
    for what, (options, names) in OPTIONS.items():
        made |= {f"{name} {what}": partial(_both_ways, name, functions[name], options) for name in names}
    return made


def _both_ways(name: str, function: Any, options: dict[str, Callable[[], Any]]) -> None:
    """Call a wrapper, and run the backward of what it returns."""
    arguments = _arguments(name, function) | {k: make() for k, make in options.items()}
    with torch.set_grad_enabled(name not in INFERENCE):
        outputs = [o for o in _tensors(function(**arguments)) if o.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])


def _arguments(name: str, function: Any) -> dict[str, Any]:
    special = SPECIAL.get(name, {})
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {n: (special.get(n) or USUAL[n])() for n in dict.fromkeys([*required, *special])}


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in _tensors(part)] if isinstance(result, (tuple, list)) else []
