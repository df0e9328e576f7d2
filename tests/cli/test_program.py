"""A program under `kperfir record` sees what it sees under `python`, and fails in the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kperfir as kp
from kperfir.capture.device.driver import driver_present

pytestmark = pytest.mark.skipif(driver_present(), reason="the interpreter path is for machines without a GPU")

SEES = """
import os, pickle, sys
class Mine: pass
class_is_found = pickle.loads(pickle.dumps(Mine())).__class__ is Mine
os.chdir("/")
print(__annotations__, __cached__, __builtins__, type(__loader__), __doc__, __package__)
print(__name__, __file__, sys.argv, sys.path[0], os.path.exists(__file__), class_is_found, __spec__)
"""


def both(folder: Path, program: str, *arguments: str) -> list[subprocess.CompletedProcess[str]]:
    """The program alone, and recorded into the folder `captures`."""
    (folder / "program.py").write_text(program)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    record = ["-m", "kperfir", "record", "-o", "captures/"]
    return [
        subprocess.run(
            [sys.executable, *way, "program.py", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            check=False,
        )
        for way in ([], record)
    ]


def test_names_paths_and_arguments(tmp_path: Path) -> None:
    plain, recorded = both(tmp_path, SEES, "-o", "x")
    assert plain.returncode == 0 and "True True" in plain.stdout, plain.stderr
    assert recorded.stdout == plain.stdout, recorded.stderr


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    return 1 / x\nf(0)",
        "x = (",
        "import sys\nsys.excepthook = lambda *e: print('hooked', e[0], file=sys.stderr)\nraise OSError",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "class Mine(BaseException): pass\nraise Mine('words')",
        "class Dumb(Exception):\n    def __str__(self): raise OSError\nraise Dumb",
        "import sys\ndef hook(*e): raise OSError('hook')\nsys.excepthook = hook\nraise ValueError('program')",
        "import sys\ndel sys.excepthook\nraise ValueError('program')",
        "def f(x: NotDefined): pass",
        "import sys; sys.exit(True)",
        "import sys; sys.exit(2**70)",
        "import sys; sys.exit(-1)",
        "import sys; sys.exit('words')",
    ],
)
def test_errors_are_shown_as_python_shows_them(program: str, tmp_path: Path) -> None:
    plain, recorded = both(tmp_path, program)
    said = [line for line in recorded.stderr.splitlines() if not line.startswith("kperfir: ")]
    assert said == plain.stderr.splitlines()
    assert recorded.returncode == {-2: 130}.get(plain.returncode, plain.returncode)
    found = {p.code: p.what for p in kp.load(tmp_path / "captures").problems()}
    assert f"exit code {recorded.returncode}" in found["failed"] and "unreadable" not in found


@pytest.mark.parametrize("name", ["3", "''", r"'a\nb'", r"'\x1b[0m'", r"'\ud800'"])
def test_a_scope_with_a_bad_name_is_shown_with_its_line(name: str, tmp_path: Path) -> None:
    _, recorded = both(tmp_path, f"import kperfir.language as kl\nkl.scope({name})")
    assert 'program.py", line 2' in recorded.stderr
    assert f"cannot be named {name}" in recorded.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "program", ["import sys; sys.stdout.close(); sys.stderr.close()", "import sys; sys.stderr = None"]
)
def test_a_program_that_closes_its_outputs(program: str, tmp_path: Path) -> None:
    plain, recorded = both(tmp_path, program)
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout) == (0, "")
    assert kp.load(tmp_path / "captures").captures[0].complete


def test_idle_workers_of_a_pool_end_with_the_program(tmp_path: Path) -> None:
    program = "import concurrent.futures as f\npool = f.ThreadPoolExecutor()\nprint(pool.submit(int).result())"
    plain, recorded = both(tmp_path, program)
    assert recorded.stdout == plain.stdout == "0\n"


def test_version() -> None:
    done = subprocess.run([sys.executable, "-m", "kperfir", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == kp.__version__
