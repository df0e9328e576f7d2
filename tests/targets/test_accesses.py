"""Which accesses a line of the LLVM dialect makes: lines as Triton 3.6.0 and 3.9.0 write them, and others."""

from __future__ import annotations

import pytest

from kperfir.ir.store_address import Accessed
from kperfir.passes.addresses import Untraced
from kperfir.passes.to_llvm import Frame
from kperfir.records import Layout
from kperfir.targets.accesses import accesses_of
from kperfir.targets.nvidia import Nvidia


def assembly(text: str, constraints: str, operands: str, signature: str = "() -> ()") -> str:
    return (
        f'    %r = "llvm.inline_asm"({operands}) <{{asm_dialect = 0 : i64, asm_string = "{text}", constraints = '
        f'"{constraints}", has_side_effects, operand_attrs = []}}> : {signature} loc(#loc3)'
    )


ACCESSES = {
    "load": (
        assembly(r"mov.u32 $0, 0x0;\0A\09ld.global.b32 { $0 }, [ $1 + 0 ];", "=r,l", "%x"),
        Accessed("load", 4, "ld.global.b32", "%x"),
    ),
    "masked vector load": (
        assembly(
            r"mov.u64 $0, 0x0;\0A\09mov.u64 $1, 0x0;\0A\09@$3 ld.global.v2.b64 { $0, $1 }, [ $2 + 16 ];",
            "=l,=l,l,b",
            "%x, %p",
        ),
        Accessed("load", 16, "ld.global.v2.b64", "%x", 16, "%p"),
    ),
    "load with another value and a policy": (
        assembly(
            r"mov.u32 $0, $1;\0A\09@$3 ld.global.L1::evict_first.L2::cache_hint.b16 { $0 }, [ $2 + -4 ], $4;",
            "=r,r,l,b,l",
            "%old, %x, %p, %policy",
        ),
        Accessed("load", 2, "ld.global.L1::evict_first.L2::cache_hint.b16", "%x", -4, "%p"),
    ),
    "load where a bit is not set": (
        assembly("@!$2 ld.volatile.global.b8 { $0 }, [ $1 ];", "=r,l,b", "%x, %p"),
        Accessed("load", 1, "ld.volatile.global.b8", "%x", 0, "!%p"),
    ),
    "masked store": (
        assembly("@$3 st.global.v2.b32 [ $2 + 8 ], { $0, $1 };", "r,r,l,b", "%v, %w, %y, %p"),
        Accessed("store", 8, "st.global.v2.b32", "%y", 8, "%p"),
    ),
    "copy": (
        assembly("cp.async.cg.shared.global [ $0 + 0 ], [ $1 + 32 ], 0x10, $2;", "r,l,r", "%to, %x, %n"),
        Accessed("async-copy", 16, "cp.async.cg.shared.global", "%x", 32, "", "%n"),
    ),
    "masked copy with a policy": (
        assembly(
            "@$3 cp.async.ca.shared.global.L2::cache_hint [ $0 + 0 ], [ $1 + 0 ], 0x4, 0x4, $2;",
            "r,l,l,b",
            "%to, %x, %policy, %p",
        ),
        Accessed("async-copy", 4, "cp.async.ca.shared.global.L2::cache_hint", "%x", 0, "%p"),
    ),
    "atomic": (
        assembly(
            r"mov.u32 $0, 0x0;\0A\09@$3 atom.global.gpu.acq_rel.add.f32 $0, [ $1 + 0 ], $2;", "=r,l,r,b", "%x, %v, %p"
        ),
        Accessed("atomic", 4, "atom.global.gpu.acq_rel.add.f32", "%x", 0, "%p"),
    ),
    "atomic of two halves": (
        assembly("@$3 atom.global.gpu.relaxed.add.noftz.f16x2 $0, [ $1 + 0 ], $2;", "=r,l,r,b,~{memory}", "%x, %v, %p"),
        Accessed("atomic", 4, "atom.global.gpu.relaxed.add.noftz.f16x2", "%x", 0, "%p"),
    ),
    "operation: load": (
        '    %2 = "llvm.load"(%x) <{alignment = 8 : i64}> : (!llvm.ptr<1>) -> vector<2xf16> loc(#loc)',
        Accessed("load", 4, "llvm.load", "%x"),
    ),
    "operation: store": (
        '    "llvm.store"(%v, %y) <{ordering = 0 : i64}> : (bf16, !llvm.ptr<1>) -> () loc(#loc1)',
        Accessed("store", 2, "llvm.store", "%y"),
    ),
    "operation: atomic": (
        '    %2 = "llvm.atomicrmw"(%x, %v) <{bin_op = 1 : i64, ordering = 2 : i64}> : (!llvm.ptr<1>, i64) -> i64',
        Accessed("atomic", 8, "llvm.atomicrmw", "%x"),
    ),
}

