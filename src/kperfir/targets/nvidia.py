"""NVIDIA: PTX in inline assembly.

Special registers: https://docs.nvidia.com/cuda/parallel-thread-execution/#special-registers.
Lane 0 of each warp stores, under a predicate, so that no branch is added. What is
needed at a return is read from special registers again there instead of being kept
in registers through the kernel.
"""

from __future__ import annotations

from kperfir.ir.scalar import Scalar
from kperfir.ir.store_address import Accessed
from kperfir.ir.turn import Turn
from kperfir.passes.addresses import Untraced
from kperfir.passes.to_llvm import Frame
from kperfir.records import (
    ADDRESS_BYTES,
    COUNT_OFFSET,
    END_CLOCK_OFFSET,
    END_TIME_OFFSET,
    GREATEST_OFFSET,
    HEADER_BYTES,
    LEAST_OFFSET,
    MAGIC,
    MAGIC_OFFSET,
    SITE_BYTES,
    START_CLOCK_OFFSET,
    STATE_FINISHED,
    STATE_OFFSET,
    STATE_STARTED,
    SUM_OFFSET,
    SUMS_BYTES,
    WIDE_RECORD_BYTES,
)
from kperfir.targets.accesses import accesses_of
from kperfir.targets.copying import copied
from kperfir.targets.sums import cleared_by_lanes, keep_start, starts, taken
from kperfir.targets.text import assembly, constant, stack_ring
from kperfir.targets.writers import (
    WRITES,
    all_write,
    are_all_writers,
    in_room,
    in_turn,
    site_word,
    step_of,
    writers,
)
from kperfir.windows import Chosen

_SHARED = "!llvm.ptr<3>"
_GLOBAL = "!llvm.ptr<1>"
_STACK = "!llvm.ptr"
_LOCAL = "!llvm.ptr<5>"
_COPY = ("mov.u32 $0, $1;", "=r,r")

_PARTS = {"sum": SUM_OFFSET, "count": COUNT_OFFSET, "greatest": GREATEST_OFFSET, "least": LEAST_OFFSET}

# id of the CTA in 64 bits, x + y * grid_x + z * grid_x * grid_y, into c
_LINEAR_CTA = (
    "mov.u32 a, %ctaid.z; cvt.u64.u32 c, a;",
    "mov.u32 a, %nctaid.y; cvt.u64.u32 u, a; mul.lo.u64 c, c, u;",
    "mov.u32 a, %ctaid.y; cvt.u64.u32 u, a; add.u64 c, c, u;",
    "mov.u32 a, %nctaid.x; cvt.u64.u32 u, a; mul.lo.u64 c, c, u;",
    "mov.u32 a, %ctaid.x; cvt.u64.u32 u, a; add.u64 c, c, u;",
)


