"""AMD, CDNA3 (gfx942): LLVM intrinsics. Compiled only; it has not run on a GPU.

Clock and identity: "AMD Instinct MI300 Instruction Set Architecture", S_MEMTIME,
S_MEMREALTIME (100 MHz) and the hardware registers HW_ID and XCC_ID. There is no
lane predicate on a store, so every lane writes the same record to the same place.
"""

from __future__ import annotations

from kperfir.errors import LoweringError
from kperfir.ir.scalar import Scalar
from kperfir.ir.store_address import Accessed
from kperfir.ir.turn import Turn
from kperfir.passes.addresses import Untraced
from kperfir.passes.to_llvm import Frame
from kperfir.records import (
    COUNT_OFFSET,
    END_CLOCK_OFFSET,
    END_TIME_OFFSET,
    GREATEST_OFFSET,
    HEADER_BYTES,
    LEAST_OFFSET,
    MAGIC,
    START_CLOCK_OFFSET,
    STATE_FINISHED,
    STATE_OFFSET,
    STATE_STARTED,
    SUM_OFFSET,
    WIDE_RECORD_BYTES,
)
from kperfir.targets.copying import copied
from kperfir.targets.sums import cleared_by_lanes, entry_of, keep_start, starts, taken
from kperfir.targets.text import constant, intrinsic, stack_ring
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
_STACK = "!llvm.ptr<5>"
_LANE_0_WRITES = "%kp_write"
_COPY = ("s_mov_b32 $0, $1", "=s,s")
_REALTIME_TICK_NS = 10

# s_getreg operand: (size - 1) << 11 | offset << 6 | register
_HW_ID = 31 << 11 | 4
_XCC_ID = 3 << 11 | 20
_COMPUTE_UNITS_PER_XCC, _COMPUTE_UNITS_PER_ENGINE = 40, 10

# offsets into the dispatch packet (hsa_kernel_dispatch_packet_t)
_WORKGROUP_X_OFFSET, _WORKGROUP_Y_OFFSET = 4, 6
_GRID_X_OFFSET, _GRID_Y_OFFSET = 12, 16


