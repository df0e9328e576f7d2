"""What the wrappers of `fla.ops` take, by the names of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import logsigmoid, normalize

Make = Callable[[], Any]
BATCH, TIME, HEADS, WIDTH = 1, 256, 2, 64
TOKENS = (BATCH, TIME, HEADS, WIDTH)
GROUP = 16  # query heads a key head, where a wrapper insists


def _x(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def _single(*shape: int) -> torch.Tensor:
    return _x(*shape, dtype=torch.float32)


def _tokens() -> torch.Tensor:
    return _x(*TOKENS)


def _one() -> torch.Tensor:
    """The query of one step."""
    return torch.randn(BATCH, 1, HEADS, WIDTH, dtype=torch.bfloat16)


def _cached() -> torch.Tensor:
    return torch.randn(*TOKENS, dtype=torch.bfloat16)


def _unit() -> torch.Tensor:
    return normalize(torch.randn(*TOKENS), dim=-1).bfloat16().requires_grad_()


def _rate() -> torch.Tensor:
    """Between 0 and 1, one a head."""
    return torch.rand(*TOKENS[:3]).bfloat16().requires_grad_()


def _decay() -> torch.Tensor:
    """The logarithm of a decay, one a head."""
    return logsigmoid(torch.randn(*TOKENS[:3])).requires_grad_()


def _decays() -> torch.Tensor:
    """The logarithm of a decay, one a channel."""
    return logsigmoid(torch.randn(*TOKENS)).requires_grad_()


def _rows() -> torch.Tensor:
    return _x(BATCH, TIME, HEADS * WIDTH)


def _gates() -> torch.Tensor:
    return logsigmoid(torch.randn(BATCH, TIME, HEADS * WIDTH)).requires_grad_()


def _state() -> torch.Tensor:
    return _single(BATCH, HEADS, WIDTH, WIDTH)


def _lengths() -> torch.Tensor:
    return torch.tensor([0, 100, TIME], dtype=torch.int32)


def _always(value: Any) -> Make:
    return lambda: value


def _each(makes: dict[str, Make], *names: str) -> dict[str, dict[str, Make]]:
    return {name: makes for name in names}


def _shaped(*shape: int) -> Make:
    return lambda: _x(*shape)


_MIXED: dict[str, Make] = dict.fromkeys(("xr", "xw", "xk", "xv", "xa"), _shaped(1, 1, HEADS * WIDTH))
USUAL: dict[str, Make] = {
    **dict.fromkeys(("q", "k", "v", "r", "o", "kk"), _tokens),
    **dict.fromkeys(("p", "a", "b"), _unit),
    **dict.fromkeys(("beta", "delta", "beta_atk"), _rate),
    **dict.fromkeys(("g", "log_alpha", "log_mu", "g_atk"), _decay),
    **dict.fromkeys(("gk", "gv", "w"), _decays),
    **dict.fromkeys(("q_norm_weight", "k_norm_weight"), _shaped(WIDTH)),
    **dict.fromkeys(("q_norm_eps", "k_norm_eps"), _always(1e-6)),
    **_MIXED,
    "s": _tokens,
    "u": _shaped(HEADS, WIDTH),
    "lamb": lambda: torch.rand(HEADS, WIDTH).add(0.25).requires_grad_(),
    "layer_idx": _always(1),
    "num_layers": _always(4),
    "level_scales": lambda: _x(*TOKENS[:3], 9),
    "readout": lambda: _single(HEADS, 15, 15),
    "query": _shaped(WIDTH),
    "residuals": lambda: [_x(BATCH, TIME, WIDTH) for _ in range(4)],
    "rms_weight": _shaped(WIDTH),
    "x": _rows,
    "eta": lambda: _x(*TOKENS[:3], 1),
    "num_householder": _always(2),
    "cu_seqlens": _lengths,
    "chunk_size": _always(64),
    "hidden_states": _rows,
    "logits": _shaped(BATCH, TIME, 4, 4),
}
_CHANNELS: dict[str, Make] = {"g": _decays}
_DECODING: dict[str, Make] = {"q": _one, "r": _one, "k": _cached, "v": _cached}
_TTT: dict[str, Make] = {"w": _shaped(HEADS, WIDTH), "b": _shaped(HEADS, WIDTH)}
SPECIAL: dict[str, dict[str, Make]] = {
    **_each(_CHANNELS, "chunk_gla", "chunk_kda", "fused_recurrent_kda", "chunk_precond_kda"),
    **_each(_CHANNELS, "fused_recurrent_precond_kda", "chunk_gsa", "fused_recurrent_gsa", "parallel_wall_attn"),
    **_each({"g": _decays, "b": _unit, "w": _unit}, "chunk_gdn2", "fused_recurrent_gdn2"),
    **_each({"beta": _rate}, "chunk_comba", "fused_recurrent_comba", "fused_recurrent_delta_rule"),
    **_each({"beta": _rate}, "chunk_momentum_delta_rule", "fused_recurrent_momentum_delta_rule"),
    "fused_recurrent_gated_delta_rule": {"g": _decay, "beta": _rate},
    "fused_recurrent_precond_gated_delta_rule": {"g": _decay, "beta": _rate, "g_atk": _decay, "beta_atk": _rate},
    "fused_recurrent_gated_oja_rule": {"gv": _decays, "beta": _rate},
    "fused_recurrent_gla": {"gk": _decays},
    **_each({"g": _gates}, "fused_recurrent_hgrn", "chunk_hgrn"),
    **_each({"g": _decay}, "chunk_simple_gla", "fused_recurrent_simple_gla", "fused_chunk_simple_gla"),
    "parallel_simple_gla": {"g": _decay},
    "parallel_path_attn": {"w": lambda: _single(*TOKENS), "beta": lambda: _single(*TOKENS[:3])},
    "parallel_nsa": {
        "q": _shaped(BATCH, TIME, HEADS * GROUP, WIDTH),
        **dict.fromkeys(("g_cmp", "g_slc", "g_swa"), _shaped(BATCH, TIME, HEADS * GROUP)),
        "block_counts": _always(2),
    },
    "parallel_based": dict.fromkeys(("q", "k"), _shaped(BATCH, TIME, HEADS, 16)),
    "parallel_rebased": dict.fromkeys(("q", "k"), _shaped(BATCH, TIME, HEADS, 16)),
    "fused_chunk_based": dict.fromkeys(("q", "k"), _shaped(BATCH, TIME, HEADS, 16)),
    "parallel_wall_attn_decode": {
        **{"q": _one, "v": _cached, "p_curr": _one, "k_tilde": _cached, "sink_bias": _always(None)},
        **{"r_cache": lambda: torch.randn(BATCH, TIME // 64, HEADS, WIDTH), "scale": _always(0.125)},
        "cache_chunk_size": _always(64),
    },
    "attn_decoding_one_step": {
        **{"q": _one, "k": _cached, "v": _cached},
        "cu_seqlens": lambda: torch.tensor([0, TIME], dtype=torch.int32),
    },
    **_each(_DECODING, "parallax_decode", "parallax_decode_one_step"),
    "mesa_net_decoding_one_step": {
        **dict.fromkeys(("q", "k", "v"), lambda: torch.randn(BATCH, HEADS, WIDTH, dtype=torch.bfloat16)),
        **dict.fromkeys(("g", "beta"), lambda: torch.rand(BATCH, HEADS)),
        **dict.fromkeys(("prev_h_kk", "prev_h_kv"), lambda: torch.randn(BATCH, HEADS, WIDTH, WIDTH)),
    },
    "chunk_gated_delta_product": {
        **dict.fromkeys(("k", "v"), _shaped(BATCH, 2 * TIME, HEADS, WIDTH)),
        "beta": lambda: torch.rand(BATCH, 2 * TIME, HEADS).bfloat16().requires_grad_(),
    },
    "fused_recurrent_rwkv4": {
        **dict.fromkeys(("w", "u"), lambda: _single(WIDTH)),
        **dict.fromkeys(("k", "v"), lambda: _single(BATCH, TIME, WIDTH)),
        "state": lambda: _single(BATCH, 3, 1, WIDTH),
    },
    "channel_mixing_rwkv7": {
        **{"x_prev": _shaped(BATCH, HEADS * WIDTH), "x_k": _shaped(1, 1, HEADS * WIDTH)},
        **dict.fromkeys(("key_weight", "value_weight"), _shaped(HEADS * WIDTH, HEADS * WIDTH)),
    },
    "fused_addcmul_rwkv7": {"delta": _rows, "xg": _shaped(1, 1, HEADS * WIDTH)},
    "fused_k_rwkv7": {"k": _rows, "a": _rows, "ka": _shaped(HEADS * WIDTH)},
    "gate_output_correction": {"o": _rows, "r_k": _shaped(HEADS, WIDTH), "g": _rows},
    **_each(_TTT, "chunk_ttt_linear", "fused_chunk_ttt_linear"),
    "addmm": dict.fromkeys(("x", "a", "b"), _shaped(128, 128)),
    "matmul": dict.fromkeys(("a", "b"), _shaped(128, 128)),
    "mean_pooling": {"x": _tokens},
    "softmax_bwd": dict.fromkeys(("p", "dp"), _rows),
}
_CHUNKED = (
    *("chunk_gla", "chunk_kda", "chunk_gated_delta_rule", "chunk_delta_rule", "chunk_simple_gla", "chunk_retention"),
    *("chunk_rwkv6", "chunk_rwkv7", "fused_recurrent_gla", "fused_recurrent_gated_delta_rule", "fused_recurrent_rwkv7"),
)
_STATED: dict[str, Make] = {"initial_state": _state, "output_final_state": _always(True)}
_VARIED: dict[str, Make] = {"cu_seqlens": _lengths}
# wrappers that refuse tensors with gradients
INFERENCE = ("fused_recurrent_cyfa",)
_WIDE: dict[str, Make] = {
    **dict.fromkeys(("q", "k"), _shaped(BATCH, TIME, HEADS, 512)),
    "g": lambda: logsigmoid(torch.randn(BATCH, TIME, HEADS, 512)).requires_grad_(),
}
_GATED: dict[str, Make] = {
    "use_gate_in_kernel": _always(True),
    "A_log": lambda: _single(HEADS),
    "dt_bias": lambda: _single(HEADS * WIDTH),
}
_SAFE: dict[str, Make] = {"safe_gate": _always(True), "lower_bound": _always(-5.0)}
# what is said of the case -> options, and the wrappers that are called with them too
OPTIONS: dict[str, tuple[dict[str, Make], tuple[str, ...]]] = {
    "with states": (_STATED, _CHUNKED),
    "of several lengths": (_VARIED, (*_CHUNKED, "parallel_attn", "parallel_forgetting_attn")),
    "with the gate inside": (_GATED, ("chunk_kda", "chunk_gdn2", "fused_recurrent_kda", "chunk_precond_kda")),
    "with a scalar gate inside": (
        _GATED | {"dt_bias": lambda: _single(HEADS)},
        ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"),
    ),
    "with a sigmoid": ({"use_beta_sigmoid_in_kernel": _always(True)}, ("chunk_kda", "chunk_gated_delta_rule")),
    "with a safe gate": (_SAFE, ("chunk_kda", "chunk_dplr_delta_rule", "chunk_rwkv7", "chunk_gdn2")),
    "of short chunks": ({"chunk_size": _always(16)}, ("chunk_dplr_delta_rule", "chunk_rwkv7")),
    "of wide heads": (_WIDE, ("chunk_gla",)),
    "with a cache": ({"use_cache": _always(True)}, ("parallel_path_attn",)),
}
