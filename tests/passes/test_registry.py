"""Finding passes by name, entry point and file; patching; keys."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import kperfir as kp
from kperfir.errors import PlanError
from kperfir.passes import registry
from kperfir.passes.patched import passes_for
from kperfir.passes.registry import absolute, bind

TWO = """
import kperfir as kp

class First(kp.Pass):
    name = "first"
    at = "ttgir:before-place"
    def __init__(self, what="x"): self.what = what
    def run(self, module, context): pass

class Second(kp.Pass):
    name = "second"
    def run(self, module, context): pass
"""


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    yield
    kp.unpatch()


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


class Own(kp.Pass):
    name = "own"

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def run(self, module: Any, context: kp.PassContext) -> None: ...


def shown(passes: Any, at: str | None = None) -> list[str]:
    return [str(bound) for bound in bind(passes, at)]


def test_by_name() -> None:
    kp.register_pass(Own)
    assert shown("own") == ["Pass 'own' at ttgir:after-place"]
    assert shown("own", "llvm") == ["Pass 'own' at llvm:before-lower"]


def test_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint("theirs", f"{__name__}:Own", group), EntryPoint("gone", "no.such:Thing", group)]

    monkeypatch.setattr(registry, "entry_points", points)
    assert shown("theirs") == ["Pass 'own' at ttgir:after-place"]
    with pytest.raises(PlanError, match=r"entry point 'gone' = no.such:Thing cannot be loaded: ModuleNotFoundError"):
        bind("gone")
    with pytest.raises(PlanError, match=r"no pass 'nix'. Known are: gone, theirs"):
        bind("nix")


def test_by_file(two: Path) -> None:
    both = ["Pass 'first' at ttgir:before-place", "Pass 'second' at ttgir:after-place"]
    assert shown(str(two)) == both
    assert shown(f"{two}:Second") == both[1:]
    (given,) = bind(f"{two}:First=a=b")
    assert vars(given.user_pass) == {"what": "a=b"}


def test_a_name_holds_in_other_folders(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(two.parent)
    assert absolute("two.py:First=b") == f"{two}:First=b"
    assert absolute("two.py") == str(two) and absolute("own=b") == "own=b"


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("none.py", "no file 'none.py'"),
        ("two.py:Third", "no class 'Third'. It has: First, Second"),
        ("two.py:Second=x", "Pass 'second' cannot be made: TypeError"),
        ("two.py:Second=x", r"\w\. Give it what"),
        (int, "<class 'int'> is no pass"),
        (Own((_LOOP := [], _LOOP.append(_LOOP))), "holds a tuple as 'value'"),
        (type("Listed", (Own,), {"name": "listed", "at": []}), r"Pass 'listed': \[\] is no point"),
        (type("Sourced", (Own,), {"name": "sourced", "sources": ("json",)}), "'sourced' has 'json' among its sources"),
        (Own(object()), "holds a object as 'value'"),
    ],
)
def test_what_cannot_be_bound(two: Path, monkeypatch: pytest.MonkeyPatch, passes: Any, message: str) -> None:
    monkeypatch.chdir(two.parent)
    with pytest.raises(PlanError, match=message):
        bind(passes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1/0", "cannot be loaded: ZeroDivisionError: division by zero. Repair"),
        ("x = 1", "defines no pass"),
        ("import sys; sys.exit(0)", "bad.py' cannot be loaded: SystemExit: 0. Repair"),
        ("raise KeyboardInterrupt", "bad.py' cannot be loaded: KeyboardInterrupt. Repair"),
        (TWO + "    def __init__(self): raise SystemExit", "Pass 'second' cannot be made: SystemExit. Give"),
        (TWO.replace('"second"', '"first"'), "two passes called 'first': First and Second"),
        (
            "import kperfir as kp; kp.patch('none.py')",
            r"cannot be loaded: There is no file 'none.py' [^:]*\. Check the path",
        ),
    ],
)
def test_files_without_passes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(PlanError, match=message):
        bind(str(tmp_path / "bad.py"))


def test_no_such_point() -> None:
    with pytest.raises(PlanError, match=r"'ptx' is no point .*ttgir:before-place"):
        bind(Own, "ptx")


def test_two_passes_of_one_name_are_refused_and_a_class_defined_anew_is_not() -> None:
    def define() -> type[kp.Pass]:
        class Same(kp.Pass):
            name = "own"

            def run(self, module: Any, context: kp.PassContext) -> None: ...

        return Same

    kp.register_pass(define())
    newer = kp.register_pass(define())
    assert type(bind("own")[0].user_pass) is newer
    with pytest.raises(PlanError, match="Two passes are called 'own'"):
        kp.register_pass(Own)


@pytest.mark.parametrize("name", ["", "a b", None])
def test_a_name_that_cannot_be_used(name: Any) -> None:
    cls = type("Bad", (kp.Pass,), {"name": name, "run": lambda *_: None, "__module__": __name__})
    with pytest.raises(PlanError, match="has no name that can be used"):
        kp.register_pass(cls)


def test_the_key_differs_by_source_state_and_point(two: Path) -> None:
    keys = [bind(f"{two}:First")[0].key, bind(f"{two}:First=y")[0].key, bind(f"{two}:First", "ttgir")[0].key]
    two.write_text(TWO.replace("pass\n", "return None\n"))
    keys.append(bind(f"{two}:First")[0].key)
    assert len(set(keys)) == 4
    two.write_text(TWO)
    assert bind(f"{two}:First")[0].key == keys[0]


def test_the_key_differs_by_the_file_of_a_base_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "base_of_passes.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "derived.py").write_text(
        "from base_of_passes import Base\nclass Derived(Base):\n    name = 'derived'\n"
    )

    def key(text: str) -> str:
        base.write_text(f"import kperfir as kp\nclass Base(kp.Pass):\n    def run(self, module, context): {text}\n")
        monkeypatch.delitem(sys.modules, "base_of_passes", raising=False)
        importlib.invalidate_caches()
        return bind(str(tmp_path / "derived.py"))[0].key

    keys = [key("pass"), key("return None"), key("pass")]
    assert keys[0] == keys[2] != keys[1]


def test_code_without_a_file_is_never_the_same() -> None:
    def key() -> str:
        scope = {"__name__": "nowhere"}
        exec(TWO, scope)
        return bind(scope["Second"])[0].key  # type: ignore[arg-type]

    assert key() != key()


# --- patch and unpatch


def test_patch_takes_kernels_by_pattern() -> None:
    kp.patch(Own, kernels=["mat*", "!matvec"])
    kp.patch(Own("b"), at="ttgir:before-place")
    assert [len(passes_for(name)) for name in ("matmul", "matvec", "add")] == [2, 1, 1]
    kp.patch(Own("b"), at="ttgir:before-place")
    assert len(passes_for("add")) == 1
    kp.unpatch()
    assert passes_for("matmul") == ()


def test_a_patch_that_fails_changes_nothing() -> None:
    with pytest.raises(PlanError, match="no pass 'nix'"):
        kp.patch([Own, "nix"])
    assert passes_for("add") == ()
