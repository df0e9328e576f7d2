"""Where addresses are stored: text of the LLVM dialect in, text with `kperf_gpu` operations out."""

from __future__ import annotations

import pytest

from kperfir.errors import LoweringError
from kperfir.ir.chunks import ChunkedKernel, read_kernel
from kperfir.ir.kperf import StartInstrumentationOp, StopInstrumentationOp
from kperfir.ir.locations import Locations
from kperfir.ir.reader import read_module
from kperfir.ir.spelled import read_records, spell_gpu, spell_records
from kperfir.passes.addresses import trace_addresses
from kperfir.passes.carrier import lower_records
from kperfir.passes.finding import Finding
from kperfir.passes.instrument import instrument
from kperfir.passes.scopes import Scope
from kperfir.passes.tables import TableBuilder
from kperfir.records import Access, Layout
from kperfir.targets.accesses import accesses_of
from kperfir.windows import EVERYTHING

LAYOUT = Layout(4, 64, "global", 256, wraps=False, lanes=32)
START = '    %s{n} = "llvm.inline_asm"() <{{asm_string = "// KPERF<start addresses {kinds}>"}}> : () -> i32 loc(#loc1)'
STOP = '    %t = "llvm.inline_asm"() <{asm_string = "// KPERF<stop addresses ->"}> : () -> i32 loc(#loc1)'
RECORD = '    %u = "llvm.inline_asm"() <{asm_string = "// KPERF<0 start mine>", constraints = "=r"}> : () -> i32'
LOAD = '    %a = "llvm.load"(%x) <{ordering = 0 : i64}> : (!llvm.ptr<1>) -> f32 loc(#loc2)'
LOAD_AGAIN = '    %b = "llvm.load"(%y) <{ordering = 0 : i64}> : (!llvm.ptr<1>) -> f32 loc(#loc2)'
STORE = '    "llvm.store"(%a, %x) <{ordering = 0 : i64}> : (f32, !llvm.ptr<1>) -> () loc(#loc3)'
ADD = '    %c = "llvm.fadd"(%a, %b) : (f32, f32) -> f32 loc(#loc1)'
BULK = '    "nvvm.cp.async.bulk.tensor.global.shared.cta"(%x) : (!llvm.ptr<1>) -> () loc(#loc3)'


def start(kinds: str = "load+store", n: int = 0) -> str:
    return START.format(kinds=kinds, n=n)


def kernel(*body: str) -> ChunkedKernel:
    lines = [
        '#loc1 = loc("k.py":1:1)',
        '#loc2 = loc("kperf.scope:7.0"("k.py":2:1))',
        '#loc3 = loc("k.py":3:1)',
        '"builtin.module"() ({',
        '  "llvm.func"() <{sym_name = "k"}> ({',
        "  ^bb0(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %scratch: !llvm.ptr<1>):",
        *body,
        '    "llvm.return"() : () -> () loc(#loc1)',
        "  }) {nvvm.kernel = 1 : ui1} : () -> ()",
        "}) : () -> ()",
    ]
    return read_kernel("\n".join(lines))


def traced(*body: str) -> tuple[list[str], tuple[Access, ...], tuple[Finding, ...]]:
    """What stands in the body, of which kinds, and what was found."""
    read, tables = kernel(*body), TableBuilder()
    findings = trace_addresses(read, LAYOUT, EVERYTHING, (Scope(7, "mine", "k.py", 2),), tables, accesses_of)
    text = spell_gpu(read).split("\n")
    return [line.strip() for line in text[6:-3]], tables.table().accesses, findings


def test_a_store_before_each_access() -> None:
    lines, accesses, findings = traced(start(), LOAD, ADD, LOAD_AGAIN, STORE)
    init = (
        "%kperf_index = kperf_gpu.init %kperf_scratch, %kperf_scratch slots 64 : i32 record_bytes 256 : i32 lanes 32 "
        ': i32 : !kperf_gpu.buffer<"global">, !kperf_gpu.buffer<"global"> -> !kperf_gpu.index'
    )

    def store(site: int, kind: str, pointer: str) -> str:
        return (
            f'kperf_gpu.store_address %kperf_index site {site} : i32 kind "{kind}" width_bytes 4 : i32 pointer '
            f'"{pointer}" offset_bytes 0 : i32 : !kperf_gpu.index'
        )

    assert lines == [
        f'%kperf_scratch = kperf_gpu.global_scratch_alloc {LAYOUT.cta_bytes} : i32 : !kperf_gpu.buffer<"global">',
        init,
        "%s0 = llvm.mlir.constant(0 : i32) : i32 loc(#loc1)",
        store(0, "load", "%x"),
        LOAD.strip(),
        ADD.strip(),
        store(1, "load", "%y"),
        LOAD_AGAIN.strip(),
        store(2, "store", "%x"),
        STORE.strip(),
        "kperf_gpu.finalize %kperf_index : !kperf_gpu.index",
    ]
    assert findings == ()
    assert accesses == (
        Access(0, 0, "load", 4, "llvm.load", "mine", "k.py", 2),
        Access(1, 0, "load", 4, "llvm.load", "mine", "k.py", 2),
        Access(2, 1, "store", 4, "llvm.store", "", "k.py", 3),
    )