class Amd:
    """`kperfir.passes.to_llvm.Target` for gfx942."""

    def init(self, frame: Frame, chosen: Chosen) -> list[str]:
        """Header by the first thread; ring address and index of every wave; which of them write."""
        ring = {"shared": self._shared_ring, "stack": self._stack_ring}.get(frame.layout.place, self._global_ring)
        rings = frame.layout.rings_offset_bytes
        numbers = {"ctas": "%kp_cta32", "sms": "%kp_unit", "warps": "%kp_warp"}
        return [
            "%kp_tid = rocdl.workitem.id.x : i32",
            constant("%kp_0", 0),
            constant("%kp_1", 1),
            *self._stack(frame),
            constant("%kp_wave_shift", frame.warp_size.bit_length() - 1),
            constant("%kp_lane_mask", frame.warp_size - 1),
            "%kp_lane = llvm.and %kp_tid, %kp_lane_mask : i32",
            "%kp_wave_any = llvm.lshr %kp_tid, %kp_wave_shift : i32",
            "%kp_warp = rocdl.readfirstlane %kp_wave_any : i32",
            *self._block(frame),
            *self._header(),
            *(all_write() if are_all_writers(frame, chosen) else writers(frame, chosen, numbers)),
            *_vector("%kp_writes2", [WRITES] * 2, "i1"),
            constant("%kp_ring_bytes", frame.layout.ring_bytes),
            "%kp_warp_offset = llvm.mul %kp_ring_number, %kp_ring_bytes : i32",
            f"%kp_rings = llvm.getelementptr %kp_block[{rings}] : ({_GLOBAL}) -> {_GLOBAL}, i8",
            f"%kp_out = llvm.getelementptr %kp_rings[%kp_warp_offset] : ({_GLOBAL}, i32) -> {_GLOBAL}, i8",
            *ring(frame),
            f"%kp_index = llvm.alloca %kp_1 x i32 : (i32) -> {_STACK}",
            f"llvm.store %kp_0, %kp_index : i32, {_STACK}",
            *(self._no_sums(frame) if frame.layout.holds_sums else []),
        ]

    @staticmethod
    def _no_sums(frame: Frame) -> list[str]:
        """Starts, and entries that are zero: those in global memory were cleared before the launch."""
        lines = starts(frame.layout.slots, _STACK)
        if frame.layout.place != "shared":
            return lines
        lines += _vector("%kp_nothing", ["%kp_0"] * 4, "i32")
        for defined, address, does in cleared_by_lanes(frame, _SHARED):
            mask = _vector(f"{does}4", [does] * 4, "i1")
            lines += [*defined, *mask, _masked_store("%kp_nothing", address, f"{does}4", "4xi32", _SHARED)]
        return lines

    @staticmethod
    def _block(frame: Frame) -> list[str]:
        """Linear id of the workgroup and its scratch block, in 64 bits."""
        lines = [intrinsic("llvm.amdgcn.dispatch.ptr", (), ("%kp_packet", "!llvm.ptr<4>"))]
        for axis, group, grid in (
            ("x", _WORKGROUP_X_OFFSET, _GRID_X_OFFSET),
            ("y", _WORKGROUP_Y_OFFSET, _GRID_Y_OFFSET),
        ):
            lines += [
                f"%kp_g{axis}p = llvm.getelementptr %kp_packet[{grid}] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8",
                f"%kp_g{axis} = llvm.load %kp_g{axis}p {{alignment = 4 : i64}} : !llvm.ptr<4> -> i32",
                f"%kp_w{axis}p = llvm.getelementptr %kp_packet[{group}] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8",
                f"%kp_w{axis}h = llvm.load %kp_w{axis}p {{alignment = 2 : i64}} : !llvm.ptr<4> -> i16",
                f"%kp_w{axis} = llvm.zext %kp_w{axis}h : i16 to i32",
                f"%kp_n{axis}w = llvm.udiv %kp_g{axis}, %kp_w{axis} : i32",
                f"%kp_n{axis} = llvm.zext %kp_n{axis}w : i32 to i64",
            ]
        for axis in "xyz":
            lines += [
                f"%kp_i{axis}w = rocdl.workgroup.id.{axis} : i32",
                f"%kp_i{axis} = llvm.zext %kp_i{axis}w : i32 to i64",
            ]
        return [
            *lines,
            "%kp_zy = llvm.mul %kp_iz, %kp_ny : i64",
            "%kp_y = llvm.add %kp_zy, %kp_iy : i64",
            "%kp_yx = llvm.mul %kp_y, %kp_nx : i64",
            "%kp_cta = llvm.add %kp_yx, %kp_ix : i64",
            constant("%kp_cta_bytes", frame.layout.cta_bytes, "i64"),
            "%kp_cta_offset = llvm.mul %kp_cta, %kp_cta_bytes : i64",
            f"%kp_block = llvm.getelementptr {frame.scratch}[%kp_cta_offset] : ({_GLOBAL}, i64) -> {_GLOBAL}, i8",
        ]

    @staticmethod
    def _header() -> list[str]:
        """A masked store keeps the entry block whole: its stack slots must stay in it."""
        return [
            '%kp_first = llvm.icmp "eq" %kp_tid, %kp_0 : i32',
            *_hardware_id(),
            constant("%kp_magic", MAGIC),
            constant("%kp_started", STATE_STARTED),
            "%kp_cta32 = llvm.trunc %kp_cta : i64 to i32",
            *_vector("%kp_who", ["%kp_magic", "%kp_cta32", "%kp_unit", "%kp_started"], "i32"),
            *_vector("%kp_mask", ["%kp_first"] * 4, "i1"),
            *_times("%kp_start"),
            *_vector("%kp_when", ["%kp_start_clock", "%kp_start_time"], "i64"),
            "%kp_when4 = llvm.bitcast %kp_when : vector<2xi64> to vector<4xi32>",
            f"%kp_when_to = llvm.getelementptr %kp_block[{START_CLOCK_OFFSET}] : ({_GLOBAL}) -> {_GLOBAL}, i8",
            _masked_store("%kp_who", "%kp_block", "%kp_mask"),
            _masked_store("%kp_when4", "%kp_when_to", "%kp_mask"),
        ]

    @staticmethod
    def _shared_ring(frame: Frame) -> list[str]:
        return [
            constant("%kp_base", frame.shared_base_bytes),
            "%kp_offset = llvm.add %kp_warp_offset, %kp_base : i32",
            "%kp_shared = llvm.mlir.addressof @global_smem : !llvm.ptr<3>",
            f"%kp_ring = llvm.getelementptr %kp_shared[%kp_offset] : ({_SHARED}, i32) -> {_SHARED}, i8",
        ]

    @staticmethod
    def _stack(frame: Frame) -> list[str]:
        """Before the header: its masked stores become branches, and a slot behind them is none of the entry block's."""
        return [stack_ring(frame.layout.ring_bytes, _STACK, "%kp_ring")] if frame.layout.place == "stack" else []

    @staticmethod
    def _stack_ring(_: Frame) -> list[str]:
        """Lane 0 alone writes into it: the stacks of a wave's lanes lie side by side, and one store fills all."""
        return [
            '%kp_lane_0 = llvm.icmp "eq" %kp_lane, %kp_0 : i32',
            f"{_LANE_0_WRITES} = llvm.and %kp_lane_0, {WRITES} : i1",
            *_vector(f"{_LANE_0_WRITES}2", [_LANE_0_WRITES] * 2, "i1"),
        ]

    @staticmethod
    def _global_ring(_: Frame) -> list[str]:
        return [f"%kp_ring = llvm.getelementptr %kp_out[0] : ({_GLOBAL}) -> {_GLOBAL}, i8"]

    def read_counter(self, n: int, counter: str, bits: int) -> list[str]:
        """The clock or the real time, fenced so that matrix instructions stay on their side."""
        fence = intrinsic("llvm.amdgcn.sched.barrier", [("%kp_0", "i32")])
        name = f"%kp_clock{n}"
        if counter == "time":
            return [
                fence,
                intrinsic("llvm.amdgcn.s.memrealtime", (), (f"{name}_ticks", "i64")),
                constant(f"{name}_tick_ns", _REALTIME_TICK_NS, "i64"),
                f"{name} = llvm.mul {name}_ticks, {name}_tick_ns : i64",
            ]
        if bits == 64:
            return [fence, intrinsic("llvm.amdgcn.s.memtime", (), (name, "i64"))]
        return [
            fence,
            intrinsic("llvm.amdgcn.s.memtime", (), (f"%kp_wide{n}", "i64")),
            f"{name} = llvm.trunc %kp_wide{n} : i64 to i32",
        ]

    def store(self, frame: Frame, n: int, site: int, wraps: bool, turn: Turn, scalar: Scalar) -> list[str]:
        """One store of 8 or 16 bytes by every lane, on the stack by lane 0; masked where not all waves write."""
        kind, writer = _memory(frame), _writer(frame)
        index = f"%kp_at{n}"
        word = "i64" if frame.layout.record_bytes == WIDE_RECORD_BYTES else "i32"
        decided, in_time = in_turn(n, turn, writer, _COPY, scalar)
        fitting, writes = in_room(n, index, in_time, wraps)
        lines = [
            f"{index} = llvm.load %kp_index : {_STACK} -> i32",
            *site_word(n, site, frame.layout.record_bytes, scalar.bits or turn.number),
            *decided,
            *fitting,
            *([] if writes == writer else _vector(f"{writes}_2", [writes] * 2, "i1")),
        ]
        mask = f"{writer}2" if writes == writer else f"{writes}_2"
        if wraps:
            lines += [
                constant(f"%kp_mask{n}", frame.layout.ring_bytes - 1),
                f"%kp_slot{n} = llvm.and {index}, %kp_mask{n} : i32",
            ]
        slot = f"%kp_slot{n}" if wraps else index
        return [
            *lines,
            f"%kp_address{n} = llvm.getelementptr %kp_ring[{slot}] : ({kind}, i32) -> {kind}, i8",
            *_vector(f"%kp_record{n}", [f"%kp_site{n}", f"%kp_clock{n}"], word),
            _masked_store(f"%kp_record{n}", f"%kp_address{n}", mask, f"2x{word}", kind, 8),
            *step_of(n, turn, frame.layout.record_bytes, scalar),
            f"%kp_next{n} = llvm.add {index}, %kp_step{n} : i32",
            f"llvm.store %kp_next{n}, %kp_index : i32, {_STACK}",
            intrinsic("llvm.amdgcn.sched.barrier", [("%kp_0", "i32")]),
        ]

    def sum_start(self, n: int, region: int, bits: int) -> list[str]:
        """The start stays in a register."""
        return keep_start(n, region, bits, _STACK)

    def sum_end(self, frame: Frame, n: int, region: int, bits: int, counts: bool, turn: Turn) -> list[str]:
        """Atomics by lane 0, whose results nobody reads."""
        updates = [
            ("add", f"%kp_taken{n}", SUM_OFFSET),
            ("umax", f"%kp_taken{n}", GREATEST_OFFSET),
            ("umax", f"%kp_least{n}", LEAST_OFFSET),
        ]
        return [
            *taken(n, region, bits, _STACK),
            constant(f"%kp_all_bits{n}", -1),
            f"%kp_least{n} = llvm.xor %kp_taken{n}, %kp_all_bits{n} : i32",
            *_by_lane_0(frame, n, region, updates, int(counts), turn),
        ]

    def count(self, frame: Frame, n: int, region: int, turn: Turn) -> list[str]:
        """One atomic by lane 0."""
        return _by_lane_0(frame, n, region, [], 1, turn)

    def accesses(self, line: str) -> list[Accessed | Untraced]:
        """Refused."""
        raise LoweringError(
            "On AMD GPUs no addresses are traced: a masked access is a branch there, and not all lanes come by.",
            "Trace them on an NVIDIA GPU.",
        )

    def store_address(self, frame: Frame, n: int, site: int, access: Accessed) -> list[str]:
        """Never asked for: there are no accesses."""
        raise AssertionError

    def finalize(self, frame: Frame, n: int) -> list[str]:
        """End times by lane 0 of every wave, its count if it writes; a ring elsewhere is copied to the block."""
        tail, after = f"^kp_tail{n}", f"^kp_after{n}"
        lines = [
            f"%kp_written{n} = llvm.load %kp_index : {_STACK} -> i32",
            constant(f"%kp_shift{n}", frame.layout.record_bytes.bit_length() - 1),
            f"%kp_all{n} = llvm.lshr %kp_written{n}, %kp_shift{n} : i32",
            *_vector(f"%kp_count{n}", [f"%kp_all{n}"], "i32"),
            *_vector(f"%kp_counts{n}", [WRITES], "i1"),
            *_times(f"%kp_end{n}"),
            f'%kp_lead{n} = llvm.icmp "eq" %kp_lane, %kp_0 : i32',
            f"llvm.cond_br %kp_lead{n}, {tail}, {after}",
            f"{tail}:",
            *self._tail(n),
            f"llvm.br {after}",
            f"{after}:",
        ]
        if frame.layout.place in ("shared", "stack"):
            lines += copied(frame, n, _memory(frame), _writer(frame), "%kp_out")
        return lines

    @staticmethod
    def _tail(n: int) -> list[str]:
        def pointer(name: str, offset: int) -> str:
            return f"{name} = llvm.getelementptr %kp_block[{offset}] : ({_GLOBAL}) -> {_GLOBAL}, i8"

        return [
            pointer(f"%kp_clock_to{n}", END_CLOCK_OFFSET),
            pointer(f"%kp_time_to{n}", END_TIME_OFFSET),
            pointer(f"%kp_state_to{n}", STATE_OFFSET),
            pointer(f"%kp_counts_to{n}", HEADER_BYTES),
            f"%kp_c{n} = llvm.atomicrmw umax %kp_clock_to{n}, %kp_end{n}_clock monotonic : {_GLOBAL}, i64",
            f"%kp_t{n} = llvm.atomicrmw umax %kp_time_to{n}, %kp_end{n}_time monotonic : {_GLOBAL}, i64",
            constant(f"%kp_finished{n}", STATE_FINISHED),
            f"llvm.store %kp_finished{n}, %kp_state_to{n} {{alignment = 4 : i64}} : i32, {_GLOBAL}",
            f"%kp_count_to{n} = llvm.getelementptr %kp_counts_to{n}[%kp_ring_number] "
            f": ({_GLOBAL}, i32) -> {_GLOBAL}, i32",
            _masked_store(f"%kp_count{n}", f"%kp_count_to{n}", f"%kp_counts{n}", "1xi32", _GLOBAL, 4),
        ]


