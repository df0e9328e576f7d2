"""`kperfir opt`: text in, text out, each level checked by the FileCheck that Triton's wheel ships."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from kperfir.bridge.compat import triton_version

IR = Path(__file__).parents[1] / "data" / "ir"
ADD, MATMUL = IR / "add_one.ttir", IR / "matmul.ttgir"
FILE_CHECK = Path(triton.__file__).parent / "FileCheck"
SMALL = "regions=auto;slots=32"


def opt(*arguments: object, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kperfir", "opt", *map(str, arguments)]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, env=os.environ | environment
    )


def printed(*arguments: object, text: str | None = None) -> str:
    """What a run that must succeed prints, and that it says nothing else."""
    done = opt(*arguments, text=text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence on standard error and nothing else."""
    assert done.returncode == 1 and not done.stdout, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("kperfir: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def checked(file: Path, text: str, prefix: str) -> None:
    """FileCheck's verdict on a text, by the lines in `file` that have this prefix."""
    command = [str(FILE_CHECK), str(file), f"--check-prefix={prefix}", "--dump-input=fail"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr)


@pytest.mark.parametrize("level", ["ttir", "kperf", "ttgir", "kperf-gpu", "llvm-dialect", "llir", "ptx", "sass"])
def test_every_level_of_nvidia(level: str) -> None:
    checked(ADD, printed(ADD, "--target", "cuda:90", "--plan", SMALL, "--emit", level), level.upper())


@pytest.mark.parametrize("level", ["ttir", "kperf", "ttgir", "kperf-gpu", "amdgcn"])
def test_every_level_of_amd(level: str) -> None:
    checked(ADD, printed(ADD, "--target", "hip:gfx942", "--plan", SMALL, "--emit", level), level.upper())


@pytest.mark.parametrize(
    ("target", "level"),
    [(f"cuda:{arch}", level) for arch in (80, 100) for level in ("kperf-gpu", "ptx")]
    + [("hip:gfx950", level) for level in ("kperf-gpu", "amdgcn")],
)
def test_the_same_on_other_architectures(target: str, level: str) -> None:
    checked(ADD, printed(ADD, "--target", target, "--plan", SMALL, "--emit", level), level.upper())


@pytest.mark.parametrize("level", ["kperf", "ptx", "sass"])
def test_a_scheduled_module_names_its_target(level: str) -> None:
    checked(MATMUL, printed(MATMUL, "--plan", "regions=load+dot+wait", "--emit", level), level.upper())


def test_a_check_that_must_fail_does() -> None:
    with pytest.raises(pytest.fail.Exception):
        checked(ADD, printed(ADD, "--target", "cuda:90", "--pass", "tag-scopes"), "KPERF")


def test_generic_text_is_read_as_custom_text_is() -> None:
    custom = printed(ADD, "--target", "cuda:90", "--emit", "ptx")
    generic = printed(ADD, "--target", "cuda:90", "--pass", "tag-scopes", "--generic")
    assert '"tt.load"(' in generic
    assert _code(printed("-", "--target", "cuda:90", "--emit", "ptx", text=generic)) == _code(custom)


@pytest.mark.parametrize("level", ["ttir", "kperf", "ttgir"])
def test_a_level_can_be_read_back(level: str) -> None:
    """Stopping in between and going on gives what one run gives."""
    text = printed(ADD, "--target", "cuda:90", "--emit", level)
    again = printed("-", "--target", "cuda:90", "--emit", "ptx", text=text)
    assert _code(again) == _code(printed(ADD, "--target", "cuda:90", "--emit", "ptx"))


def _code(ptx: str) -> list[str]:
    """Instructions, without what line information makes of another source."""
    lines = (line.partition("//")[0].strip() for line in ptx.partition(".entry")[2].partition("\n}")[0].splitlines())
    return [line for line in lines if line and not line.startswith((".loc", "$L"))]


def test_only_the_passes_asked_for_run() -> None:
    plain = printed(ADD, "--target", "cuda:90", "--pass", "tag-scopes", "--emit", "ptx")
    assert "%clock" not in plain and "KPERF" not in plain
    carried = printed(ADD, "--target", "cuda:90", "--pass", "place", "--pass", "lower-records", "--emit", "ptx")
    assert "%clock" not in carried and carried.count("// KPERF<") == 8
    assert "kperf.record" in printed(MATMUL, "--pass", "place")  # the level is that of the pass


def test_the_plan_decides() -> None:
    text = printed(MATMUL, "--plan", "regions=dot;buffer=global;slots=64;metric=clock64", "--emit", "kperf-gpu")
    assert "kperf_gpu.local_alloc" not in text
    assert "slots 64 : i32 record_bytes 16" in text and text.count("kperf_gpu.read_counter") == 2
    assert 'read_counter "clock" : i64' in text


def test_options_reach_triton() -> None:
    text = printed(ADD, "--target", "cuda:90", "--option", "num_warps=2", "--pass", "place", "--emit", "kperf")
    assert '"ttg.num-warps" = 2' in text


def test_a_file_is_written(tmp_path: Path) -> None:
    assert printed(ADD, "--target", "cuda:90", "--emit", "ttir", "-o", tmp_path / "out.ttir") == ""
    assert "kperf.scope:0.0" in (tmp_path / "out.ttir").read_text()
    refused(opt(ADD, "--target", "cuda:90", "-o", tmp_path / "no" / "x"), "cannot be written")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("does not say for which target", "--target")),
        (("--target", "cuda:10"), ("'cuda:10' is no target",)),
        (("--target", "h100"), ("'h100' is no target", "from cuda:80 on")),
        (("--target", "cuda:75"), ("'cuda:75' is no target", "from cuda:80 on")),
        (("--target", "cuda:999999", "--emit", "ptx"), ("'cuda:999999' is no target",)),
        (("--target", "cuda:500", "--emit", "ptx"), ("sm_500a", "not a recognized processor")),
        (("--target", "cuda:90", "--option", "num_stages=x"), ("num_stages is a number, and not 'x'",)),
        (("--target", "cuda:90", "--option", "num_warps=4.0"), ("num_warps is a number, and not 4.0",)),
        (("--target", "cuda:90", "--option", "num_warps=" + "9" * 5000), ("num_warps is a number",)),
        (("--target", "cuda:90", "--option", "num_stages=99999999999999999999"), ("num_stages is a number",)),
        (("--target", "cuda:90", "--option", "enable_fp_fusion=maybe"), ("enable_fp_fusion is True or False",)),
        (("--target", "opencl:1"), ("'opencl:1' is no target",)),
        (("--target", "hip:gfx942", "--emit", "sass"), ("no sass for a hip target", "amdgcn")),
        (("--target", "cuda:90", "--emit", "amdgcn"), ("no amdgcn for a cuda target", "sass")),
        (("--target", "cuda:90", "--emit", "stablehlo"), ("'stablehlo' is no level", "llvm-dialect")),
        (("--target", "cuda:90", "--pass", "inline"), ("'inline' is no pass", "tag-scopes")),
        (("--target", "cuda:90", "--pass", "to-gpu"), ("to-gpu needs", "lower-records")),
        (("--target", "cuda:90", "--pass", "place", "--emit", "ptx"), ("cannot read kperf.record",)),
        (("--target", "cuda:90", "--pass", "place", "--emit", "ttir"), ("place works behind the level ttir",)),
        (("--target", "cuda:90", "--pass", "lower-records", "--pass", "place"), ("one order",)),
        (("--target", "cuda:90", "--pass", "tag-scopes", "--emit", "kperf-gpu"), ("Add --pass to-gpu",)),
        (("--target", "cuda:90", "--plan", "regions=lod"), ("lod",)),
        (("--target", "cuda:90", "--option", "num_warps"), ("num_warps",)),
        (("--target", "cuda:90", "--option", "num_warps=3"), ("power of 2",)),
        (("--target", "cuda:90", "--option", "warps=3"), ("no option 'warps'", "num_warps")),
        (("--target", "hip:gfx999", "--emit", "amdgcn"), ("hip:gfx999", str(ADD))),
        (("--target", "cuda:500", "--emit", "sass"), ("sm_500",)),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(opt(ADD, *arguments), *words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tt.load", "tt.lod", ("Standard input", "line ", "tt.lod")),
        ("tt.load %x_at : tensor<128x!tt.ptr<f32>>", "tt.load %at : tensor<128xi32>", ("line ", "must be ptr")),
        ("tt.func", "func.func", ("holds no tt.func",)),
        ("tt.func public", "tt.func private", ("holds 0 kernels, and one is needed",)),
        ("module {", "module {\n  tt.func @other() { tt.return }", ("holds 2 kernels, and one is needed",)),
    ],
)
def test_text_that_is_not_ir_is_refused_by_its_line(old: str, new: str, words: tuple[str, ...]) -> None:
    text = "\n".join(line for line in ADD.read_text().splitlines() if not line.startswith("//"))
    refused(opt("-", "--target", "cuda:90", text=text.replace(old, new)), *words)


