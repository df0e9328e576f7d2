"""`kperfir inspect`: costs of kernels that are compiled and not run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kperfir.bridge.architectures import ARCHITECTURES, architecture_limits
from kperfir.bridge.binary import _tool, disassembled, nvidia_usage
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.measure import _others
from kperfir.bridge.occupancy import DeviceLimits
from kperfir.bridge.request import Request
from kperfir.errors import BridgeError
from kperfir.plan import Plan

IR = Path(__file__).parents[1] / "data" / "ir"
ADD, MATMUL = IR / "add_one.ttir", IR / "matmul.ttgir"
H100 = GPUTarget("cuda", 90, 32)


@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 2)


def source() -> ASTSource:
    return ASTSource(double, {"x": "*fp32", "BLOCK": "constexpr"}, {(1,): 1024}, {})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Triton's cache with one plain kernel of two warps and its instrumented twin."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    triton.compile(source(), target=H100, options={"num_warps": 2})
    compile_instrumented(source(), H100, {"num_warps": 2}, Request(("auto",)))
    return tmp_path / "cache"


def inspect(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kperfir", "inspect", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def table(text: str) -> dict[str, list[str]]:
    """Rows of the table of one kernel: title -> values."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in text.splitlines())
    return {row[0]: row[1:] for row in rows if len(row) > 1}


