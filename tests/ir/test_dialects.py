"""kperf and kperf_gpu: text in, text out, and what their verifiers refuse."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from kperfir.ir.kperf import KPerf
from kperfir.ir.kperf_gpu import KPerfGPU

PROGRAM = """builtin.module {
  kperf.record start "load" site 3 : i32
  kperf.record mark "a name" site 0 : i32
  %0 = kperf_gpu.local_alloc 16384 : i32 : !kperf_gpu.buffer<"shared">
  %1 = kperf_gpu.global_scratch_alloc 16528 : i32 : !kperf_gpu.buffer<"global">
  %2 = kperf_gpu.init %0, %1 slots 256 : i32 record_bytes 8 : i32 : \
!kperf_gpu.buffer<"shared">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index
  %3 = kperf_gpu.read_counter "clock" : i32
  kperf_gpu.circular_store %3, %2 site 3 : i32 : i32, !kperf_gpu.index
  kperf_gpu.store_counter %3, %2 site 4 : i32 : i32, !kperf_gpu.index
  kperf_gpu.finalize %2 : !kperf_gpu.index
  %4 = kperf_gpu.init %1, %1 slots 32 : i32 record_bytes 16 : i32 warp_step 4 : i32 ctas "0-7+0-:100" sms "3" warps \
"none" : !kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index
  %5 = kperf_gpu.read_counter "time" : i64
  kperf_gpu.circular_store %5, %4 site 0 : i32 : i64, !kperf_gpu.index
  %6 = kperf_gpu.init %1, %1 slots 3 : i32 record_bytes 16 : i32 sums : \
!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index
  kperf_gpu.aggregate_start %3, %6 region 2 : i32 : i32, !kperf_gpu.index
  kperf_gpu.aggregate_end %3, %6 region 2 : i32 piece 0 : i32 : i32, !kperf_gpu.index
  kperf_gpu.count %6 region 1 : i32 : !kperf_gpu.index
  kperf.start_instrumentation "addresses" kinds "load+async-copy"
  %7 = kperf_gpu.init %1, %1 slots 64 : i32 record_bytes 256 : i32 lanes 32 : i32 : \
!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index
  kperf_gpu.store_address %7 site 0 : i32 kind "load" width_bytes 16 : i32 pointer "%x" offset_bytes 4 : i32 : \
!kperf_gpu.index
  kperf_gpu.store_address %7 site 1 : i32 kind "async-copy" width_bytes 16 : i32 pointer "%y" offset_bytes 0 : i32 \
predicate "!%p" source_bytes "%n" : !kperf_gpu.index
  kperf.stop_instrumentation "addresses"
  kperf_gpu.circular_store %5, %4 site 0 : i32 version "%t" left "%l" iterations "0-7+last-8" : i64, !kperf_gpu.index
  kperf_gpu.aggregate_end %3, %6 region 2 : i32 piece 0 : i32 version "%t" left "%l" iterations "last-8" : i32, \
!kperf_gpu.index
  kperf_gpu.count %6 region 1 : i32 version "%t" iterations "3" : !kperf_gpu.index
  kperf.record end "load" site 4 : i32 version %3 : i32
  kperf.record end "load" site 4 : i32 version %3, %3 : i32, i32
  kperf.record_scalar value "tile" site 5 : i32 carries %3 if %3 : i32, i32
  kperf.record_scalar start "copy" site 6 : i32 carries %3 if %3 : i32, i32
  kperf.record_scalar end "copy" site 7 : i32 carries %3 if %3 : i32, i32
  kperf.record_scalar value "tile" site 5 : i32 carries %3 if %3 : i32, i32 version %3, %3 : i32, i32
  kperf_gpu.circular_store %5, %4 site 5 : i32 carries "%v" if "%h" : i64, !kperf_gpu.index
  kperf_gpu.store_counter %5, %4 site 5 : i32 version "%t" iterations "3" carries "%v" if "%h" : i64, !kperf_gpu.index
  %8 = kperf_gpu.stack_alloc 512 : i32 : !kperf_gpu.buffer<"stack">
  %9 = kperf_gpu.init %8, %1 slots 64 : i32 record_bytes 8 : i32 : \
!kperf_gpu.buffer<"stack">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index
}"""

WRONG = {
    "empty name": 'kperf.record start "" site 3 : i32',
    "negative site": 'kperf.record start "x" site -1 : i32',
    "odd size": '%0 = kperf_gpu.local_alloc 7 : i32 : !kperf_gpu.buffer<"shared">',
    "wrong memory": '%0 = kperf_gpu.local_alloc 16 : i32 : !kperf_gpu.buffer<"global">',
    "unknown instrumentation": 'kperf.stop_instrumentation "heat"',
    "unknown kind": 'kperf.start_instrumentation "addresses" kinds "load+prefetch"',
    "no kind": 'kperf.start_instrumentation "addresses" kinds ""',
    "half a lane": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    "%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 128 : i32 lanes 32 : i32 : "
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index',
    **{
        name: '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
        "%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 256 : i32 lanes 32 : i32 : "
        '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index\n'
        f"kperf_gpu.store_address %1 {text} offset_bytes 0 : i32 : !kperf_gpu.index"
        for name, text in (
            ("access of a negative site", 'site -1 : i32 kind "load" width_bytes 4 : i32 pointer "%x"'),
            ("access of no kind", 'site 0 : i32 kind "fetch" width_bytes 4 : i32 pointer "%x"'),
            ("access of no bytes", 'site 0 : i32 kind "load" width_bytes 0 : i32 pointer "%x"'),
            ("access without pointer", 'site 0 : i32 kind "load" width_bytes 4 : i32 pointer ""'),
        )
    },
    "deep stack": '%0 = kperf_gpu.stack_alloc 2064 : i32 : !kperf_gpu.buffer<"stack">',
    "odd stack": '%0 = kperf_gpu.stack_alloc 24 : i32 : !kperf_gpu.buffer<"stack">',
    "stack elsewhere": '%0 = kperf_gpu.stack_alloc 16 : i32 : !kperf_gpu.buffer<"global">',
    "scratch on the stack": '%0 = kperf_gpu.stack_alloc 64 : i32 : !kperf_gpu.buffer<"stack">\n'
    "%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 8 : i32 : "
    '!kperf_gpu.buffer<"stack">, !kperf_gpu.buffer<"stack"> -> !kperf_gpu.index',
    "sums on the stack": '%0 = kperf_gpu.stack_alloc 64 : i32 : !kperf_gpu.buffer<"stack">\n'
    '%1 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    "%2 = kperf_gpu.init %0, %1 slots 1 : i32 record_bytes 16 : i32 sums : "
    '!kperf_gpu.buffer<"stack">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index',
    "last turns of nothing": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    "%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 8 : i32 : "
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index\n'
    '%2 = kperf_gpu.read_counter "clock" : i32\n'
    'kperf_gpu.circular_store %2, %1 site 0 : i32 version "%t" iterations "last-8" : i32, !kperf_gpu.index',
    "last CTAs": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    '%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 8 : i32 ctas "last-8" : '
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index',
    **{
        name: '%0 = kperf_gpu.read_counter "clock" : i32\n%1 = kperf_gpu.read_counter "clock" : i64\n' + text
        for name, text in (
            ("scalar of 64 bits", 'kperf.record_scalar value "x" site 3 carries %1 if %0 : i64, i32'),
            ("wide condition", 'kperf.record_scalar value "x" site 3 carries %0 if %1 : i32, i64'),
            ("mark with a scalar", 'kperf.record_scalar mark "x" site 3 carries %0 if %0 : i32, i32'),
            ("value without scalar", 'kperf.record value "x" site 3 : i32'),
            ("scalar without name", 'kperf.record_scalar value "" site 3 carries %0 if %0 : i32, i32'),
        )
    },
    **{
        name: '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
        "%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 16 : i32 : "
        '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index\n'
        f'%2 = kperf_gpu.read_counter "clock" : {kind}\n'
        f"kperf_gpu.circular_store %2, %1 site 0 : i32 {text} : {kind}, !kperf_gpu.index"
        for name, kind, text in (
            ("scalar without condition", "i64", 'carries "%v"'),
            ("condition without scalar", "i64", 'if "%h"'),
            ("scalar beside a narrow clock", "i32", 'carries "%v" if "%h"'),
        )
    },
    "three turns": '%0 = kperf_gpu.read_counter "clock" : i32\n'
    'kperf.record start "x" site 3 : i32 version %0, %0, %0 : i32, i32, i32',
    "wide turn": '%0 = kperf_gpu.read_counter "clock" : i64\nkperf.record start "x" site 3 : i32 version %0 : i64',
    "narrow clock": '%0 = kperf_gpu.read_counter "clock" : i16',
    "narrow time": '%0 = kperf_gpu.read_counter "time" : i32',
    "unknown counter": '%0 = kperf_gpu.read_counter "joules" : i64',
    "no window": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    '%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 8 : i32 ctas "some" : '
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index',
    "negative region": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    "%1 = kperf_gpu.init %0, %0 slots 1 : i32 record_bytes 16 : i32 sums : "
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index\n'
    "kperf_gpu.count %1 region -1 : i32 : !kperf_gpu.index",
    "no warp": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    "%1 = kperf_gpu.init %0, %0 slots 2 : i32 record_bytes 8 : i32 warp_step 0 : i32 : "
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index',
    "three slots": '%0 = kperf_gpu.global_scratch_alloc 64 : i32 : !kperf_gpu.buffer<"global">\n'
    "%1 = kperf_gpu.init %0, %0 slots 3 : i32 record_bytes 8 : i32 : "
    '!kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index',
}


def _parse(text: str):  # type: ignore[no-untyped-def]
    context = Context()
    for dialect in (Builtin, KPerf, KPerfGPU):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def test_round_trip() -> None:
    assert str(_parse(PROGRAM)) == PROGRAM


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_wrong_programs_are_refused(text: str) -> None:
    with pytest.raises(VerifyException):
        _parse(text)


def test_unknown_kind_and_memory_are_refused() -> None:
    with pytest.raises((ParseError, VerifyException)):
        _parse('kperf.record begin "x" site 0 : i32')
    with pytest.raises((ParseError, VerifyException)):
        _parse('%0 = kperf_gpu.local_alloc 16 : i32 : !kperf_gpu.buffer<"texture">')
