"""While nothing records, the words of `kl` leave no trace in a binary.

The same files are compiled with them and without them, in processes and caches of their own, at the same path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = (HERE / "words_kernels.py", ROOT / "examples" / "kernels.py", ROOT / "tests" / "corpus" / "gluon_kernels.py")

Binaries = dict[str, dict[str, str]]


def without_words(text: str) -> str:
    """A file without its words: their lines go, and what stood inside a `with` moves left."""
    kept: list[str] = []
    left_of: list[int] = []
    for line in text.split("\n"):
        code = line.lstrip()
        indent = len(line) - len(code)
        while code and left_of and indent <= left_of[-1]:
            left_of.pop()
        if code.startswith("with kl."):
            left_of.append(indent)
        elif not code.startswith(("kl.", "import kperfir")):
            kept.append(line[4 * len(left_of) :])
    return "\n".join(kept)


def compiled(folder: Path, words: bool, lines: bool, targets: tuple[int, ...]) -> Binaries:
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    shutil.copy(HERE / "compile_all.py", source)
    for file in FILES:
        text = file.read_text()
        assert "kl." in text
        (source / file.name).write_text(text if words else without_words(text))
    environment = os.environ | {
        "TRITON_CACHE_DIR": str(folder / f"cache-{words}-{lines}"),
        "TRITON_DISABLE_LINE_INFO": "0" if lines else "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    command = [sys.executable, str(source / "compile_all.py"), *map(str, targets)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_text_without_words_has_none() -> None:
    text = without_words(FILES[0].read_text())
    assert "kl." not in text and "kperfir" not in text
    assert "    return row / tl.sum(row, 0)\n" in text and "            row = tl.exp" not in text


@pytest.mark.parametrize(
    ("lines", "targets", "what"),
    [(False, (80, 90), "cubin"), (True, (80, 90), "sass"), (True, (100,), "ptx")],
    ids=["without-line-info-the-cubin", "with-line-info-the-sass", "sm_100-the-ptx"],
)
def test_binaries_are_the_same(lines: bool, targets: tuple[int, ...], what: str, tmp_path: Path) -> None:
    with_words, without = (compiled(tmp_path, words, lines, targets) for words in (True, False))
    assert with_words.keys() == without.keys() and len(with_words) >= 5 * len(targets)
    assert [name for name in without if with_words[name][what] != without[name][what]] == []
    assert all(len(found[what]) > 60 for found in without.values())


def test_a_changed_kernel_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: another constant in one kernel changes all three."""
    before = compiled(tmp_path, True, True, (90,))
    changed = tmp_path / FILES[0].name
    changed.write_text(FILES[0].read_text().replace("total * 2", "total * 3"))
    monkeypatch.setattr(sys.modules[__name__], "FILES", (changed, *FILES[1:]))
    after = compiled(tmp_path, True, True, (90,))
    different = {name for name in before if all(before[name][k] != after[name][k] for k in before[name])}
    assert different == {"words sm_90"}