def test_files_that_hold_something_else() -> None:
    refused(opt(IR / "none.ttir"), "none.ttir cannot be read")
    refused(opt(IR), "cannot be read")
    refused(opt(IR.parent / "softmax.kperf"), "is no text")
    refused(opt(MATMUL, "--target", "cuda:80"), "made for cuda:90", "cuda:80")
    refused(opt(MATMUL, "--pass", "tag-scopes"), "holds TTGIR, which is behind tag-scopes")
    refused(opt(MATMUL, "--emit", "ttir"), "behind the level ttir")


def test_tags_without_names_are_refused() -> None:
    text = printed(ADD, "--target", "cuda:90", "--emit", "ttir").replace("kperf.scopes = ", "kperf.other = ")
    refused(opt("-", "--target", "cuda:90", text=text), "kperf.scopes")


def test_records_that_are_none_are_refused() -> None:
    text = printed(MATMUL, "--emit", "kperf").replace("#kperf<kind start>", "#kperf<kind begin>")
    refused(opt("-", text=text), "kind begin", "is no record")


def test_a_process_that_dies_while_it_compiles_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'kperfir.bridge.child' in sys.orig_argv:\n"
        "    print('LLVM ERROR: unknown target', file=sys.stderr, flush=True)\n    os.abort()\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    refused(opt(ADD, "--target", "cuda:90", PYTHONPATH=path), str(ADD), "by SIGABRT", "LLVM ERROR: unknown target")