class Nvidia:
    """`kperfir.passes.to_llvm.Target` for sm_80 and newer."""

    def init(self, frame: Frame, chosen: Chosen) -> list[str]:
        """Header by thread 0; ring address and index of every warp; which of them write.

        `%kp_lead` is lane 0 of any warp, `%kp_write` lane 0 of one that writes, and
        `%kp_writes`, where not all do, the whole of such a warp.
        """
        lines = [
            self._header(frame),
            "%kp_tid = nvvm.read.ptx.sreg.tid.x : i32",
            constant("%kp_0", 0),
            constant("%kp_1", 1),
            constant("%kp_5", 5),
            constant("%kp_31", 31),
            "%kp_lane = llvm.and %kp_tid, %kp_31 : i32",
            '%kp_lead = llvm.icmp "eq" %kp_lane, %kp_0 : i32',
            "%kp_warp = llvm.lshr %kp_tid, %kp_5 : i32",
            *self._writers(frame, chosen),
            constant("%kp_ring_bytes", frame.layout.ring_bytes),
            "%kp_warp_offset = llvm.mul %kp_ring_number, %kp_ring_bytes : i32",
        ]
        ring = {"shared": self._shared_ring, "stack": self._stack_ring}.get(frame.layout.place, self._global_ring)
        lines += ring(frame)
        return [
            *lines,
            "%kp_index = llvm.alloca %kp_1 x i32 : (i32) -> !llvm.ptr",
            "llvm.store %kp_0, %kp_index : i32, !llvm.ptr",
            *(self._no_sums(frame) if frame.layout.holds_sums else []),
        ]

    @staticmethod
    def _no_sums(frame: Frame) -> list[str]:
        """Starts, and entries that are zero: those in global memory were cleared before the launch."""
        lines = starts(frame.layout.slots, _STACK)
        if frame.layout.place != "shared":
            return lines
        text = ["@$1 st.shared.v4.b32 [$0], {0, 0, 0, 0};"]
        for defined, address, does in cleared_by_lanes(frame, _SHARED):
            lines += [*defined, assembly(text, "r,b", [(address, _SHARED), (does, "i1")])]
        return [*lines, assembly(["bar.warp.sync 0xffffffff;"], "~{memory}")]

    @staticmethod
    def _writers(frame: Frame, chosen: Chosen) -> list[str]:
        if are_all_writers(frame, chosen):
            return [*all_write(), "%kp_write = llvm.and %kp_lead, %kp_writes : i1"]
        text = ["{ .reg .b32 a; .reg .b64 c, u;", *_LINEAR_CTA, "cvt.u32.u64 $0, c; }"]
        cta = [] if chosen.ctas.are_all else [assembly(text, "=r", (), ("%kp_cta", "i32"))]
        sm = [] if chosen.sms.are_all else [assembly(["mov.u32 $0, %smid;"], "=r", (), ("%kp_sm", "i32"))]
        return [
            *cta,
            *sm,
            *writers(frame, chosen, {"ctas": "%kp_cta", "sms": "%kp_sm", "warps": "%kp_warp"}),
            "%kp_write = llvm.and %kp_lead, %kp_writes : i1",
        ]

    @staticmethod
    def _header(frame: Frame) -> str:
        text = [
            "{ .reg .pred p; .reg .b32 a, m, s, t; .reg .b64 b, c, u, k, g;",
            "mov.u64 k, %clock64; mov.u64 g, %globaltimer;",
            *_LINEAR_CTA,
            f"mad.lo.u64 b, c, {frame.layout.cta_bytes}, $0;",
            f"mov.u32 m, {MAGIC}; cvt.u32.u64 a, c; mov.u32 s, %smid;",
            "mov.u32 t, %tid.x; setp.eq.u32 p, t, 0;",
            f"mov.u32 t, {STATE_STARTED};",
            f"@p st.{_global(frame)}.v4.b32 [b+{MAGIC_OFFSET}], {{m, a, s, t}};",
            f"@p st.{_global(frame)}.v2.b64 [b+{START_CLOCK_OFFSET}], {{k, g}}; }}",
        ]
        return assembly(text, "l", [(frame.scratch, _GLOBAL)])

    @staticmethod
    def _shared_ring(frame: Frame) -> list[str]:
        return [
            constant("%kp_base", frame.shared_base_bytes),
            "%kp_offset = llvm.add %kp_warp_offset, %kp_base : i32",
            "%kp_shared = llvm.mlir.addressof @global_smem : !llvm.ptr<3>",
            f"%kp_ring = llvm.getelementptr %kp_shared[%kp_offset] : ({_SHARED}, i32) -> {_SHARED}, i8",
        ]

    @staticmethod
    def _stack_ring(frame: Frame) -> list[str]:
        return [
            stack_ring(frame.layout.ring_bytes, _STACK, "%kp_stack"),
            f"%kp_ring = llvm.addrspacecast %kp_stack : {_STACK} to {_LOCAL}",
        ]

    @staticmethod
    def _global_ring(frame: Frame) -> list[str]:
        text = [
            "{ .reg .b32 a; .reg .b64 c, u;",
            *_LINEAR_CTA,
            f"mad.lo.u64 c, c, {frame.layout.cta_bytes}, {frame.layout.rings_offset_bytes};",
            "cvt.u64.u32 u, $2; add.u64 c, c, u; add.u64 $0, $1, c; }",
        ]
        operands = [(frame.scratch, _GLOBAL), ("%kp_warp_offset", "i32")]
        return [assembly(text, "=l,l,r", operands, ("%kp_ring", _GLOBAL))]

    def read_counter(self, n: int, counter: str, bits: int) -> list[str]:
        """The SM's clock or the global timer.

        The number keeps LLVM from making one read of those that end two branches.
        """
        if bits == 32:
            return [assembly([f"mov.u32 $0, %clock; // {n}"], "=r", (), (f"%kp_clock{n}", "i32"))]
        register = {"clock": "%clock64", "time": "%globaltimer"}[counter]
        return [assembly([f"mov.u64 $0, {register}; // {n}"], "=l", (), (f"%kp_clock{n}", "i64"))]

    def store(self, frame: Frame, n: int, site: int, wraps: bool, turn: Turn, scalar: Scalar) -> list[str]:
        """One store of 8 or 16 bytes by lane 0."""
        kind, space, constraint = _memory(frame)
        index = f"%kp_at{n}"
        wide = frame.layout.record_bytes == WIDE_RECORD_BYTES
        word, vector, letter = ("i64", "v2.b64", "l") if wide else ("i32", "v2.b32", "r")
        decided, in_time = in_turn(n, turn, "%kp_write", _COPY, scalar)
        fitting, writes = in_room(n, index, in_time, wraps)
        lines = [
            f"{index} = llvm.load %kp_index : !llvm.ptr -> i32",
            *site_word(n, site, frame.layout.record_bytes, scalar.bits or turn.number),
            *decided,
            *fitting,
        ]
        if wraps:
            lines += [
                constant(f"%kp_mask{n}", frame.layout.ring_bytes - 1),
                f"%kp_slot{n} = llvm.and {index}, %kp_mask{n} : i32",
            ]
        slot = f"%kp_slot{n}" if wraps else index
        address = f"%kp_address{n}"
        operands = [(address, kind), (f"%kp_site{n}", word), (f"%kp_clock{n}", word), (writes, "i1")]
        return [
            *lines,
            f"{address} = llvm.getelementptr %kp_ring[{slot}] : ({kind}, i32) -> {kind}, i8",
            assembly([f"@$3 st.{space}.{vector} [$0], {{$1, $2}};"], f"{constraint},{letter},{letter},b", operands),
            *step_of(n, turn, frame.layout.record_bytes, scalar),
            f"%kp_next{n} = llvm.add {index}, %kp_step{n} : i32",
            f"llvm.store %kp_next{n}, %kp_index : i32, !llvm.ptr",
        ]

    def sum_start(self, n: int, region: int, bits: int) -> list[str]:
        """The start stays in a register."""
        return keep_start(n, region, bits, _STACK)

    def sum_end(self, frame: Frame, n: int, region: int, bits: int, counts: bool, turn: Turn) -> list[str]:
        """Reductions by lane 0, which nobody waits for."""
        decided, writes = in_turn(n, turn, "%kp_write", _COPY)
        kind, space, letter = _memory(frame)
        at = {name: f"[$0+{region * SUMS_BYTES + offset}]" for name, offset in _PARTS.items()}
        text = [
            f"{{ .reg .b32 c; not.b32 c, $1; @$2 red.{space}.add.u32 {at['sum']}, $1;",
            f"@$2 red.{space}.max.u32 {at['greatest']}, $1; @$2 red.{space}.max.u32 {at['least']}, c;",
            f"@$2 red.{space}.add.u32 {at['count']}, {int(counts)}; }}",
        ]
        operands = [("%kp_ring", kind), (f"%kp_taken{n}", "i32"), (writes, "i1")]
        return [*taken(n, region, bits, _STACK), *decided, assembly(text, f"{letter},r,b", operands)]

    def count(self, frame: Frame, n: int, region: int, turn: Turn) -> list[str]:
        """One reduction by lane 0."""
        decided, writes = in_turn(n, turn, "%kp_write", _COPY)
        kind, space, letter = _memory(frame)
        text = f"@$1 red.{space}.add.u32 [$0+{region * SUMS_BYTES + COUNT_OFFSET}], 1;"
        return [*decided, assembly([text], f"{letter},b", [("%kp_ring", kind), (writes, "i1")])]

    def accesses(self, line: str) -> list[Accessed | Untraced]:
        """PTX in inline assembly, and operations of the LLVM dialect."""
        return accesses_of(line)

    def store_address(self, frame: Frame, n: int, site: int, access: Accessed) -> list[str]:
        """Lane 0 writes the site, every lane its address: 0 where it makes no access.

        Lanes are not asked for each other's state. Triton's branches are the same for a
        whole warp, so all of its lanes come by, and count the same.
        """
        layout, index = frame.layout, f"%kp_at{n}"
        operands = [
            (access.pointer, _GLOBAL), ("%kp_ring", _GLOBAL), (index, "i32"), ("%kp_lane", "i32"),
            (f"%kp_fits{n}", "i1"), (f"%kp_heads{n}", "i1"),
        ]  # fmt: skip
        does, conditions = _condition(access, len(operands))
        text = [
            "{ .reg .pred p; .reg .b64 v, a; setp.ne.u32 p, 0, 1;",
            *does,
            f"mov.b64 v, 0; @p add.s64 v, $0, {access.offset_bytes};",
            f"mad.wide.u32 a, $2, {layout.record_bytes}, $1; mad.wide.u32 a, $3, {ADDRESS_BYTES}, a;"
            f" @$4 st.global.b64 [a+{layout.heads_bytes}], v;",
            f"mad.wide.u32 a, $2, {SITE_BYTES}, $1; @$5 st.global.b32 [a], {site}; }}",
        ]
        letters = {_GLOBAL: "l", "i32": "r", "i1": "b"}
        operands += conditions
        return [
            f"{index} = llvm.load %kp_index : !llvm.ptr -> i32",
            constant(f"%kp_slots{n}", layout.slots),
            f'%kp_room{n} = llvm.icmp "ult" {index}, %kp_slots{n} : i32',
            f"%kp_fits{n} = llvm.and {WRITES}, %kp_room{n} : i1",
            f"%kp_heads{n} = llvm.and %kp_write, %kp_room{n} : i1",
            assembly(text, ",".join(letters[kind] for _, kind in operands), operands),
            f"%kp_next{n} = llvm.add {index}, %kp_1 : i32",
            f"llvm.store %kp_next{n}, %kp_index : i32, !llvm.ptr",
        ]

    def finalize(self, frame: Frame, n: int) -> list[str]:
        """End times by lane 0 of every warp, its count if it writes; a ring elsewhere is copied to the block."""
        lines = [
            f"%kp_written{n} = llvm.load %kp_index : !llvm.ptr -> i32",
            constant(
                f"%kp_shift{n}", 0 if frame.layout.holds_addresses else frame.layout.record_bytes.bit_length() - 1
            ),
            f"%kp_count{n} = llvm.lshr %kp_written{n}, %kp_shift{n} : i32",
            self._tail(frame, n),
        ]
        if frame.layout.place == "shared":
            lines.append(assembly(["bar.warp.sync 0xffffffff;"], "~{memory}"))
            return lines + copied(frame, n, _SHARED, WRITES, f"%kp_out{n}")
        return lines + copied(frame, n, _LOCAL, "%kp_write", f"%kp_out{n}") if frame.layout.place == "stack" else lines

    @staticmethod
    def _tail(frame: Frame, n: int) -> str:
        text = [
            "{ .reg .b32 a, w; .reg .b64 c, u, k, g;",
            "mov.u64 k, %clock64; mov.u64 g, %globaltimer;",
            *_LINEAR_CTA,
            f"mad.lo.u64 c, c, {frame.layout.cta_bytes}, $1;",
            f"@$3 red.global.max.u64 [c+{END_CLOCK_OFFSET}], k;",
            f"@$3 red.global.max.u64 [c+{END_TIME_OFFSET}], g;",
            f"mov.u32 a, {STATE_FINISHED};",
            f"@$3 st.{_global(frame)}.b32 [c+{STATE_OFFSET}], a;",
            f"mov.u32 w, %tid.x; shr.u32 w, w, 5; {_ring_of(frame)} mul.wide.u32 u, w, 4; add.u64 u, u, c;",
            f"@$4 st.{_global(frame)}.b32 [u+{HEADER_BYTES}], $2;",
            f"mul.wide.u32 u, w, {frame.layout.ring_bytes}; add.u64 u, u, c;",
            f"add.u64 $0, u, {frame.layout.rings_offset_bytes}; }}",
        ]
        operands = [(frame.scratch, _GLOBAL), (f"%kp_count{n}", "i32"), ("%kp_lead", "i1"), ("%kp_write", "i1")]
        return assembly(text, "=&l,l,r,b,b", operands, (f"%kp_out{n}", _GLOBAL))


