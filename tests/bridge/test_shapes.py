"""Every shape of scope, compiled with records: the regions it gives, and a clock read for each site."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, str(Path(__file__).parent))
import shape_kernels as k

from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.errors import KperfError
from kperfir.plan import Plan
from kperfir.targets.nvidia import Nvidia

ARCHITECTURES = (80, 90, 100)
SIGNATURE = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def build(kernel: Any, arch: int = 90, regions: tuple[str, ...] = (), **options: Any) -> Any:
    source = ASTSource(kernel, SIGNATURE, {(3,): 1024}, {})
    built = compile_instrumented(source, GPUTarget("cuda", arch, 32), options, Request(regions))
    assert_each_site_reads_the_clock(built)
    return built


def assert_each_site_reads_the_clock(built: Any) -> None:
    """LLVM neither drops a read nor makes one of two."""
    assert built.kernel.asm["ptx"].count("%clock;") == len(built.table.sites)


def names(built: Any) -> Counter[str]:
    return Counter(r.name for r in built.table.regions)


def parents(built: Any) -> dict[str, str]:
    regions = built.table.regions
    return {r.name: regions[r.parent].name for r in regions if r.parent is not None}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nesting_and_the_same_name(arch: int) -> None:
    built = build(k.same_name, arch)
    assert names(built) == {"a": 2}
    assert [r.parent for r in built.table.regions] == [None, 0]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_helpers_are_regions_of_each_caller(arch: int) -> None:
    built = build(k.calls_helpers, arch)
    assert names(built) == {"first": 1, "second": 1, "helper": 2}
    regions = built.table.regions
    assert {regions[r.parent].name for r in regions if r.name == "helper"} == {"first", "second"}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_branches_and_loops(arch: int) -> None:
    built = build(k.branches, arch)
    assert parents(built) == {"then": "outer", "else": "outer", "turn": "outer"}
    assert len(built.table.sites) == 8, "the ends of two branches are two reads"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_early_returns(arch: int) -> None:
    built = build(k.returns_early, arch, ("kernel",))
    assert names(built) == {"kernel": 1, "before": 1, "after": 1}
    ends = [s for s in built.table.sites if s.kind == "end" and s.region == 0]
    assert len(ends) >= 2, "each return ends the kernel"


SHAPES = (k.calls_helpers, k.same_name, k.returns_early, k.returns_at_once, k.branches, k.marked)
PLANS = {
    "flush": "regions=auto;strategy=flush",
    "sums": "regions=auto;strategy=aggregate",
    "sums in global memory": "regions=auto;strategy=aggregate;buffer=global",
    "sums of some": "regions=auto;strategy=aggregate;ctas=0-7;granularity=2",
    "global": "regions=auto;buffer=global;metric=clock64",
    "some": "regions=auto;iterations=0-3;version=iteration;warps=0-1",
    "last": "regions=auto;iterations=last-8;version=tile",
}


def build_with(kernel: Any, plan: str, target: GPUTarget, **options: Any) -> Any:
    source = ASTSource(kernel, SIGNATURE, {(3,): 1024}, {})
    return compile_instrumented(source, target, options, Request.of(Plan.parse(plan)))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize("kernel", SHAPES, ids=lambda kernel: str(kernel.__name__))
def test_every_shape_with_every_strategy(kernel: Any, plan: str) -> None:
    built = build_with(kernel, plan, GPUTarget("cuda", 90, 32))
    same = build(kernel, 90, ("auto",)).table.regions
    assert [(r.name, r.line) for r in built.table.regions] == [(r.name, r.line) for r in same]
    if built.layout.holds_sums:
        assert built.layout.slots == len(same)


@pytest.mark.parametrize("plan", ["version=iteration", "version=tile", "iterations=0-3", "iterations=last-8"])
def test_a_mark_in_front_of_a_counted_loop_stays_there(plan: str) -> None:
    built = build_with(k.marked, f"regions=none;{plan}", GPUTarget("cuda", 90, 32))
    assert names(built) == {"before": 1, "turn": 1}
    text = built.kernel.asm["ttgir"]
    assert text.count("mark before>") == 1 and text.index("mark before>") < text.index("scf.for")


_AMD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_shapes import PLANS, SHAPES, GPUTarget, build_with
for kernel in SHAPES:
    for plan in PLANS.values():
        print(len(build_with(kernel, plan, GPUTarget("hip", "gfx942", 64)).table.sites))
    # checks of overflow: a function that stays a call stands before the kernel
    print(len(build_with(kernel, PLANS["global"], GPUTarget("hip", "gfx942", 64), debug=True).table.sites))
"""


