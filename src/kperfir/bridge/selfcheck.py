"""Does this Triton survive the round trip? Checked once a process, before anything is recorded."""

from __future__ import annotations

from functools import lru_cache

import triton
from triton._C.libtriton import ir

from kperfir.bridge.text import generic_text, parse_text
from kperfir.errors import BridgeError, KperfError
from kperfir.ir.printer import print_module
from kperfir.ir.reader import read_module

_SAMPLE = """
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @sample(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
    %zero = arith.constant dense<0xFF800000> : tensor<512xf32, #blocked>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %range = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, #blocked>
    %base = tt.splat %p : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #blocked>
    %at = tt.addptr %base, %range : tensor<512x!tt.ptr<f32>, #blocked>, tensor<512xi32, #blocked>
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (tensor<512xf32, #blocked>) : i32 {
      %x = tt.load %at : tensor<512x!tt.ptr<f32>, #blocked>
      %y = arith.addf %a, %x : tensor<512xf32, #blocked>
      scf.yield %y : tensor<512xf32, #blocked>
    } loc("sample.py":7:3)
    tt.store %at, %sum : tensor<512x!tt.ptr<f32>, #blocked> loc(callsite("f"("sample.py":9:1) at "sample.py":1:1))
    tt.return
  }
}
"""


@lru_cache(maxsize=1)
def self_check() -> None:
    """Print, read, print and parse a module, and compare.

    Raises:
        BridgeError: the text changed on its way, or this Triton does not take part.
    """
    try:
        context = ir.context()
        ir.load_dialects(context)
        module = parse_text(_SAMPLE, context)
        text = generic_text(module)
        printed = print_module(read_module(text))
        same = printed == text and str(parse_text(printed, context)) == str(module)
    except (KperfError, RuntimeError, AttributeError, TypeError) as error:
        raise BridgeError(f"Triton {triton.__version__} failed kperfir's self-check: {error}", _CURE) from None
    if not same:
        raise BridgeError(f"Triton {triton.__version__} failed kperfir's self-check: a module changed.", _CURE)


_CURE = "Kernels run without records. Use a Triton version that kperfir was tested with."
