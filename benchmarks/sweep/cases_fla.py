"""Every wrapper that `fla.ops` exports, forward and backward.

Arguments are made by name: wrappers of the library agree on what `q`, `beta` or `g` are, with few exceptions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import fla.ops
import torch

Case = Callable[[], None]
BATCH, TIME, HEADS, WIDTH, SLOTS = 1, 256, 2, 64, 64

LEFT_OUT = {
    "fused_chunk_delta_rule": "gone: it only raises",
    "fused_chunk_gla": "gone: it only raises",
    "chunk_gdn": "another name of chunk_gated_delta_rule",
    "fused_recurrent_gdn": "another name of fused_recurrent_gated_delta_rule",
}


def cases() -> dict[str, Case]:
    """Names to calls; each with what is required only, and once more with what is optional."""
    names = [name for name in fla.ops.__all__ if name not in LEFT_OUT]
    made = {name: partial(_both_ways, name, {}) for name in names}
    return made | {f"{name} {what}": partial(_both_ways, name, options) for (name, what), options in _MORE.items()}


def _both_ways(name: str, options: dict[str, Any]) -> None:
    """Call a wrapper, and run the backward of what it returns."""
    function = getattr(fla.ops, name)
    arguments = _arguments(name, function)
    arguments |= {k: v(arguments) if callable(v) else v for k, v in options.items()}
    outputs = [o for o in _tensors(function(**arguments)) if o.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in _tensors(part)] if isinstance(result, (tuple, list)) else []


def _arguments(name: str, function: Any) -> dict[str, Any]:
    wanted = inspect.signature(inspect.unwrap(function)).parameters.values()
    special = _SPECIAL.get(name, {})
    required = [p.name for p in wanted if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    return {n: (special.get(n) or _USUAL[n])() for n in dict.fromkeys([*required, *special])}


def _x(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def _tokens() -> torch.Tensor:
    return _x(BATCH, TIME, HEADS, WIDTH)


def _unit() -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(BATCH, TIME, HEADS, WIDTH), dim=-1).bfloat16().requires_grad_()


def _rate() -> torch.Tensor:
    """Between 0 and 1, one a head."""
    return torch.rand(BATCH, TIME, HEADS).bfloat16().requires_grad_()


def _decay() -> torch.Tensor:
    """The logarithm of a decay, one a head."""
    return torch.nn.functional.logsigmoid(torch.randn(BATCH, TIME, HEADS)).requires_grad_()


def _decays() -> torch.Tensor:
    """The logarithm of a decay, one a channel."""
    return torch.nn.functional.logsigmoid(torch.randn(BATCH, TIME, HEADS, WIDTH)).requires_grad_()


def _states() -> torch.Tensor:
    return _x(BATCH, HEADS, WIDTH, WIDTH, dtype=torch.float32)


def _weight() -> torch.Tensor:
    return _x(WIDTH)


_USUAL: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(("q", "k", "v", "r"), _tokens),
    **dict.fromkeys(("p", "a", "b"), _unit),
    **dict.fromkeys(("beta", "delta", "beta_atk"), _rate),
    **dict.fromkeys(("g", "log_alpha", "log_mu", "g_atk"), _decay),
    **dict.fromkeys(("gk", "w"), _decays),
    **dict.fromkeys(("q_norm_weight", "k_norm_weight"), _weight),
    **dict.fromkeys(("q_norm_eps", "k_norm_eps"), lambda: 1e-6),
    "s": lambda: _x(BATCH, TIME, HEADS, SLOTS),
    "u": lambda: _x(HEADS, WIDTH),
    "lamb": lambda: torch.rand(HEADS, WIDTH).add(0.25).requires_grad_(),
    "layer_idx": lambda: 1,
    "num_layers": lambda: 4,
    "level_scales": lambda: _x(BATCH, TIME, HEADS, 9),
    "readout": _rate,
    "x": lambda: _x(BATCH, TIME, WIDTH),
}
_PER_CHANNEL = {"g": _decays}
_SPECIAL: dict[str, dict[str, Callable[[], Any]]] = {
    **dict.fromkeys(("chunk_gla", "chunk_kda", "fused_recurrent_kda", "chunk_precond_kda"), _PER_CHANNEL),
    **dict.fromkeys(("chunk_cyfa", "fused_recurrent_cyfa", "fused_recurrent_precond_kda"), _PER_CHANNEL),
    "parallel_wall_attn": _PER_CHANNEL,
    "fused_recurrent_gla": {"gk": _decays},
    **dict.fromkeys(("chunk_gsa", "fused_recurrent_gsa"), {"g": _decays}),
    "fused_recurrent_hgrn": {"g": lambda: torch.rand(BATCH, TIME, WIDTH).neg().requires_grad_()},
    **dict.fromkeys(("chunk_simple_gla", "fused_recurrent_simple_gla", "fused_chunk_simple_gla"), {"g": _decay}),
    "parallel_simple_gla": {"g": _decay},
    "parallel_path_attn": {"w": _unit},
    **dict.fromkeys(("fused_recurrent_gated_delta_rule",), {"g": _decay, "beta": _rate}),
}
_STATE = {"initial_state": lambda arguments: _states(), "output_final_state": True}
_MORE: dict[tuple[str, str], dict[str, Any]] = {}