def test_every_shape_with_every_strategy_on_amd(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _AMD, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [int(line) > 0 for line in done.stdout.split()] == [True] * len(SHAPES) * (len(PLANS) + 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%kp_index = llvm.add %kp_0, %kp_0 : i32", "defines %kp_index twice"),
        ("%kp_wrong = llvm.add %kp_nowhere, %kp_0 : i32", "kp_nowhere"),
    ],
)
def test_lines_that_make_no_sense_are_told_by_their_name(line: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nvidia, "finalize", lambda self, frame, n: [line])
    with pytest.raises(KperfError, match=said):
        build(k.same_name)


def test_a_callee_that_is_not_inlined_is_told_of() -> None:
    built = build(k.calls_without_inlining)
    assert names(built) == {"call": 1}
    assert {f.code for f in built.findings} == {"noinline"}


@pytest.mark.parametrize("arch", (90, 100))
def test_clusters(arch: int) -> None:
    built = build(k.branches, arch, ("auto",), num_ctas=2)
    assert {"kernel", "outer", "then", "else", "turn"} <= names(built).keys()


@pytest.mark.parametrize("count", [300])
def test_many_scopes(count: int, tmp_path: Path) -> None:
    body = "".join(
        f'    with kl.scope("s{i}"):\n        tl.store(y + at + {i}, tl.load(x + at + {i}))\n' for i in range(count)
    )
    head = "import triton, triton.language as tl\nimport kperfir.language as kl\n\n@triton.jit\n"
    text = f"{head}def many(x, y, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n{body}"
    (tmp_path / "many_scopes.py").write_text(text)
    spec: Any = importlib.util.spec_from_file_location("many_scopes", tmp_path / "many_scopes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built = build(module.many)
    assert names(built) == {f"s{i}": 1 for i in range(count)}
    assert [s.id for s in built.table.sites] == list(range(2 * count))


@pytest.mark.parametrize("specialised", [False, True])
def test_tritons_own_warp_specialisation(specialised: bool) -> None:
    """On sm_100; it is compiled, and did not run. No barrier is added, and registers are handed out as before."""
    import triton

    blocks = {name: "tensordesc<fp16[128, 128]>" for name in "abc"}
    signature = blocks | {"K": "i32", "BLOCK": "constexpr", "SPECIALISED": "constexpr"}
    source = ASTSource(k.matmul, signature, {(4,): 128, (5,): specialised}, {})
    target = GPUTarget("cuda", 100, 32)
    plain = triton.compile(source, target=target)
    built = compile_instrumented(source, target, {}, Request(("auto",)))
    assert_each_site_reads_the_clock(built)
    assert {"kernel", "load.issue", "mma.issue"} & names(built).keys() >= {"kernel", "load.issue"}
    partitions = [n for n in names(built) if n.startswith("partition")]
    assert bool(partitions) == specialised
    for pattern in (r"bar\.sync|barrier\.sync|barrier\.cta", r"setmaxnreg\S* \d+"):
        found = [Counter(re.findall(pattern, kernel.asm["ptx"])) for kernel in (plain, built.kernel)]
        assert found[0] == found[1]
