"""`kl.value` in compiled kernels: what is recorded, for every target, and that schedules stay as they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget

sys.path.insert(0, str(Path(__file__).parent))
import value_kernels as k

from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.plan import Plan

COUNTED = r"cp\.async\.c[ag]|wgmma\.mma_async|tcgen05\.mma|v_mfma|s_barrier|bar\.sync"
ROWS = {("turn", "int32"), ("half", "float32"), ("rows", "uint32"), ("block", "int32")}
AMD = ("gfx942", "gfx950")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def build(source: Any, target: GPUTarget, plan: str = "regions=none", **options: Any) -> Any:
    return compile_instrumented(source, target, options, Request.of(Plan.parse(plan)))


def carried(built: Any) -> set[tuple[str, str]]:
    return {(r.name, r.scalar) for r in built.table.regions if r.origin == "value"}


def look(target: GPUTarget) -> dict[str, Any]:
    """What the kernels gave, as JSON has it."""
    built = build(k.rows_source(), target, "regions=auto")
    recorded = {"rows": sorted(carried(built)), "record_bytes": built.layout.record_bytes}
    recorded["findings"] = [f.code for f in built.findings]
    turns = {"num_warps": 8, "num_stages": 3 if target.backend == "cuda" else 2}
    plain = triton.compile(k.matmul_source(), target=target, options=turns)
    matmul = build(k.matmul_source(), target, **turns).kernel
    texts = [kernel.asm.get("ptx") or kernel.asm["amdgcn"] for kernel in (plain, matmul)]
    recorded["events"] = sorted(kinds(build(k.rows_source(k.events), target), "row"))
    recorded["counts"] = [dict(Counter(re.findall(COUNTED, text))) for text in texts]
    return recorded


def check(found: dict[str, Any]) -> None:
    assert {tuple(pair) for pair in found["rows"]} == ROWS
    assert (found["record_bytes"], found["findings"]) == (16, [])
    assert found["events"] == ["end", "end", "start"]
    assert found["counts"][0] == found["counts"][1] != {}


@pytest.mark.parametrize("arch", (80, 90, 100))
def test_values_on_nvidia(arch: int) -> None:
    check(look(GPUTarget("cuda", arch, 32)))


_AMD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_values import GPUTarget, look
print(json.dumps(look(GPUTarget("hip", sys.argv[2], 64))))
"""


@pytest.mark.parametrize("arch", AMD)
def test_values_on_amd(arch: str) -> None:
    command = [sys.executable, "-c", _AMD, str(Path(__file__).parent), arch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    check(json.loads(done.stdout))


@pytest.mark.parametrize("arch", (80, 90, 100))
def test_values_in_gluon(arch: int) -> None:
    built = build(k.gluon_source(), GPUTarget("cuda", arch, 32))
    assert carried(built) == {("turn", "int32"), ("doubled", "int32")}
    regions = built.table.regions
    assert {regions[r.parent].name for r in regions if r.origin == "value"} == {"row"}


def test_a_turn_that_a_pipeliner_peeled_off_has_its_mask() -> None:
    """On sm_100 the last turn is peeled and predicated: what is recorded there depends on its mask."""
    built = build(k.matmul_source(), GPUTarget("cuda", 100, 32), num_warps=8, num_stages=3)
    assert len([s for s in built.table.sites if s.kind == "value"]) == 2
    assert "KPERF_MARK" not in built.kernel.asm["ttgir"] and "int_to_ptr" not in built.kernel.asm["ttgir"]


@pytest.mark.parametrize("plan", ["strategy=aggregate", "regions=none;addresses=all"])
def test_plans_that_cannot_hold_values_say_so(plan: str) -> None:
    for source, names in ((k.rows_source(), 4), (k.gluon_source(), 2)):
        built = build(source, GPUTarget("cuda", 90, 32), plan)
        assert [f.code for f in built.findings] == ["no-scalar"] * names
        assert carried(built) == set()


@pytest.mark.parametrize("plan", ["version=iteration;iterations=0-3", "strategy=flush", "buffer=stack", "buffer=host"])
def test_values_with_other_knobs(plan: str) -> None:
    built = build(k.rows_source(), GPUTarget("cuda", 90, 32), f"regions=none;{plan}")
    assert carried(built) == ROWS and built.layout.record_bytes == 16


@pytest.mark.parametrize(
    ("plan", "slots"), [("", 128), ("slots=256", 256), ("buffer=global", 256), ("metric=time", 256)]
)
def test_rings_in_shared_memory_keep_their_bytes_unless_slots_were_asked_for(plan: str, slots: int) -> None:
    built = build(k.rows_source(), GPUTarget("cuda", 90, 32), f"regions=none;{plan}")
    assert (built.layout.slots, built.layout.record_bytes) == (slots, 16)


def kinds(built: Any, name: str) -> list[str]:
    """Kinds of the sites of events of a name, which are one region wherever they stand."""
    (region,) = (r for r in built.table.regions if r.name == name)
    assert (region.origin, region.parent, region.scalar) == ("event", None, "int32")
    return [s.kind for s in built.table.sites if s.region == region.id]


@pytest.mark.parametrize("arch", (80, 90, 100))
def test_events_need_not_balance_in_a_block(arch: int) -> None:
    built = build(k.rows_source(k.events), GPUTarget("cuda", arch, 32), "regions=auto")
    assert sorted(kinds(built, "row")) == ["end", "end", "start"] and built.findings == ()


@pytest.mark.parametrize("arch", (90, 100))
def test_events_cross_partitions_in_gluon(arch: int) -> None:
    built = build(k.gluon_source(k.gluon_events), GPUTarget("cuda", arch, 32), num_warps=4)
    assert sorted(kinds(built, "item")) == ["end", "start"]


WRONG = {
    "tensor": ("tl.arange(0, BLOCK)", "tensor of"),
    "float64": ("n.to(tl.float64)", "a value of fp64"),
    "int64": ("n.to(tl.int64)", "a value of int64"),
    "boolean": ("n > 3", "a value of int1"),
    "pointer": ("x", "pointer"),
    "large": ("1 << 40", "1099511627776"),
    "text": ("'three'", "three"),
}


@pytest.mark.parametrize(("x", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_no_record_can_carry_is_refused_with_or_without_recording(x: str, said: str, tmp_path: Path) -> None:
    head = "import triton, triton.language as tl\nimport kperfir.language as kl\n\n@triton.jit\n"
    path = tmp_path / "wrong_value.py"
    path.write_text(f"{head}def wrong(x, out, n, BLOCK: tl.constexpr):\n    kl.value('here', {x})\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    source = k.rows_source(names["wrong"])
    target = GPUTarget("cuda", 90, 32)
    for make in (lambda: triton.compile(source, target=target), lambda: build(source, target)):
        with pytest.raises(Exception, match=r"cannot carry") as caught:
            make()
        assert "'here' cannot carry" in str(caught.value) and said in str(caught.value)


def test_an_id_is_a_whole_number() -> None:
    from kperfir.errors import ScopeError
    from kperfir.language import begin, end

    for word in (begin, end):
        with pytest.raises(ScopeError, match="id of 'copy' is a float32"):
            word("copy", 1.5)
