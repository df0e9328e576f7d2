"""Compiling with records for targets that are not here: keys, metadata, restored hooks, the in-kernel language."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kperfir.language as kl
from kperfir.bridge.build import compile_instrumented
from kperfir.bridge.request import Request
from kperfir.bridge.stages import instrumenting
from kperfir.errors import BridgeError, ScopeError

H100 = GPUTarget("cuda", 90, 32)


@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with kl.scope("copy"):
        tl.store(y + at, tl.load(x + at))


@triton.jit
def unbalanced(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    kl.enter("open")
    tl.store(y + at, tl.load(x + at))


def source(fn=copy):  # type: ignore[no-untyped-def]
    return ASTSource(fn, {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, {(2,): 1024}, {})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    return tmp_path


def test_scope_and_rules_are_in_table_and_metadata() -> None:
    built = compile_instrumented(source(), H100, {}, Request(("auto",)))
    assert [r.name for r in built.table.regions] == ["kernel", "copy", "load", "store"]
    assert built.kernel.asm["ptx"].count("%clock;") == len(built.table.sites) == 8
    assert built.kernel.metadata.profile_scratch_size == built.layout.cta_bytes
    assert built.kernel.metadata.shared >= built.layout.warps * built.layout.ring_bytes


@pytest.mark.parametrize("regions", [("auto",), ()])
def test_scopes_are_found_where_the_program_wants_no_line_info(
    regions: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton then makes operations without locations, in which scopes travel."""
    expected = compile_instrumented(source(), H100, {}, Request(regions))
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "another"))
    found = compile_instrumented(source(), H100, {}, Request(regions))
    assert (found.table, found.findings) == (expected.table, expected.findings)
    assert os.environ["TRITON_DISABLE_LINE_INFO"] == "1"


def test_no_binary_is_stale() -> None:
    before = triton.compile(source(), target=H100)
    shared = compile_instrumented(source(), H100, {}, Request(("auto",)))
    other = compile_instrumented(source(), H100, {}, Request(("load",), "global", 64))
    after = triton.compile(source(), target=H100)
    hashes = {before.hash, shared.kernel.hash, other.kernel.hash}
    assert len(hashes) == 3
    assert after.hash == before.hash
    assert "%clock" not in after.asm["ptx"]
    assert after.asm["cubin"] == before.asm["cubin"]


def test_the_same_kernel_in_two_files_has_two_tables(tmp_path: Path) -> None:
    """Triton's key is made of the source and its line."""
    text = (
        "import triton, triton.language as tl\n@triton.jit\ndef same(x, y, BLOCK: tl.constexpr):\n"
        "    at = tl.arange(0, BLOCK)\n    tl.store(y + at, tl.load(x + at))\n"
    )
    files = []
    for folder in ("pa", "pb"):
        path = tmp_path / folder / "kern.py"
        path.parent.mkdir()
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"kern_{folder}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        built = compile_instrumented(source(module.same), H100, {}, Request(("auto",)))
        files.append({r.file for r in built.table.regions})
        assert triton.compile(source(module.same), target=H100).asm["ptx"].count("%clock") == 0
    assert files == [{str(tmp_path / folder / "kern.py")} for folder in ("pa", "pb")]


def test_a_second_process_finds_the_table_in_the_warm_cache() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import kperfir.bridge.stages as stages\n"
        "from test_build import *\n"
        "def fail(*_): raise AssertionError('a stage ran')\n"
        "stages._place = fail\n"
        "built = compile_instrumented(source(), H100, {}, Request(('auto',)))\n"
        "assert len(built.table.sites) == 8\n"
    )
    compile_instrumented(source(), H100, {}, Request(("auto",)))
    subprocess.run([sys.executable, "-c", program, str(Path(__file__).parent)], check=True)


def test_words_leave_nothing_behind() -> None:
    kernel = triton.compile(source(), target=H100)
    assert "KPERF" not in kernel.asm["ptx"] and "KPERF" not in kernel.asm["ttir"]


def test_a_scope_that_stays_open_names_its_line_and_the_plain_kernel_compiles() -> None:
    with pytest.raises(ScopeError, match=r"'open' is entered at .*test_build.py:\d+"):
        compile_instrumented(source(unbalanced), H100, {}, Request(()))
    assert "%clock" not in triton.compile(source(unbalanced), target=H100).asm["ptx"]


def test_hook_and_backend_are_restored_and_another_hook_is_called() -> None:
    import triton.backends.nvidia.compiler as backend

    calls: list[bool] = []

    def hook(backend=None, stages=None, options=None, language=None, capability=None):  # type: ignore[no-untyped-def]
        calls.append(stages is None)
        return ("mine", "mine") if stages is None else None

    llvm = backend.llvm
    knobs.runtime.add_stages_inspection_hook = hook
    try:
        with pytest.raises(ScopeError):
            compile_instrumented(source(unbalanced), H100, {}, Request(()))
        compile_instrumented(source(), H100, {}, Request(("auto",)))
        assert knobs.runtime.add_stages_inspection_hook is hook
    finally:
        knobs.runtime.add_stages_inspection_hook = None
    assert False in calls
    assert backend.llvm is llvm


def test_a_process_forked_by_another_thread_during_a_compile_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    entered, leave = threading.Event(), threading.Event()

    def compile_slowly() -> None:
        with instrumenting(Request(("auto",))):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=compile_slowly)
    thread.start()
    entered.wait(10)
    assert "TRITON_DISABLE_LINE_INFO" not in os.environ
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        kept = (gc.isenabled(), os.environ.get("TRITON_DISABLE_LINE_INFO"))
        built = compile_instrumented(source(), H100, {}, Request(("auto",)))
        os._exit(not (kept == (True, "1") and len(built.table.sites) == 8))
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_compile_within_a_compile_is_refused() -> None:
    with instrumenting(Request(("auto",))), pytest.raises(BridgeError, match="while this thread was compiling another"):
        compile_instrumented(source(), H100, {}, Request(("auto",)))


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_as_it_was(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with instrumenting(Request(("auto",))):
            assert not gc.isenabled()
        assert gc.isenabled() == collects
        with pytest.raises(ScopeError):
            compile_instrumented(source(unbalanced), H100, {}, Request(()))
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


def test_other_threads_compile_plain_meanwhile() -> None:
    found: list[str] = []

    def plain() -> None:
        found.append(triton.compile(source(), target=H100).asm["ptx"])

    threads = [threading.Thread(target=plain) for _ in range(2)]
    for thread in threads:
        thread.start()
    built = compile_instrumented(source(), H100, {}, Request(("auto",)))
    for thread in threads:
        thread.join()
    assert "%clock" in built.kernel.asm["ptx"]
    assert len(found) == 2 and not any("%clock" in ptx for ptx in found)


def test_other_threads_do_not_see_the_hook() -> None:
    """Triton asks a hook that is there for a part of every kernel's key, so another thread would compile again."""
    seen: list[object] = []
    with instrumenting(Request(("auto",))):
        assert knobs.runtime.add_stages_inspection_hook is not None
        thread = threading.Thread(target=lambda: seen.append(knobs.runtime.add_stages_inspection_hook))
        thread.start()
        thread.join()
    assert seen == [None] and knobs.runtime.add_stages_inspection_hook is None


@pytest.mark.parametrize("place", ["shared", "global"])
def test_rings_lie_where_asked(place: str) -> None:
    built = compile_instrumented(source(), H100, {}, Request(("auto",), place, 64))  # type: ignore[arg-type]
    assert f"st.{place}.v2.b32" in built.kernel.asm["ptx"]
    assert built.layout.place == place and built.layout.slots == 64