def test_only_what_is_asked_for_between_start_and_stop() -> None:
    body = [LOAD, start("store", 0), LOAD, STORE, STOP, STORE, start("load", 1), LOAD, STORE]
    lines, accesses, _ = traced(*body)
    assert [a.kind for a in accesses] == ["store", "load"]
    at = [i for i, line in enumerate(lines) if line.startswith("kperf_gpu.store_address")]
    assert [lines[i + 1] for i in at] == [STORE.strip(), LOAD.strip()]
    assert [line for line in lines if "llvm.load" in line or "llvm.store" in line] == [
        line.strip() for line in (LOAD, LOAD, STORE, STORE, LOAD, STORE)
    ]


def test_a_bulk_copy_is_told_of() -> None:
    lines, accesses, findings = traced(start("load+async-copy"), LOAD, BULK, BULK)
    assert len(accesses) == 1 and BULK.strip() in lines
    (finding,) = findings
    assert (finding.code, finding.where) == ("not-traced", "k.py:3") and "descriptor" in finding.what


WRONG = {
    "start in a start": ([start(), start("load", 1), LOAD], "starts in another one"),
    "stop without start": ([STOP, LOAD], "that none started"),
    "records beside": ([start(), RECORD, LOAD], "Record 'mine' of a pass stands in it"),
    "nothing of that kind": ([start("atomic"), LOAD, STORE], "It has no atomic; trace load+store."),
    "only bulk copies": ([start("async-copy"), BULK], "names a descriptor"),
    "no memory": ([start(), ADD], "It does not access global memory."),
}


@pytest.mark.parametrize(("body", "said"), WRONG.values(), ids=WRONG.keys())
def test_wrong_programs_are_refused(body: list[str], said: str) -> None:
    with pytest.raises(LoweringError) as refused:
        traced(*body)
    assert said in str(refused.value)


TTGIR = """"builtin.module"() ({
  "tt.func"() <{sym_name = "k", sym_visibility = "public"}> ({
    "tt.store"() : () -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
  "tt.func"() <{sym_name = "f", sym_visibility = "private"}> ({
    "tt.return"() : () -> ()
  }) : () -> () loc("k.py":9:1)
}) : () -> ()"""


def test_the_whole_kernel_is_bounded_and_carried() -> None:
    module = read_module(TTGIR)
    (finding,) = instrument(module, ("load", "store"), [])
    assert (finding.code, finding.where) == ("noinline", "k.py:9")
    entry = module.functions()[0].regions[0].blocks[0]
    first = entry.first_op
    assert isinstance(first, StartInstrumentationOp) and first.chosen == ("load", "store")
    entry.insert_op_before(StopInstrumentationOp(), entry.ops.last)  # type: ignore[arg-type]
    assert lower_records(module) == 2
    from kperfir.ir.printer import print_module

    text = print_module(module)
    assert "// KPERF<start addresses load+store>" in text and "// KPERF<stop addresses ->" in text


def test_bounds_survive_their_text() -> None:
    module = read_module(TTGIR)
    instrument(module, ("load",), [])
    entry = module.functions()[0].regions[0].blocks[0]
    entry.insert_op_before(StopInstrumentationOp(), entry.ops.last)  # type: ignore[arg-type]
    text = spell_records(module)
    assert '"kperf.start_instrumentation"() <{analysis = "addresses", kinds = "load"}>' in text
    again = read_module(text)
    read_records(again)
    ops = list(again.functions()[0].regions[0].blocks[0].ops)
    assert isinstance(ops[0], StartInstrumentationOp) and isinstance(ops[2], StopInstrumentationOp)
    assert Locations.of(again) is not None
