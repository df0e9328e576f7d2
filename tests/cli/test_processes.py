"""Child processes, forks, threads, and programs that record themselves, under `kperfir record`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kperfir as kp
from kperfir.capture.device.driver import driver_present

pytestmark = pytest.mark.skipif(driver_present(), reason="the interpreter path is for machines without a GPU")

WORK = """
import torch, triton, triton.language as tl

@triton.jit
def add(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(2):
        tl.store(x + at, tl.load(x + at) + 1)

def work(n):
    for _ in range(n):
        add[(1,)](torch.zeros(16), 16)
"""


def record(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "work.py").write_text(WORK)
    (folder / "program.py").write_text(program)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "kperfir", "record", *options, "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done


def recorded(path: Path) -> dict[str, int]:
    return kp.load(path).captures[0].tally.get("add", {})


def codes(path: Path) -> list[str]:
    return [p.code for p in kp.load(path).problems()]


RECORDS_ITSELF = """
import kperfir as kp, work
work.work(1)
for part in ("own", "other"):
    with kp.record(part + ".kperf"):
        work.work(2)
    assert len(kp.load(part + ".kperf").launches) == 2
work.work(1)
"""


def test_a_program_that_records_itself_keeps_what_it_records(tmp_path: Path) -> None:
    record(tmp_path, RECORDS_ITSELF)
    assert [recorded(tmp_path / f"{name}.kperf") for name in ("own", "other", "run")] == [{"recorded": 2}] * 3
    assert codes(tmp_path / "run.kperf").count("own-recording") == 2
    events = kp.load(tmp_path / "run.kperf").events()
    assert sorted(set(events["region"].to_pylist())) == ["kernel", "load", "store"]


def test_a_program_that_changes_its_folder(tmp_path: Path) -> None:
    """Its own captures lie where it is then, the one of the whole program and those of forks where they were begun."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "run.kperf").touch()
    program = (
        "import multiprocessing, os, work\n"
        "os.chdir('elsewhere')\n"
        f"{RECORDS_ITSELF.replace('other', 'run')}\n"
        "worker = multiprocessing.get_context('fork').Process(target=work.work, args=(1,))\n"
        "worker.start(); worker.join()"
    )
    record(tmp_path, f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{program}")
    assert [recorded(tmp_path / "elsewhere" / f"{name}.kperf") for name in ("own", "run")] == [{"recorded": 2}] * 2
    assert recorded(tmp_path / "run.kperf") == {"recorded": 2}
    (child,) = tmp_path.glob("run.*.kperf")
    assert recorded(child) == {"recorded": 1}


def test_a_program_that_removes_the_capture_it_is_recorded_into(tmp_path: Path) -> None:
    record(tmp_path, f"import os\nos.remove('run.kperf')\n{RECORDS_ITSELF}")
    assert recorded(tmp_path / "own.kperf") == {"recorded": 2}


def test_a_child_that_records_itself(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(RECORDS_ITSELF)
    record(tmp_path, "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)")
    (child,) = tmp_path.glob("run.*.kperf")
    assert recorded(child) == recorded(tmp_path / "own.kperf") == {"recorded": 2}


@pytest.mark.parametrize(
    "first", ["", "import importlib.util; importlib.util.find_spec('triton')", "import torch.cuda"]
)
def test_a_child_is_recorded_whatever_looks_for_triton_first(first: str, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(f"{first}\nimport work\nwork.work(2)")
    record(tmp_path, "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)")
    (child,) = tmp_path.glob("run.*.kperf")
    assert recorded(child) == {"recorded": 2}


def test_a_forked_workers_counts_are_whole(tmp_path: Path) -> None:
    """Launches behind the last recorded one as well."""
    record(
        tmp_path,
        "import multiprocessing, work\n"
        "worker = multiprocessing.get_context('fork').Process(target=work.work, args=(10,))\n"
        "worker.start(); worker.join()",
        "--first=3",
        "--every=0",
    )
    (child,) = tmp_path.glob("run.*.kperf")
    assert recorded(child) == {"recorded": 3, "sampled-out": 7}
    assert kp.load(child).captures[0].complete


@pytest.mark.parametrize(("launches", "captures"), [(0, 1), (2, 2)])
def test_a_fork_that_runs_to_the_end_of_the_script(launches: int, captures: int, tmp_path: Path) -> None:
    program = f"import os, work\nif os.fork() == 0: work.work({launches})\nelse: os.wait(); work.work(1)"
    done = record(tmp_path, program)
    assert done.stderr.count("wrote run.kperf") == 1
    files = sorted(tmp_path.glob("*.kperf"))
    assert len(files) == captures and all(kp.load(f).captures[0].complete for f in files)
    assert recorded(tmp_path / "run.kperf") == {"recorded": 1}


def test_threads_that_threads_start_are_recorded(tmp_path: Path) -> None:
    record(
        tmp_path,
        "import threading, time, work\n"
        "def later(): time.sleep(0.3); work.work(2)\n"
        "def first(): time.sleep(0.2); threading.Thread(target=later).start()\n"
        "threading.Thread(target=first).start()",
    )
    assert recorded(tmp_path / "run.kperf") == {"recorded": 2}


@pytest.mark.parametrize("name", ["run.kperf", "run[1].kperf"])
def test_children_of_an_earlier_run_are_not_this_ones(name: str, tmp_path: Path) -> None:
    with_child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import work; work.work(1)'])"
    record(tmp_path, with_child, "-o", name)
    assert codes(tmp_path / name).count("children") == 1
    record(tmp_path, "import work; work.work(1)", "-o", name)
    assert "children" not in codes(tmp_path / name)