def shown(*arguments: object) -> dict[str, list[str]]:
    done = inspect(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return table(done.stdout)


def test_a_cubin_that_is_none_is_not_compared(cache: Path) -> None:
    (binary,) = (path for path in cache.rglob("*.cubin") if "kperf" not in path.with_suffix(".json").read_text())
    binary.write_bytes(b"no cubin")
    done = inspect(cache)
    assert done.returncode == 0, done.stderr
    assert "cannot be compared" in done.stdout and "report the kernel" not in done.stdout


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1 and not done.stdout, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("kperfir: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_file_plain_and_with_records() -> None:
    rows = shown("--plan", "regions=load;slots=64", MATMUL)
    plain, records = (int(v) for v in rows["shared bytes a CTA"])
    assert (plain, records - plain) == (98304, 8 * 64 * 8)  # 8 warps, 64 slots, 8 bytes
    assert rows["CTAs an SM"] == ["2", "2"]
    before, after = (int(v) for v in rows["instructions"])
    assert int(rows["records in the code"][1]) == 4
    assert float(rows["instructions a record"][0]) == pytest.approx((after - before) / 4, abs=0.06)
    assert all(int(n) * 16 <= int(size) for n, size in zip(rows["instructions"], rows["code bytes"]))


def test_fewer_ctas_are_warned_of_and_the_proposal_keeps_them() -> None:
    done = inspect("--plan", "regions=load;buffer=shared;slots=1024", MATMUL)
    assert done.returncode == 0, done.stderr
    assert table(done.stdout)["CTAs an SM"] == ["2", "1"]
    assert "Warning: With records only 1 of 2 CTAs fit on an SM." in done.stdout
    found = re.search(r'As many CTAs as plain: --plan "(.*)"', done.stdout)
    assert found and found.group(1) == "regions=load;buffer=shared;slots=256"
    again = inspect("--plan", found.group(1), MATMUL)
    assert table(again.stdout)["CTAs an SM"] == ["2", "2"] and "Warning" not in again.stdout


def test_what_became_of_a_scope_is_shown_and_not_doubted_for_its_addresses() -> None:
    done = inspect("--target", "cuda:90", "--plan", "regions=none", ADD)
    assert done.returncode == 0, done.stderr
    titles, counts = (
        next(i for i in done.stdout.splitlines() if i.split()[:1] == [name]) for name in ("scope", "copy")
    )
    assert " ".join(titles.split()) == (
        "scope held kept copies outside hoisted merged vanished code between foreign source"
    )
    assert counts.split()[-1] == "add_one.py:12" and len(counts.split()) == 13  # "between" is a number and a share
    assert "lie between its clocks" not in done.stdout


def test_without_sass_it_says_so_and_shows_what_became_of_the_operations() -> None:
    done = inspect("--target", "hip:gfx942", "--plan", "regions=none", ADD)
    assert "Instructions were not looked at: instructions are read of NVIDIA's binaries only." in done.stdout
    assert re.search(r"^ *copy( +\d+){7} +add_one.py:12$", done.stdout, re.MULTILINE)


def test_plans_are_proposed_in_order_of_what_is_lost() -> None:
    plan = Plan(("auto",), "shared", 128)
    found = [(p.slots, p.granularity, p.buffer) for p in _others(plan, 128, 8)]
    assert found == [
        (64, "warp", "shared"),
        (32, "warp", "shared"),
        (128, "warp-group", "shared"),
        (128, "cta", "shared"),
        (128, "warp", "global"),
    ]
    assert list(_others(Plan(("auto",), "global", granularity="cta"), 128, 8)) == []


def test_amd_has_two_kinds_of_registers_and_no_occupancy() -> None:
    rows = shown("--target", "hip:gfx942", ADD)
    assert int(rows["registers"][1]) > 0 and int(rows["scalar registers"][1]) > 0
    assert rows["CTAs an SM"] == ["unknown", "unknown"]
    assert int(rows["instructions"][1]) > int(rows["instructions"][0]) > 10
    assert int(rows["code bytes"][1]) > int(rows["code bytes"][0]) > 40


def test_options_of_triton_count() -> None:
    assert shown("--target", "cuda:90", "--option", "num_warps=1", ADD)["CTAs an SM"][0] == "32"
    assert shown("--target", "cuda:90", "--option", "num_warps=8", ADD)["CTAs an SM"][0] == "8"


def test_a_cache_shows_its_plain_kernels_as_they_are(cache: Path) -> None:
    done = inspect(cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("instructions a record") == 1 and "Warning" not in done.stdout
    rows = table(done.stdout)
    assert rows["double"] == ["cuda:90"]
    kernel = triton.compile(source(), target=H100, options={"num_warps": 2})
    usage = nvidia_usage(kernel.asm["cubin"])
    assert rows["registers"][0] == str(usage.registers) and rows["code bytes"][0] == str(usage.code_bytes)
    assert rows["CTAs an SM"][0] == "32"
    assert usage.code_bytes == 16 * len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", disassembled(kernel.asm["cubin"]), re.M))


def test_a_kernel_that_compiles_to_something_else_is_warned_of(cache: Path) -> None:
    entry = next(p for p in cache.rglob("double.json") if '"kperf"' not in p.read_text())
    metadata = json.loads(entry.read_text())
    assert metadata["num_warps"] == 2
    ttgir = entry.with_suffix(".ttgir")
    ttgir.write_text(ttgir.read_text().replace('"ttg.num-warps" = 2', '"ttg.num-warps" = 8'))
    done = inspect(entry.parent)
    assert done.returncode == 0 and "not what it compiles to" in " ".join(done.stdout.split())


def test_one_kernel_that_fails_does_not_hide_the_others(cache: Path) -> None:
    entry = next(p for p in cache.rglob("double.json") if '"kperf"' not in p.read_text())
    bad = cache / "bad"
    shutil.copytree(entry.parent, bad)
    (bad / "double.ttir").write_text("module { tt.func }")
    done = inspect(cache)
    assert done.returncode == 1 and done.stdout.count("instructions a record") == 1
    assert done.stderr.startswith("kperfir: double: Triton cannot read it.") and done.stderr.count("\n") == 1


PROGRAM = """
import sys, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 2)

for warps in map(int, sys.argv[1:]):
    source = ASTSource(double, {"x": "*fp32", "BLOCK": "constexpr"}, {(1,): 1024}, {})
    triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps})
"""


def test_kernels_that_a_program_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9.0 warns where it is not set
    (tmp_path / "program.py").write_text(PROGRAM)
    for _ in range(2):  # the second time all come from the cache
        done = inspect(tmp_path / "program.py", 1, 4, 1)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.findall(r"CTAs an SM +(\d+)", done.stdout) == ["32", "16"]
    refused(inspect("--plan", "kernels=add*", tmp_path / "program.py", 1), "leaves out every kernel")
    refused(inspect(tmp_path / "program.py"), "compiled no Triton kernel")


def test_a_program_that_fails_fails_as_without_kperfir(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise ValueError('mine')")
    done = inspect(tmp_path / "program.py")
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == "ValueError: mine" and not done.stdout


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    refused(inspect(), "Nothing was given")
    refused(inspect(tmp_path), str(tmp_path), "no kernel of Triton's cache")
    refused(inspect(tmp_path / "no.py"), "no script")
    refused(inspect(tmp_path / "no.ttir"), "cannot be read")
    refused(inspect(ADD), "does not say for which target")
    refused(inspect(MATMUL, "--plan", "regions=load"), "Options come first")
    refused(inspect("--plan", "regions=lod", MATMUL), "lod")
    refused(inspect("--target", "cuda:90", tmp_path), "Leave --target")
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.ttir").write_text("")
    refused(inspect(tmp_path), "x.json is no metadata")


def test_limits_are_those_that_a_driver_states() -> None:
    assert architecture_limits("cuda", 90) == DeviceLimits(232448, 233472, 1024, 65536, 64, 32)  # an H200's
    assert architecture_limits("hip", "gfx942") is None and architecture_limits("cuda", 91) is None
    assert {limits.warp_size for limits in ARCHITECTURES.values()} == {32}


@pytest.mark.parametrize("tool", ["cuobjdump", "nvdisasm"])
def test_tools_come_from_where_triton_finds_them(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment first; where there is none anywhere, a sentence says so."""
    monkeypatch.delenv(f"TRITON_{tool.upper()}_PATH", raising=False)
    real = Path(_tool(tool))
    own = tmp_path / tool
    own.symlink_to(real)
    monkeypatch.setenv(f"TRITON_{tool.upper()}_PATH", str(own))
    assert _tool(tool) == str(own)

    class Nothing:
        def __getattr__(self, name: str) -> None:
            raise RuntimeError(f"Cannot find {name}")

    monkeypatch.setattr("kperfir.bridge.binary.knobs", SimpleNamespace(nvidia=Nothing()))
    with pytest.raises(BridgeError, match=f"There is no {tool}.* TRITON_{tool.upper()}_PATH"):
        _tool(tool)
