"""What records carry: 32 bits and a type -> numbers. All three types fit into 64-bit floats exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kperfir.records import Region, Scalar
from kperfir.trace.align import F64
from kperfir.trace.decode import I64
from kperfir.trace.pair import Spans

_DTYPES: dict[Scalar, str] = {"int32": "<i4", "uint32": "<u4", "float32": "<f4"}


def scalars_of(regions: tuple[Region, ...], spans: Spans) -> F64:
    """The number that each span or mark carries; NaN where it carries none."""
    values = np.full(len(spans.row), np.nan)
    for scalar in _DTYPES:
        ids = [r.id for r in regions if r.scalar == scalar]
        found = np.isin(spans.region, ids) & (spans.scalar >= 0)
        values[found] = as_numbers(spans.scalar[found], scalar)
    return values


def as_numbers(bits: I64, scalar: Scalar) -> F64:
    """Numbers of one type from their 32 bits."""
    words: NDArray[np.uint32] = bits.astype("<u4")
    return words.view(_DTYPES[scalar]).astype(np.float64)
