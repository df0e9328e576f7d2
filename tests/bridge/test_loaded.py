"""Something is done once a module is loaded, whoever loads it and whoever only looks for it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kperfir.bridge.loaded import when_loaded


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "looked_for.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "looked_for", raising=False)
    return "looked_for"


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_looking_for_a_module_does_not_use_it_up(name: str, looks: int) -> None:
    acted: list[int] = []
    with when_loaded(name, lambda module: acted.append(module.value)):
        for _ in range(looks):
            assert importlib.util.find_spec(name) is not None
        assert acted == []
        importlib.import_module(name)
        importlib.import_module(name)
    assert acted == [1]


@pytest.mark.parametrize("count", [2, 3])
def test_several_wait_for_one_module(name: str, count: int) -> None:
    acted: list[int] = []
    with ExitStack() as stack:
        for number in range(count):
            stack.enter_context(when_loaded(name, lambda _, number=number: acted.append(number)))
        importlib.import_module(name)
    assert sorted(acted) == list(range(count))


def test_a_module_that_fails_once_is_awaited_still(name: str, tmp_path: Path) -> None:
    acted: list[int] = []
    (tmp_path / "looked_for.py").write_text("raise OSError")
    with when_loaded(name, lambda module: acted.append(module.value)):
        with pytest.raises(OSError):
            importlib.import_module(name)
        (tmp_path / "looked_for.py").write_text("value = 12345")
        importlib.invalidate_caches()
        importlib.import_module(name)
    assert acted == [12345]


def test_nothing_is_left_behind(name: str) -> None:
    before = list(sys.meta_path)
    with when_loaded(name, lambda _: None):
        pass
    with when_loaded("there_is_no_such_module", lambda _: None), pytest.raises(ImportError):
        importlib.import_module("there_is_no_such_module")
    assert sys.meta_path == before