@pytest.mark.skipif(triton_version() >= (3, 9, 0), reason="newer Tritons compile it")
def test_triton_ending_its_process_is_one_sentence() -> None:
    asm = 'tt.elementwise_inline_asm "nop" {constraints = "={r999}", packed_element = 1 : i32, pure = false} -> i32'
    text = ADD.read_text().replace("    tt.return", f"    %no = {asm}\n    tt.return")
    refused(opt("-", "--target", "cuda:90", "--emit", "ptx", text=text), "r999", "ended")


STORES = """
import kperfir as kp

class Stores(kp.Pass):
    name = "stores"

    def run(self, module, context):
        for op in list(module.walk()):
            if op.opname == "tt.store":
                context.around(op, "my store")
"""


@pytest.mark.parametrize(
    ("level", "shown"), [("kperf", "my store"), ("kperf-gpu", "circular_store"), ("ptx", "%clock;")]
)
def test_passes_of_users_run_at_their_points(level: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "stores.py").write_text(STORES)
    arguments = [ADD, "--target", "cuda:90", "--plan", "regions=none", "--emit", level]
    without, with_pass = printed(*arguments), printed(*arguments, "--pass", tmp_path / "stores.py")
    assert with_pass.count(shown) - without.count(shown) == 2, "one store: its start and its end"


def with_an_empty_scope() -> str:
    mark = '"// KPERF_MARK {} empty" {{constraints = "=r", packed_element = 1 : i32, pure = false}} -> i32 loc(#loc3)'
    lines = [f"    %{word}0 = tt.elementwise_inline_asm {mark.format(word)}" for word in ("enter", "exit")]
    return ADD.read_text().replace("    scf.for", "\n".join([*lines, "    scf.for"]), 1)


@pytest.mark.parametrize("command", ["opt", "inspect"])
def test_a_scope_without_anchor_is_told_of(command: str, tmp_path: Path) -> None:
    (tmp_path / "empty.ttir").write_text(with_an_empty_scope())
    arguments = [sys.executable, "-m", "kperfir", command, "--target", "cuda:90", str(tmp_path / "empty.ttir")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout
    assert done.stderr.startswith("kperfir: [no-anchor] ") and "'empty'" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_not_recorded_as_asked_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(STORES.replace('context.around(op, "my store")', 'context.note("a store", op)'))
    done = opt(ADD, "--target", "cuda:90", "--pass", tmp_path / "notes.py", "--emit", "kperf")
    assert done.returncode == 0 and "kperf.record" in done.stdout
    assert done.stderr.startswith("kperfir: [pass] Pass 'stores' at ttgir:after-place, ")
    assert done.stderr.rstrip().endswith("a store") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--emit", "ttir"], "runs beside place, which does not run on this way to ttir"),
        (["--pass", "tag-scopes", "--emit", "ttgir"], "runs beside place"),
        (["--pass", "stars"], "'stars' is no pass"),
    ],
)
def test_passes_of_users_that_would_not_run(more: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "stores.py").write_text(STORES)
    done = opt(ADD, "--target", "cuda:90", "--pass", tmp_path / "stores.py", *more)
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "stores"', 'name = "stores"\n    at = []', ("Pass 'stores': [] is no point",)),
        ("for op in", "raise KeyboardInterrupt\n        for op in", ("interrupted", "Pass 'stores' at")),
        ("import kperfir as kp", "raise SystemExit(0)", ("stores.py' cannot be loaded: SystemExit: 0",)),
        (
            'name = "stores"',
            'name = "stores"\n    def __init__(self): self.own = []; self.own.append(self.own)',
            ("Pass 'stores' holds a list as 'own'",),
        ),
    ],
)
def test_a_pass_of_users_that_is_broken_is_named(old: str, new: str, said: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "stores.py").write_text(STORES.replace(old, new))
    refused(opt(ADD, "--target", "cuda:90", "--pass", tmp_path / "stores.py"), *said)


def test_files_of_the_folder_are_not_taken_for_modules(tmp_path: Path) -> None:
    for name in ("json", "xdsl", "triton"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not this one')")
    command = [sys.executable, "-P", "-m", "kperfir", "opt", str(ADD), "--target", "cuda:90", "--emit", "ttir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pass_of_users_that_fails_is_named_with_the_operation(tmp_path: Path) -> None:
    (tmp_path / "stores.py").write_text(STORES.replace('context.around(op, "my store")', "op.nothing()"))
    done = opt(ADD, "--target", "cuda:90", "--pass", tmp_path / "stores.py")
    assert done.returncode == 1 and "Pass 'stores' at ttgir:after-place raised AttributeError" in done.stderr
    assert "tt.store" in done.stderr
