"""Every operation of `liger_kernel.ops`, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import liger_kernel.ops as ops
import torch

Case = Callable[[], None]
ROWS, WIDTH, WORDS = 64, 256, 1024

# what needs several processes, or launches no kernel of its own
LEFT_OUT = {
    "LigerFusedLinearScaledCrossEntropyFunction": "CUDA C++ kernels, or torch alone",
    "LigerFusedLinearScaledCrossEntropyTPFunction": "CUDA C++ kernels, or torch alone; needs a process group",
    "LigerTiledMLPFunction": "calls the user's own module",
}


def cases() -> dict[str, Case]:
    """Names to calls."""
    return {
        f"{name.removeprefix('Liger').replace('Function', '')}{suffix}": partial(_both_ways, name, make)
        for (name, suffix), make in _ARGUMENTS.items()
    }


def _both_ways(name: str, make: Callable[[], tuple[Any, ...]]) -> None:
    """Call an autograd function and run its backward."""
    with torch.enable_grad():
        result = getattr(ops, name).apply(*make())
        outputs = [o for o in (result if isinstance(result, tuple) else (result,)) if isinstance(o, torch.Tensor)]
        outputs = [o for o in outputs if o.requires_grad]
        torch.autograd.backward(outputs, [torch.rand_like(o) for o in outputs])


def _x(*shape: int, dtype: torch.dtype = torch.bfloat16, grad: bool = True) -> torch.Tensor:
    """A tensor that is no leaf, because some backwards write into it."""
    return torch.randn(shape, dtype=dtype).requires_grad_(grad) * 1


def _given(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*shape, dtype=dtype)


def _labels(*shape: int, below: int = WORDS) -> torch.Tensor:
    return torch.randint(0, below, shape)


def _logits() -> tuple[torch.Tensor, torch.Tensor]:
    return _x(ROWS, WORDS), _labels(ROWS)


def _linear() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _x(ROWS, WIDTH), _x(WORDS, WIDTH), _labels(ROWS)


def _experts() -> tuple[torch.Tensor, ...]:
    index = torch.randint(0, 4, (ROWS, 2), dtype=torch.int32)
    return _x(ROWS, WIDTH), _x(4, 2 * WIDTH, WIDTH), _x(4, WIDTH, WIDTH), index, _given(ROWS, 2)


def _grpo(kind: str, level: str = "token") -> tuple[Any, ...]:
    per_token, ids = _given(2, 16), _labels(2, 16)
    mask = torch.ones(2, 16, dtype=torch.int32)
    fixed = (0.9, 0.04, 0.2, 0.2, False, kind, 16, True, level)
    return _x(2, 17, WORDS), per_token, per_token, ids, _given(2), mask, *fixed


def _coefficients() -> tuple[Any, ...]:
    streams, columns = 4, 4 * 4 + 2 * 4
    scalars = [_x(dtype=torch.float32) for _ in range(3)]
    phi, bias = _x(streams * WIDTH, columns), _x(columns, dtype=torch.float32)
    return _x(2, 32, streams, WIDTH), phi, bias, *scalars, True, 4, 1e-6, 1e-6, 1e-6, 2.0


def _mixed() -> tuple[torch.Tensor, ...]:
    single = torch.float32
    return _x(2, 32, 4, WIDTH), _x(2, 32, WIDTH), _x(2, 32, 4, dtype=single), _x(2, 32, 4, 4, dtype=single)


def _heads(*lead: int) -> tuple[torch.Tensor, ...]:
    return _x(2, 8, 32, 64), _x(2, 4, 32, 64), _given(*lead, 32, 64), _given(*lead, 32, 64)


def _llama4() -> tuple[torch.Tensor, ...]:
    return _x(2, 32, 8, 64), _x(2, 32, 4, 64), torch.polar(torch.ones(32, 32), _given(32, 32))


_ARGUMENTS: dict[tuple[str, str], Callable[[], tuple[Any, ...]]] = {
    ("LigerAttnResFunction", ""): lambda: (_x(4, 2, 32, WIDTH), _x(WIDTH), _x(WIDTH), 1e-6),
    ("LigerCrossEntropyFunction", ""): lambda: (*_logits(), None),
    ("LigerCrossEntropyFunction", " with everything"): lambda: (
        *_logits(),
        _given(WORDS),
        -100,
        1e-4,
        0.1,
        "mean",
        30.0,
        True,
        True,
        True,
    ),
    ("LigerCrossEntropyFunction", " not reduced"): lambda: (*_logits(), None, -100, 0.0, 0.0, "none"),
    ("LigerDyTFunction", ""): lambda: (_x(ROWS, WIDTH), _x(1), _x(WIDTH), _x(WIDTH)),
    ("LigerEmbeddingFunction", ""): lambda: (_x(WORDS, WIDTH), _labels(2, 32)),
    ("LigerFusedAddRMSNormFunction", ""): lambda: (_x(ROWS, WIDTH), _x(ROWS, WIDTH), _x(WIDTH), 1e-6),
    ("LigerFusedCETVDFunction", ""): lambda: (_x(ROWS, WORDS), _x(ROWS, WORDS, grad=False), _labels(ROWS)),
    ("LigerFusedLinearCrossEntropyFunction", ""): _linear,
    ("LigerFusedLinearJSDFunction", ""): lambda: (
        *_linear()[:2],
        _x(ROWS, WIDTH, grad=False),
        _x(WORDS, WIDTH, grad=False),
        _labels(ROWS),
    ),
    ("LigerFusedLinearKLDivFunction", ""): lambda: (*_linear()[:2], _given(ROWS, WORDS)),
    ("LigerFusedMoEFunction", ""): _experts,
    ("LigerFusedNeighborhoodAttentionFunction", ""): lambda: tuple(_x(1, 2, 64, 32) for _ in range(3)),
    ("LigerGELUMulFunction", ""): lambda: (_x(ROWS, WIDTH), _x(ROWS, WIDTH)),
    ("LigerGroupNormFunction", ""): lambda: (_x(2, 32, 64), _x(32), _x(32), 32, 4, 1e-6),
    ("GrpoLossFunction", ""): lambda: _grpo("grpo"),
    ("GrpoLossFunction", " of sequences"): lambda: _grpo("grpo", "sequence"),
    ("GrpoLossFunction", " sapo"): lambda: _grpo("sapo"),
    ("LigerJSDFunction", ""): lambda: (_x(ROWS, WORDS, dtype=torch.float32), _given(ROWS, WORDS), _labels(ROWS)),
    ("LigerKLDivLossFunction", ""): lambda: (_x(ROWS, WORDS, dtype=torch.float32), _given(ROWS, WORDS)),
    ("LigerLayerNormFunction", ""): lambda: (_x(ROWS, WIDTH), _x(WIDTH), _x(WIDTH), 1e-6),
    ("LigerLlama4RopeFunction", ""): _llama4,
    ("LigerMHCCoeffsFunction", ""): _coefficients,
    ("LigerMHCPreFunction", ""): lambda: (_mixed()[0], _mixed()[2]),
    ("LigerMHCPostResFunction", ""): _mixed,
    ("LigerMLPFunction", ""): lambda: (_x(2, 32, WIDTH), _x(512, WIDTH), _x(512, WIDTH), _x(WIDTH, 512)),
    ("LigerModulatedRMSNormFunction", ""): lambda: (
        _x(2, 32, WIDTH),
        _x(WIDTH),
        _x(2, WIDTH),
        _x(2, WIDTH),
        1e-6,
    ),
    ("LigerMultiTokenAttentionFunction", ""): lambda: (_x(1, 2, 64, 64), _x(2, 2, 3, 3), _x(2), 1, 1),
    ("LigerMultiTokenAttentionFunction", " sparse"): lambda: (
        _x(1, 2, 64, 64, dtype=torch.float32),
        _x(2, 2, 3, 3, dtype=torch.float32),
        None,
        1,
        1,
        1,
        1,
        True,
    ),
    ("LigerPolyNormFunction", ""): lambda: (_x(ROWS, WIDTH), _x(3), _x()),
    ("LigerQwen2VLMRopeFunction", ""): lambda: (*_heads(3, 2), [16, 8, 8]),
    ("LigerReLUSquaredFunction", ""): lambda: (_x(ROWS, WIDTH),),
    ("LigerRMSNormFunction", ""): lambda: (_x(ROWS, WIDTH), _x(WIDTH), 1e-6),
    ("LigerRMSNormFunction", " by rows"): lambda: (
        _x(ROWS, WIDTH),
        _x(WIDTH),
        1e-6,
        1.0,
        "gemma",
        False,
        True,
    ),
    ("LigerRMSNormFunction", " of many rows"): lambda: (_x(32768, 64), _x(64), 1e-6),
    ("LigerRopeFunction", ""): lambda: _heads(1),
    ("LigerSiLUMulFunction", ""): lambda: (_x(ROWS, WIDTH), _x(ROWS, WIDTH)),
    ("LigerFusedGateUpSiLUMulFunction", ""): lambda: (_x(ROWS, 2 * WIDTH),),
    ("LigerSoftmaxFunction", ""): lambda: (_x(ROWS, WORDS),),
    ("LigerSparsemaxFunction", ""): lambda: (_x(ROWS, WORDS, dtype=torch.float32), -1),
    ("LigerTVDLossFunction", ""): lambda: (_x(ROWS, WORDS, dtype=torch.float32), _given(ROWS, WORDS)),
    ("LigerVocabParallelCEFunction", ""): lambda: (
        _x(ROWS, 2, WORDS),
        _labels(ROWS, 2),
        None,
        -100,
        0.1,
        "megatron",
        "mean",
    ),
}
