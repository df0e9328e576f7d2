"""Users' passes in a compile: what they place, where they may run, and what becomes of wrong ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from xdsl.rewriter import Rewriter

import kperfir as kp
import kperfir.language as kl
from kperfir.bridge import build, steps
from kperfir.bridge.build import Instrumented, compile_instrumented, instrument
from kperfir.bridge.limits import DeviceLimits
from kperfir.bridge.request import Request
from kperfir.capture.schema import Resources
from kperfir.errors import PassError
from kperfir.ir.foreign import ForeignModule, ForeignOp, text_type
from kperfir.passes.registry import bind
from kperfir.plan import Plan

H100 = GPUTarget("cuda", 90, 32)
LIMITS = DeviceLimits(232448, 233472, 1024, 65536, 64, 32)
POINTS = ("ttir:before-tag", "ttir:after-tag", "ttgir:before-place", "ttgir:after-place")


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        with kl.scope("load"):
            value = tl.load(x + i * BLOCK + at)
        tl.store(y + i * BLOCK + at, value)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


STORE = copy.fn.__code__.co_firstlineno + 6
LINES = {"load": STORE - 1, "store": STORE}


def source() -> ASTSource:
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    return ASTSource(copy, signature, {(3,): 1024}, {})


def compiled(passes: Any, regions: tuple[str, ...] = (), at: str | None = None) -> Instrumented:
    return compile_instrumented(source(), H100, {}, Request(regions), bind(passes, at))


def names(built: Instrumented) -> list[str]:
    return [r.name for r in built.table.regions]


def clocks(built: Instrumented) -> int:
    return built.kernel.asm["ptx"].count("%clock;")


def find(module: ForeignModule, opname: str) -> ForeignOp:
    return next(op for op in module.walk() if op.opname == opname)


class AroundStore(kp.Pass):
    name = "around-store"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        context.around(find(module, "tt.store"), "mine")


class MarkStore(kp.Pass):
    name = "mark-store"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        context.mark(find(module, "tt.store"), "here")


# --- what passes place


@pytest.mark.parametrize("at", POINTS)
def test_a_region_is_recorded_from_every_level(at: str) -> None:
    built = compiled(AroundStore, at=at)
    (mine,) = (r for r in built.table.regions if r.name == "mine")
    assert (mine.origin, Path(mine.file).name, mine.operations) == ("pass", "test_user_passes.py", ("tt.store",))
    assert sorted(names(built)) == ["load", "mine"]
    assert clocks(built) == len(built.table.sites) == 4
    assert built.findings == ()


@pytest.mark.parametrize("at", ["ttgir:before-place", "ttgir:after-place"])
@pytest.mark.parametrize("asked", [{"version": "iteration"}, {"iterations": "0-3"}])
def test_records_of_a_pass_follow_the_turns_of_their_loop(asked: dict[str, Any], at: str) -> None:
    built = compile_instrumented(source(), H100, {}, Request((), **asked), bind([AroundStore, MarkStore], at))
    assert len(built.table.sites) == 5 and all(site.versioned for site in built.table.sites)
    assert not built.findings
    if "iterations" in asked:
        ptx = built.kernel.asm["ptx"]
        plain = compile_instrumented(source(), H100, {}, Request(()), bind([AroundStore, MarkStore], at))
        assert ptx.count("setp") >= plain.kernel.asm["ptx"].count("setp") + 5


def test_turns_that_a_pass_cannot_follow_are_told_of() -> None:
    request = Request((), iterations="0-3")
    built = compile_instrumented(source(), H100, {}, request, bind(FirstLoad()))
    assert [(f.code, f.where) for f in built.findings] == [
        ("pass-turns", "Pass 'first-load' at llvm:before-lower"),
    ]
    assert sorted(site.versioned for site in built.table.sites) == [False, False, True, True]


@pytest.mark.parametrize("at", POINTS)
def test_a_mark_is_recorded_from_every_level(at: str) -> None:
    built = compiled(MarkStore, at=at)
    assert [r.origin for r in built.table.regions if r.name == "here"] == ["mark"]
    assert clocks(built) == len(built.table.sites) == 3


def test_a_region_knows_what_is_open_around_it() -> None:
    built = compiled(AroundStore, ("kernel", "loop"))
    parents = {r.name: built.table.regions[r.parent].name if r.parent is not None else "" for r in built.table.regions}
    assert parents == {"kernel": "", "loop": "kernel", "load": "loop", "mine": "loop"}


def test_a_region_over_several_operations_and_a_role() -> None:
    class Both(kp.Pass):
        name = "both"

        def run(self, module: ForeignModule, context: kp.PassContext) -> None:
            context.region(find(module, "tt.load"), find(module, "tt.store"), "all", role="wait")

    built = compiled(Both)
    (region,) = (r for r in built.table.regions if r.origin == "pass")
    assert (region.name, region.role) == ("all.wait", "wait")
    assert {"tt.load", "tt.store"} <= set(region.operations)


def test_a_pass_may_change_ttgir() -> None:
    class Twice(kp.Pass):
        name = "twice"

        def run(self, module: ForeignModule, context: kp.PassContext) -> None:
            store = find(module, "tt.store")
            kind = store.operands[1].type
            double = ForeignOp("arith.addf", [store.operands[1]] * 2, [kind], location_text=store.location_text)
            store.parent.insert_op_before(double, store)  # type: ignore[union-attr]
            store.operands[1] = double.results[0]

    plain, changed = compiled(AroundStore), compiled([Twice, AroundStore])
    added = [built.kernel.asm["ptx"].count("add.f32") for built in (plain, changed)]
    assert added[1] > added[0]
    assert clocks(changed) == 4


def test_a_pass_reads_the_target_and_the_rules_and_tells_of_it() -> None:
    class Tell(kp.Pass):
        name = "tell"

        def run(self, module: ForeignModule, context: kp.PassContext) -> None:
            context.note(f"{context.target} {context.rules}", find(module, "tt.store"), "Nothing.")

    (finding,) = compiled(Tell, ("load",)).findings
    assert (finding.code, finding.what, finding.cure) == ("pass", "cuda:90 ('load',)", "Nothing.")
    assert finding.where.startswith("Pass 'tell' at ttgir:after-place") and "test_user_passes.py:" in finding.where


# --- wrong passes


class Raises(kp.Pass):
    name = "raises"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        for op in module.walk():
            if op.opname == "tt.store":
                raise ValueError("no stores, please")


class Refused(kp.Pass):
    name = "refused"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        store = find(module, "tt.store")
        wrong = ForeignOp("arith.addf", store.operands[:2], [text_type("f32")], location_text=store.location_text)
        store.parent.insert_op_before(wrong, store)  # type: ignore[union-attr]


class Erases(kp.Pass):
    name = "erases"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        Rewriter.erase_op(find(module, "tt.load"), safe_erase=False)


class ErasesSafely(kp.Pass):
    name = "erases-safely"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        load = find(module, "tt.load")
        Rewriter.erase_op(load)


class Returns(kp.Pass):
    name = "returns"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        return "a new module"  # type: ignore[return-value]


class Renames(kp.Pass):
    name = "renames"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        find(module, "tt.store").opname = "tt.shop"


class AtTheEnd(kp.Pass):
    name = "at-the-end"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        context.around(find(module, "tt.return"), "never")


class Crossed(kp.Pass):
    name = "crossed"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        context.region(find(module, "tt.store"), find(module, "tt.load"), "backwards")


class Leaves(kp.Pass):
    name = "leaves"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        raise SystemExit(3)


WRONG = [
    (Raises, "raised ValueError: no stores, please at .*passes.py:[0-9]+, at operation 'tt.store' .*py:{store}"),
    (Refused, "left a module that Triton refuses: operation 'arith.addf' .*py:{store}.*: "),
    (Erases, "left operation 'tt.store' .*py:{store}.*, which uses as operand 1 a value that nothing .* defines"),
    (ErasesSafely, "raised ValueError: Attempting to delete .*, at operation 'tt.load' .*py:{load}"),
    (Returns, "returned str; a pass changes the module in place and returns None"),
    (Renames, "left a module that Triton refuses: operation 'tt.shop' .*py:{store}"),
    (AtTheEnd, "operation 'tt.return' .*py:.* ends its block, so 'never' cannot end behind it"),
    (Crossed, "operation 'tt.load' .*py:{load}.* does not follow operation 'tt.store' in the same block"),
    (Leaves, "raised SystemExit: 3 at .*test_user_passes.py:"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=lambda value: getattr(value, "name", ""))
def test_a_wrong_pass_is_named_with_the_operation(wrong: Any, message: str) -> None:
    with pytest.raises(PassError, match=message.format(**LINES)) as caught:
        compiled(wrong)
    assert caught.value.what.startswith(f"Pass '{wrong.name}' at ttgir:after-place")
    assert caught.value.cure or wrong in (AtTheEnd, Crossed)


@pytest.mark.parametrize("at", ["ttir:before-tag", "ttir:after-tag"])
@pytest.mark.parametrize(("wrong", "found"), [(Renames, "'tt.store'|'tt.shop'"), (Refused, "'arith.addf'")])
def test_at_ttir_a_pass_only_tags(wrong: Any, found: str, at: str) -> None:
    message = rf"Pass '{wrong.name}' at {at} changed operation ({found}) .*py:{STORE}"
    with pytest.raises(PassError, match=message) as caught:
        compiled(wrong, at=at)
    assert "reads and tags" in caught.value.cure


def test_a_wrong_pass_leaves_the_plain_kernel_and_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_load", lambda kernel, limits: Resources())
    plain = triton.compile(source(), target=H100)
    before = plain.asm["cubin"]
    twin = instrument(plain, Plan.make("auto"), LIMITS, bind(Raises))
    (problem,) = twin.problems
    assert (twin.kernel, problem.code, problem.where) == (None, "not-recorded", "copy")
    assert "Pass 'raises'" in problem.what and "without records" in problem.cure
    assert triton.compile(source(), target=H100).asm["cubin"] == before


# --- the compile key


class Named(kp.Pass):
    name = "named"

    def __init__(self, region: str) -> None:
        self.region = region

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        context.around(find(module, "tt.store"), self.region)


def test_no_binary_is_stale() -> None:
    """Neither of another pass, nor of another parameter or point, nor plain."""
    plain = triton.compile(source(), target=H100).hash
    each = [compiled(p, at=at) for p, at in (
        ((), None), (AroundStore, None), (AroundStore, "ttgir:before-place"), (Named("a"), None), (Named("b"), None),
    )]  # fmt: skip
    assert len({plain, *(built.kernel.hash for built in each)}) == 6
    assert [names(built)[-1] for built in each] == ["load", "mine", "load", "a", "b"]
    assert compiled(Named("a")).kernel.hash == each[3].kernel.hash


def test_each_run_gets_a_pass_of_its_own() -> None:
    class Counts(kp.Pass):
        name = "counts"

        def __init__(self) -> None:
            self.seen: list[str] = []

        def run(self, module: ForeignModule, context: kp.PassContext) -> None:
            self.seen.append("x")
            context.mark(find(module, "tt.store"), f"run {len(self.seen)}")

    counts = Counts()
    assert names(compiled(counts))[-1] == "run 1"
    assert names(compiled(counts, ("kernel",)))[-1] == "run 1"
    assert counts.seen == []


# --- the LLVM dialect


class FirstLoad(kp.Pass):
    name = "first-load"
    at = "llvm"

    def __init__(self, pattern: str = r"asm_string = .*ld\.global", mark: bool = False) -> None:
        self.pattern, self.mark = pattern, mark

    def run(self, module: Any, context: kp.PassContext) -> None:
        chunk = module.split(self.pattern)[0]
        if self.mark:
            context.mark(chunk, "now")
        else:
            context.around(chunk, "load in LLVM")


def test_a_pass_records_lines_of_the_llvm_dialect() -> None:
    built = compiled([FirstLoad(), FirstLoad(mark=True)])
    found = {r.name: r for r in built.table.regions}
    assert found.keys() == {"load", "load in LLVM", "now"}
    assert (found["load in LLVM"].origin, found["load in LLVM"].line) == ("pass", LINES["load"])
    assert found["now"].operations == ("llvm.inline_asm",)
    assert clocks(built) == len(built.table.sites) == 5


def test_a_kernel_without_other_records_is_recorded_there() -> None:
    source_ = ASTSource(bare, {"x": "*fp32", "BLOCK": "constexpr"}, {(1,): 1024}, {})
    built = compile_instrumented(source_, H100, {}, Request(()), bind(FirstLoad("llvm.inline_asm")))
    assert clocks(built) == len(built.table.sites) == 2


@triton.jit
def bare(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1)


class Rewrites(kp.Pass):
    name = "rewrites"
    at = "llvm:after-lower"

    def __init__(self, new: str) -> None:
        self.new = new

    def run(self, module: Any, context: kp.PassContext) -> None:
        for chunk in module.split(r"asm_string = .*%clock;"):
            chunk.lines = [line.replace("%clock;", self.new) for line in chunk.lines]


def test_a_pass_sees_the_lowered_records() -> None:
    built = compiled([AroundStore, Rewrites("%clock_hi;")])
    assert clocks(built) == 0
    assert built.kernel.asm["ptx"].count("%clock_hi;") == len(built.table.sites) == 4


class Garbles(FirstLoad):
    name = "garbles"

    def run(self, module: Any, context: kp.PassContext) -> None:
        module.split(self.pattern)[0].lines[:] = ['    "llvm.nothing"() : () -> ()']


class AtBranch(FirstLoad):
    name = "at-branch"

    def run(self, module: Any, context: kp.PassContext) -> None:
        context.around(module.split('"llvm.cond_br"')[0], "never")


class AcrossBlocks(FirstLoad):
    """Records from a line to the label of another block, as regions of TTGIR never could."""

    name = "across-blocks"

    def __init__(self, first: str, last: str) -> None:
        self.first, self.last = first, last

    def run(self, module: Any, context: kp.PassContext) -> None:
        found = module.split(f"{self.first}|{self.last}")
        first = next(chunk for chunk in found if re.search(self.first, chunk.lines[0]))
        last = next(chunk for chunk in reversed(found) if re.search(self.last, chunk.lines[0]))
        context.region(first, last, "never")


_BLOCK = r"^ +\^bb\d+"
_BIT = "llvm.inline_asm"


@pytest.mark.parametrize(
    ("wrong", "at", "message"),
    [
        (AcrossBlocks("llvm.mlir.constant", _BIT), None, "would go on in another basic block"),
        (AcrossBlocks(_BIT, _BLOCK), None, "would go on in another basic block"),
        (AcrossBlocks(_BLOCK, _BIT), None, "begins a basic block"),
        (Garbles, None, "Pass 'garbles' at llvm:before-lower left .* operation 'llvm.bitcast' .*undeclared"),
        (AtBranch, None, "Pass 'at-branch' at llvm:before-lower: line '\"llvm.cond_br\".* ends its block"),
        (FirstLoad, "llvm:after-lower", "'load in LLVM' cannot be recorded: records are lowered already"),
        (FirstLoad("no such line"), None, "raised IndexError"),
    ],
)
def test_wrong_passes_of_the_llvm_dialect(wrong: Any, at: str | None, message: str) -> None:
    with pytest.raises(PassError, match=message):
        compiled(wrong, at=at)


# --- where no record can stand, and other targets


@triton.jit
def add_both(a, b):
    return a + b


@triton.jit(noinline=True)
def called(x, n):
    tl.store(x + n, 1.0)


@triton.jit
def reducing(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x, tl.reduce(tl.load(x + at), 0, add_both))
    called(x, tl.program_id(0))


class Around(kp.Pass):
    name = "around"

    def __init__(self, opname: str) -> None:
        self.opname = opname

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        ops = [op for op in module.walk() if op.opname == self.opname]
        context.around(ops[-1] if self.opname == "tt.func" else ops[0], "never")


class InCallee(kp.Pass):
    name = "in-callee"

    def run(self, module: ForeignModule, context: kp.PassContext) -> None:
        inner = next(f for f in module.functions() if "private" in f.properties_text)
        context.mark(next(op for op in inner.regions[0].block.ops), "never")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Around("arith.addf"), "operation 'arith.addf' .* lies in the body of 'tt.reduce'"),
        (Around("tt.func"), "operation 'tt.func' .* stands in no sequence of instructions"),
        (InCallee, "lies in a function that is called without being inlined"),
    ],
)
def test_where_no_record_can_stand(wrong: Any, message: str) -> None:
    signature = {"x": "*fp32", "BLOCK": "constexpr"}
    with pytest.raises(PassError, match=message):
        compile_instrumented(ASTSource(reducing, signature, {(1,): 1024}, {}), H100, {}, Request(()), bind(wrong))


def test_a_module_that_is_broken_before_a_pass_is_not_held_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = steps.place

    def place(module: ForeignModule, *rest: Any) -> Any:
        placed = real(module, *rest)
        find(module, "tt.store").opname = "tt.shop"
        return placed

    monkeypatch.setattr(steps, "place", place)
    with pytest.raises(PassError, match=r"Pass 'around-store' at .* was given a .* operation 'tt.shop'"):
        compiled(AroundStore)


def test_amd() -> None:
    target = GPUTarget("hip", "gfx942", 64)
    built = compile_instrumented(
        source(), target, {}, Request(()), bind([Around("amdg.buffer_store"), FirstLoad("rocdl.raw|llvm.load")])
    )
    assert names(built) == ["load", "never", "load in LLVM"]
    assert len(built.table.sites) == 6
