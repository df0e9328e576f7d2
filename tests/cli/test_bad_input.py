"""The command line with input nobody should give it: one sentence, an exit code, no traceback of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import handmade
import pytest

import kperfir as kp
from kperfir.capture.device.driver import driver_present
from kperfir.capture.schema import Kernel
from kperfir.records import Region, Table

DATA = Path(__file__).parents[1] / "data"
GOOD = DATA / "softmax.kperf"
WORK = """
import torch, triton, triton.language as tl

@triton.jit
def add(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1)

def work(n):
    for _ in range(n):
        add[(1,)](torch.zeros(16), 16)
"""
without_gpu = pytest.mark.skipif(driver_present(), reason="the interpreter path is for machines without a GPU")


def kperfir(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "kperfir", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence on standard error and what to do; nothing else."""
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert done.stderr.startswith("kperfir: ") and done.stderr.count("\n") == 1, done.stderr
    assert not done.stdout
    for word in words:
        assert word in done.stderr, done.stderr


def broken(folder: Path) -> dict[str, Path]:
    files = {name: folder / f"{name}.kperf" for name in ("empty", "text", "head", "none")}
    files["empty"].touch()
    files["text"].write_text("hello\n" * 100)
    files["head"].write_bytes(GOOD.read_bytes()[:1000])
    (folder / "folder").mkdir()
    return files | {"folder": folder / "folder", "below a file": GOOD / "x.kperf"}


@pytest.mark.parametrize("command", ["report", "export"])
def test_captures_that_cannot_be_read(command: str, tmp_path: Path) -> None:
    for path in broken(tmp_path).values():
        refused(kperfir(command, path, folder=tmp_path), str(path))


@pytest.mark.parametrize("place", ["no/such/folder/x.json", f"{GOOD}/x.json", ".", "x.pdf", "x"])
def test_exports_that_cannot_be_written(place: str, tmp_path: Path) -> None:
    refused(kperfir("export", GOOD, "-o", place, folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("suffix", ["json", "json.gz", "csv", "parquet", "arrow"])
def test_exports_onto_a_full_disk(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"x.{suffix}").symlink_to("/dev/full")
    refused(kperfir("export", GOOD, "-o", f"x.{suffix}", folder=tmp_path), f"x.{suffix} cannot be written")


@without_gpu
@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--regions", "lod"], "lod"),
        (["--regions", ""], "rule"),
        (["--regions", "auto+load"], "auto+load"),
        (["--slots", "1"], "1"),
        (["--buffer", "stack"], "stack"),
        (["--slots", "3"], "3"),
        (["--slots", "-4"], "-4"),
        (["--first", "-1"], "-1"),
        (["--every", "-1"], "-1"),
        (["--limit", "-1"], "limit"),
        (["-o", "no/such/folder/x.kperf"], "no/such/folder"),
        (["-o", f"{GOOD}/x.kperf"], "x.kperf"),
    ],
)
def test_options_that_make_no_sense(options: list[str], word: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('ran')")
    done = kperfir("record", *options, script, folder=tmp_path)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    assert word in done.stderr.splitlines()[-1], done.stderr
    assert "ran" not in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["program.py"]


@without_gpu
@pytest.mark.parametrize(
    ("program", "code"),
    [("raise ValueError('mine')", 1), ("import sys; sys.exit('no')", 1), ("import sys; sys.exit(3)", 3), ("1 +", 1)],
)
def test_a_program_that_fails_fails_as_without_kperfir(program: str, code: int, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    done = kperfir("record", script, folder=tmp_path)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == plain.returncode == code
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1] if plain.stderr else not plain.stderr
    assert kp.load(tmp_path / "run.kperf").captures[0].complete


@without_gpu
def test_a_program_that_dies_leaves_a_capture_that_says_so(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import os; os._exit(4)")
    assert kperfir("record", script, folder=tmp_path).returncode == 4
    assert "truncated" in [p.code for p in kp.load(tmp_path / "run.kperf").problems()]


@without_gpu
def test_a_module_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import sys; print(__name__, sys.argv[1:])")
    done = kperfir("record", "-m", "tool", "-o", "mine", "--help", folder=tmp_path)
    assert done.stdout == "__main__ ['-o', 'mine', '--help']\n", done.stderr
    missing = kperfir("record", "-m", "no_such_module", folder=tmp_path)
    assert missing.returncode in (1, 2) and "no_such_module" in missing.stderr.splitlines()[-1]


def said_by_child(child: str, folder: Path) -> str:
    """What a child process of a recorded program prints."""
    (folder / "program.py").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])")
    done = kperfir("record", "program.py", folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@without_gpu
def test_a_child_that_does_not_use_triton_costs_nothing(tmp_path: Path) -> None:
    """Neither a capture nor an import of what only the command needs."""
    child = "import sys; print(sorted({'typer', 'rich', 'triton', 'kperfir', 'numpy'} & set(sys.modules)))"
    assert said_by_child(child, tmp_path) == "[]\n"
    assert [p.name for p in tmp_path.glob("*.kperf")] == ["run.kperf"]


@without_gpu
def test_a_child_that_uses_triton_does_not_load_the_command_line(tmp_path: Path) -> None:
    child = "import sys, triton; print(sorted({'typer', 'rich'} & set(sys.modules)))"
    assert said_by_child(child, tmp_path) == "[]\n"
    assert len(list(tmp_path.glob("*.kperf"))) == 2


@pytest.mark.parametrize("command", [[], ["report", "--help"], ["export", "--help"], ["record", "--help"]])
def test_help(command: list[str], tmp_path: Path) -> None:
    done = kperfir(*command, folder=tmp_path)
    assert "Usage: kperfir" in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_doctor_gives_a_verdict_on_everything(tmp_path: Path) -> None:
    done = kperfir("doctor", folder=tmp_path)
    assert "Traceback" not in done.stderr
    for word in ("Python", "Triton", "torch", "GPU"):
        assert word.lower() in done.stdout.lower()


@without_gpu
@pytest.mark.parametrize("program", [["none.py"], ["-m", "no_such_package.part"]])
def test_a_program_that_is_not_there_leaves_an_earlier_capture(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "run.kperf").write_bytes(b"earlier")
    refused(kperfir("record", *program, folder=tmp_path), f"There is no {'module' if len(program) > 1 else 'script'}")
    assert (tmp_path / "run.kperf").read_bytes() == b"earlier"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_that_is_full() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kperfir", "report", GOOD],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "Standard output cannot be written: No space left" in done.stderr


@pytest.mark.parametrize("closed, command", [(">&-", ["report", str(GOOD)]), ("<&-", ["opt", "-"])])
def test_standard_streams_that_are_closed(closed: str, command: list[str]) -> None:
    line = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "kperfir", *command]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "is closed" in done.stderr


