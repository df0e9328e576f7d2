"""`kperfir record` without a GPU: programs run as Python runs them, captures survive, errors are one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kperfir as kp
from kperfir.capture.device.driver import driver_present

pytestmark = pytest.mark.skipif(driver_present(), reason="the interpreter path is for machines without a GPU")

KERNEL = """
import sys, torch, triton, triton.language as tl
import kperfir.language as kl

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(3):
        with kl.scope("body"):
            tl.store(y + at, tl.load(x + at, at < n) + 1, at < n)
    kl.mark("done")

x, y = torch.arange(100.0), torch.zeros(100)
add[(2,)](x, y, 100, 64)
assert torch.equal(y, x + 1)
"""

TUNED = "@triton.autotune([triton.Config({}), triton.Config({}, num_warps=8)], key=[])\n@triton.jit"


def run(tmp_path: Path, program: str, *options: str, arguments: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
    script = tmp_path / "program.py"
    script.write_text(program)
    command = [sys.executable, "-m", "kperfir", "record", "-o", str(tmp_path / "c.kperf"), *options, str(script)]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path)


def counts(path: Path) -> dict[str, int]:
    return {r.name: r.count for k in kp.load(path).summary().kernels for r in k.regions}


def test_scopes_marks_and_rules(tmp_path: Path) -> None:
    done = run(tmp_path, KERNEL)
    assert done.returncode == 0, done.stderr
    assert "interpreter" in done.stderr
    assert counts(tmp_path / "c.kperf") == {"kernel": 2, "body": 6, "load": 6, "store": 6, "done": 2}
    report = str(kp.load(tmp_path / "c.kperf").summary())
    assert "Times are those of Triton's interpreter" in report and "raw" in report


def test_loops_by_name_and_sampling(tmp_path: Path) -> None:
    program = KERNEL + "\nfor _ in range(4): add[(2,)](x, y, 100, 64)\n"
    done = run(tmp_path, program, "--regions", "loop", "--first", "1", "--every", "0")
    assert done.returncode == 0, done.stderr
    assert counts(tmp_path / "c.kperf") == {"loop": 2, "body": 6, "done": 2}
    assert kp.load(tmp_path / "c.kperf").summary().tally == {"add": {"recorded": 1, "sampled-out": 4}}


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("raise ValueError('mine')", 1)])
def test_exit_code_and_capture_survive(tmp_path: Path, end: str, code: int) -> None:
    done = run(tmp_path, KERNEL + end)
    assert done.returncode == code
    assert counts(tmp_path / "c.kperf")["body"] == 6
    assert ("ValueError: mine" in done.stderr) == (code == 1)


def test_arguments_reach_the_program(tmp_path: Path) -> None:
    done = run(tmp_path, "import sys; print(sys.argv[1:], __name__)", arguments=("--regions", "-o", "x"))
    assert done.stdout.strip() == "['--regions', '-o', 'x'] __main__"


def test_unbalanced_scopes_leave_results_and_name_the_line(tmp_path: Path) -> None:
    done = run(tmp_path, KERNEL.replace('kl.mark("done")', 'kl.enter("open")'))
    assert done.returncode == 0, done.stderr
    problems = kp.load(tmp_path / "c.kperf").problems()
    problems = problems() if callable(problems) else problems
    assert any(p.code == "not-recorded" and "program.py:11" in p.what for p in problems)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (KERNEL.replace("@triton.jit", TUNED), "autotuned"),
        ("import torch; torch.zeros(1, device='cuda')", "asks for a GPU"),
    ],
)  # fmt: skip
def test_what_needs_a_gpu_is_refused_in_one_sentence(tmp_path: Path, program: str, message: str) -> None:
    done = run(tmp_path, program)
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]


def test_missing_script_and_bad_output(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("")
    for options, message in (
        (["-o", "/nonexistent/x.kperf", str(script)], "cannot be written"),
        (["-o", str(tmp_path / "y.kperf"), str(tmp_path / "none.py")], "no script"),
        (["--regions", "nonsense", str(script)], "'nonsense' is no rule"),
    ):
        done = subprocess.run([sys.executable, "-m", "kperfir", "record", *options], capture_output=True, text=True)
        assert done.returncode == 1
        assert len(done.stderr.strip().splitlines()) <= 2 and message in done.stderr


def test_child_processes_get_captures_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(KERNEL)
    done = run(tmp_path, "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)")
    assert done.returncode == 0, done.stderr
    children = [p for p in tmp_path.glob("c.*.kperf")]
    assert len(children) == 1
    assert counts(children[0])["body"] == 6


@pytest.mark.parametrize(
    ("plan", "option"),
    [
        ("slots=128", "--slots=64"),
        ("kernels=mul*", "--include=add"),
        ("kernels=mul*", "--exclude=add"),
        ("launches=0", "--first=2"),
        ("launches=0", "--every=0"),
        ("regions=auto", "--regions=auto"),
    ],
)
def test_what_is_said_twice_is_refused(plan: str, option: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    command = [sys.executable, "-m", "kperfir", "record", option, "--plan", plan, "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode != 0 and option.partition("=")[0] in done.stderr and "Leave one of them out" in done.stderr
    assert not (tmp_path / "run.kperf").exists()


def test_include_and_exclude(tmp_path: Path) -> None:
    run(tmp_path, KERNEL, "--exclude", "ad*")
    assert kp.load(tmp_path / "c.kperf").summary().tally == {"add": {"excluded": 1}}


PASS = """
import kperfir as kp

class Mine(kp.Pass):
    name = "mine"
    def run(self, module, context): pass
"""


def test_passes_reach_the_program_and_its_children(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PASS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "child.py").write_text(KERNEL)
    program = (
        KERNEL + "\nimport subprocess\nsubprocess.run([sys.executable, '../child.py'], check=True, cwd='folder')\n"
    )
    done = run(tmp_path, program, "--pass", "mine.py", "--pass-at", "ttgir:before-place")
    assert done.returncode == 0, done.stderr
    captures = sorted(tmp_path.glob("c*.kperf"))
    skipped = [[p.what for p in kp.load(c).problems() if p.code == "pass-skipped"] for c in captures]
    assert len(captures) == 2
    assert all(len(s) == 1 and "Pass 'mine' at ttgir:before-place" in s[0] for s in skipped)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pass", "nix"), "There is no pass 'nix'"),
        (("--pass", "mine.py", "--pass-at", "ptx"), "'ptx' is no point"),
        (("--pass-at", "nowhere"), "--pass-at says where passes run, and there is none"),
    ],
)
def test_passes_that_are_not_there(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    (tmp_path / "mine.py").write_text(PASS)
    done = run(tmp_path, KERNEL, *options)
    assert done.returncode == 1
    assert message in done.stderr and not (tmp_path / "c.kperf").exists()