def _memory(frame: Frame) -> str:
    """Where the rings lie: pointer type."""
    return {"shared": _SHARED, "stack": _STACK}.get(frame.layout.place, _GLOBAL)


def _writer(frame: Frame) -> str:
    """Bit of the lanes that store a record."""
    return _LANE_0_WRITES if frame.layout.place == "stack" else WRITES


def _by_lane_0(
    frame: Frame, n: int, region: int, updates: list[tuple[str, str, int]], count: int, turn: Turn
) -> list[str]:
    """Update a warp's sums of a region: operation, value and offset of each; and its count."""
    update, after = f"^kp_add{n}", f"^kp_added{n}"
    kind = _memory(frame)
    decided, writes = in_turn(n, turn, WRITES, _COPY)
    lines = [
        *decided,
        f'%kp_lane_0{n} = llvm.icmp "eq" %kp_lane, %kp_0 : i32',
        f"%kp_adds{n} = llvm.and %kp_lane_0{n}, {writes} : i1",
        f"llvm.cond_br %kp_adds{n}, {update}, {after}",
        f"{update}:",
        entry_of(f"%kp_entry{n}", region, kind),
        constant(f"%kp_one{n}", count),
    ]
    for i, (operation, value, offset) in enumerate([*updates, ("add", f"%kp_one{n}", COUNT_OFFSET)]):
        to = f"%kp_to{n}_{i}"
        lines += [
            f"{to} = llvm.getelementptr %kp_entry{n}[{offset}] : ({kind}) -> {kind}, i8",
            f"%kp_was{n}_{i} = llvm.atomicrmw {operation} {to}, {value} monotonic : {kind}, i32",
        ]
    return [*lines, f"llvm.br {after}", f"{after}:"]