def test_a_report_where_standard_output_cannot_spell_a_name(tmp_path: Path) -> None:
    table = Table((Region(0, "Größe", origin="scope", file="\udcff.py", line=1),), handmade.TABLE.sites[:2])
    kernel = Kernel(0, "add", "hash", "cuda:90", handmade.LAYOUT, table)
    block = handmade.block(handmade.LAYOUT, warps=[handmade.span(1100, 1900)])
    path = handmade.write(tmp_path / "a.kperf", [(handmade.launch(0, 1), block)], kernel)
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "kperfir", "report", str(path)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"Gr\xf6\xdfe" in done.stdout and rb"\udcff.py:1" in done.stdout


@without_gpu
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_multiprocessing_close_captures_of_their_own(method: str, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "program.py").write_text(
        "import multiprocessing, work\n"
        "if __name__ == '__main__':\n"
        "    work.work(1)\n"
        f"    process = multiprocessing.get_context({method!r}).Process\n"
        "    workers = [process(target=work.work, args=(n,)) for n in (2, 3)]\n"
        "    for worker in workers: worker.start()\n"
        "    for worker in workers: worker.join()\n"
        "    work.work(4)\n"
    )
    done = kperfir("record", "--first", 99, "program.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    captures = kp.load(tmp_path).captures
    assert sorted(len(c.launches) for c in captures) == [2, 3, 5]
    assert all(c.complete for c in captures)
    assert len({c.session.process_id for c in captures}) == 3
    assert sorted(c.tally["add"]["recorded"] for c in captures) == [2, 3, 5]


@without_gpu
def test_a_recording_replaces_captures_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('ran')")
    for output in ("program.py", "data.txt"):
        (tmp_path / "data.txt").write_text("mine")
        done = kperfir("record", "-o", output, "program.py", folder=tmp_path)
        assert done.returncode == 1 and "ran" not in done.stdout and output in done.stderr.splitlines()[-1]
        assert "wrote" not in done.stderr
    assert (script.read_text(), (tmp_path / "data.txt").read_text()) == ("print('ran')", "mine")
    for _ in range(2):
        assert kperfir("record", "program.py", folder=tmp_path).stdout == "ran\n"


@without_gpu
def test_a_child_whose_python_has_no_kperfir_runs_on(tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text("")
    child = [
        sys.executable,
        "-S",
        "-c",
        "import site, sys; sys.path[:0] = sys.argv[1:]; import sitecustomize, triton; print('ran')",
    ]
    hook = Path(kp.__file__).parent / "cli" / "child_site"
    environment = {"KPERFIR_CHILD": "{}", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [*child, str(hook), str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "ran\n", done.stderr
    assert "this child process is not recorded" in done.stderr


@without_gpu
def test_threads_that_outlive_the_script_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "program.py").write_text(
        "import threading, time, work\nthreading.Thread(target=lambda: (time.sleep(0.5), work.work(2))).start()"
    )
    done = kperfir("record", "program.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert kp.load(tmp_path / "run.kperf").captures[0].tally == {"add": {"recorded": 2}}