NONE = {
    "shared load": '    %2 = "llvm.load"(%x) <{ordering = 0 : i64}> : (!llvm.ptr<3>) -> i32 loc(#loc)',
    "store of a pointer to global memory": '    "llvm.store"(%v, %y) <{}> : (!llvm.ptr<1>, !llvm.ptr<3>) -> ()',
    "shared store": assembly("@$2 st.shared.v2.b32 [ $1 + 0 ], { $0, $0 };", "r,r,b", "%v, %y, %p"),
    "timer": assembly("mov.u64 $0, %globaltimer;", "=l", ""),
    "pointer": '    %9 = "llvm.getelementptr"(%x, %i) <{elem_type = f32}> : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>',
    "group": assembly("cp.async.bulk.wait_group.read 0;", "", ""),
}

UNTRACED = {
    "bulk copy": assembly(
        "@$0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$1], [$2, {$3, $4}], [$5];",
        "b,r,l,r,r,r",
        "%p, %a, %b, %c, %d, %e",
    ),
    "operation of a bulk copy": '    "nvvm.cp.async.bulk.tensor.global.shared.cta"(%a, %b, %c) : (...) -> () loc(#loc)',
    "address in a register of its own": assembly(
        "{ .reg .b64 a; add.u64 a, $1, 8; ld.global.b32 $0, [a]; }", "=r,l", "%x"
    ),
    "predicate of its own": assembly("{ .reg .pred p; @p ld.global.b32 $0, [ $1 ]; }", "=r,l", "%x"),
    "no size": assembly("ld.global $0, [ $1 ];", "=r,l", "%x"),
    "struct": '    %2 = "llvm.load"(%x) <{ordering = 0 : i64}> : (!llvm.ptr<1>) -> !llvm.struct<(i32, i8)> loc(#loc)',
}


@pytest.mark.parametrize(("line", "access"), ACCESSES.values(), ids=ACCESSES.keys())
def test_accesses(line: str, access: Accessed) -> None:
    assert accesses_of(line) == [access]


@pytest.mark.parametrize("line", NONE.values(), ids=NONE.keys())
def test_lines_without_access(line: str) -> None:
    assert accesses_of(line) == []


@pytest.mark.parametrize("line", UNTRACED.values(), ids=UNTRACED.keys())
def test_what_cannot_be_traced_says_why(line: str) -> None:
    (found,) = accesses_of(line)
    assert isinstance(found, Untraced)
    assert found.reason.endswith("so it is not traced.")


def test_one_assembly_with_two_accesses() -> None:
    line = assembly("ld.global.b32 $0, [ $1 ]; st.global.b32 [ $2 + 4 ], $0;", "=&r,l,l", "%x, %y")
    assert accesses_of(line) == [
        Accessed("load", 4, "ld.global.b32", "%x"),
        Accessed("store", 4, "st.global.b32", "%y", 4),
    ]


CONDITIONS = {
    "always": (Accessed("load", 4, "", "%x"), "", [], ""),
    "masked": (
        Accessed("load", 4, "", "%x", 0, "%p"),
        ".reg .pred q; mov.pred q, $6; and.pred p, p, q; ",
        ["%p"],
        ",b",
    ),
    "where not": (
        Accessed("load", 4, "", "%x", 0, "!%p"),
        ".reg .pred q; mov.pred q, $6; not.pred q, q; and.pred p, p, q; ",
        ["%p"],
        ",b",
    ),
    "bytes": (Accessed("async-copy", 4, "", "%x", 0, "", "%n"), "setp.ne.and.u32 p, $6, 0, p; ", ["%n"], ",r"),
    "both": (
        Accessed("async-copy", 4, "", "%x", 0, "%p", "%n"),
        ".reg .pred q; mov.pred q, $6; and.pred p, p, q; setp.ne.and.u32 p, $7, 0, p; ",
        ["%p", "%n"],
        ",b,r",
    ),
}


@pytest.mark.parametrize(("access", "does", "operands", "letters"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_the_store_of_an_address(access: Accessed, does: str, operands: list[str], letters: str) -> None:
    """Record n: lane l at 16 * 4 + 256 * n + 8 * l, the site at 4 * n; with an offset that of the access."""
    layout = Layout(4, 16, "global", 256, wraps=False, lanes=32)
    lines = Nvidia().store_address(Frame(layout, "%scratch", 0, 32), 3, 7, access)
    (text,) = [line for line in lines if "inline_asm" in line]
    assert (
        f'asm_string = "{{ .reg .pred p; .reg .b64 v, a; setp.ne.u32 p, 0, 1; {does}mov.b64 v, 0; @p add.s64 v, $0, 0; '
        "mad.wide.u32 a, $2, 256, $1; mad.wide.u32 a, $3, 8, a; @$4 st.global.b64 [a+64], v; "
        'mad.wide.u32 a, $2, 4, $1; @$5 st.global.b32 [a], 7; }"'
    ) in text
    assert f'constraints = "l,l,r,r,b,b{letters}"' in text
    named = ["%x", "%kp_ring", "%kp_at3", "%kp_lane", "%kp_fits3", "%kp_heads3", *operands]
    assert text.startswith(f'"llvm.inline_asm"({", ".join(named)})')
    assert lines[-2] == "%kp_next3 = llvm.add %kp_at3, %kp_1 : i32"
    assert lines[-1] == "llvm.store %kp_next3, %kp_index : i32, !llvm.ptr"