def _times(name: str) -> list[str]:
    """Clock in cycles and global time in nanoseconds."""
    return [
        intrinsic("llvm.amdgcn.s.memtime", (), (f"{name}_clock", "i64")),
        intrinsic("llvm.amdgcn.s.memrealtime", (), (f"{name}_ticks", "i64")),
        constant(f"{name}_tick_ns", _REALTIME_TICK_NS, "i64"),
        f"{name}_time = llvm.mul {name}_ticks, {name}_tick_ns : i64",
    ]


def _hardware_id() -> list[str]:
    """Number of the compute unit: chiplet * 40 + shader engine * 10 + unit."""
    return [
        constant("%kp_hw_register", _HW_ID),
        constant("%kp_xcc_register", _XCC_ID),
        intrinsic("llvm.amdgcn.s.getreg", [("%kp_hw_register", "i32")], ("%kp_hw", "i32")),
        intrinsic("llvm.amdgcn.s.getreg", [("%kp_xcc_register", "i32")], ("%kp_xcc", "i32")),
        constant("%kp_8", 8),
        constant("%kp_13", 13),
        constant("%kp_15", 15),
        constant("%kp_3", 3),
        constant("%kp_per_xcc", _COMPUTE_UNITS_PER_XCC),
        constant("%kp_per_engine", _COMPUTE_UNITS_PER_ENGINE),
        "%kp_cu_high = llvm.lshr %kp_hw, %kp_8 : i32",
        "%kp_cu = llvm.and %kp_cu_high, %kp_15 : i32",
        "%kp_se_high = llvm.lshr %kp_hw, %kp_13 : i32",
        "%kp_se = llvm.and %kp_se_high, %kp_3 : i32",
        "%kp_xcc_first = llvm.mul %kp_xcc, %kp_per_xcc : i32",
        "%kp_se_first = llvm.mul %kp_se, %kp_per_engine : i32",
        "%kp_engine = llvm.add %kp_xcc_first, %kp_se_first : i32",
        "%kp_unit = llvm.add %kp_engine, %kp_cu : i32",
    ]


def _vector(name: str, values: list[str], kind: str) -> list[str]:
    """Define a vector of scalars."""
    full = f"vector<{len(values)}x{kind}>"
    lines = [f"{name}_v0 = llvm.mlir.undef : {full}"]
    for i, value in enumerate(values):
        result = name if i == len(values) - 1 else f"{name}_v{i + 1}"
        lines += [
            constant(f"{name}_n{i}", i),
            f"{result} = llvm.insertelement {value}, {name}_v{i}[{name}_n{i} : i32] : {full}",
        ]
    return lines


def _masked_store(
    value: str, address: str, mask: str, shape: str = "4xi32", kind: str = _GLOBAL, alignment_bytes: int = 16
) -> str:
    """Store a vector where the mask, one bit an element, is set."""
    return (
        f'"llvm.intr.masked.store"({value}, {address}, {mask}) <{{alignment = {alignment_bytes} : i32}}> '
        f": (vector<{shape}>, {kind}, vector<{shape.partition('x')[0]}xi1>) -> ()"
    )