def _condition(access: Accessed, first: int) -> tuple[list[str], list[tuple[str, str]]]:
    """PTX that clears p in lanes that make no access, and its operands, of which `first` is the number."""
    text: list[str] = []
    operands: list[tuple[str, str]] = []
    if access.predicate:
        negated = ["not.pred q, q;"] if access.predicate.startswith("!") else []
        text += [f".reg .pred q; mov.pred q, ${first};", *negated, "and.pred p, p, q;"]
        operands.append((access.predicate.lstrip("!"), "i1"))
    if access.source_bytes:
        text.append(f"setp.ne.and.u32 p, ${first + len(operands)}, 0, p;")
        operands.append((access.source_bytes, "i32"))
    return text, operands


def _memory(frame: Frame) -> tuple[str, str, str]:
    """Where the rings lie: pointer type, state space of a store, and constraint of an address."""
    if frame.layout.place == "shared":
        return _SHARED, "shared", "r"
    if frame.layout.place == "stack":
        return _LOCAL, "local", "r"
    return _GLOBAL, _global(frame), "l"


def _global(frame: Frame) -> str:
    """State space of a store to the block: one to host memory is not left to a kernel's end."""
    return "relaxed.sys.global" if frame.layout.is_read_early else "global"


def _ring_of(frame: Frame) -> str:
    """Number of a warp's ring, in w."""
    step = frame.layout.warp_step
    return "" if step == 1 else f"div.u32 w, w, {step};"
