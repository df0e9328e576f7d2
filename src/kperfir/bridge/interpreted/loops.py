"""Loops of interpreted kernels announce themselves.

for i in X:   becomes   for i in _kperfir_loop(X):
while C:      becomes   for _ in _kperfir_loop(None, lambda: C):

A condition that assigns (`while (x := ...)`) could not do so from inside a function;
its loop stays as it is, and is not announced.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from triton.runtime import interpreter

from kperfir import language
from kperfir.bridge.interpreted.recorder import Recorder
from kperfir.bridge.replaced import replaced, wrapped

_FLAG = "_kperfir_loop"
_TURN = "_kperfir_turn"


def has_loop(fn: Any, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a rewritten kernel, or an interpreted helper that it names, loops."""
    names = set(fn.__code__.co_names)
    if _FLAG in names:
        return True
    for name in names - seen:
        helper = fn.__globals__.get(name)
        if isinstance(helper, interpreter.InterpretedFunction) and has_loop(helper.rewrite(), seen | names):
            return True
    return False


@contextmanager
def loops_announced() -> Iterator[None]:
    """Kernels rewritten meanwhile announce their loops; those rewritten before are rewritten again."""
    touched: list[dict[str, Any]] = []

    def with_loop(original: Callable[..., Any], rewriter: Any, tree: ast.AST) -> Any:
        fn = original(rewriter, tree)
        fn.__globals__.setdefault(_FLAG, _loop)
        touched.append(fn.__globals__)
        return fn

    try:
        with (
            replaced(interpreter.InterpretedFunction, "rewritten_fn", {}),
            replaced(interpreter.ASTTransformer, "visit_For", _visit_for),
            replaced(interpreter.ASTTransformer, "visit_While", _visit_while),
            wrapped(interpreter.FunctionRewriter, "_compile_and_exec", with_loop),
        ):
            yield
    finally:
        for names in touched:
            names.pop(_FLAG, None)


def _visit_for(transformer: ast.NodeTransformer, node: ast.For) -> ast.AST:
    transformer.generic_visit(node)
    node.iter = _call(node, node.iter)
    return node


def _visit_while(transformer: ast.NodeTransformer, node: ast.While) -> ast.AST:
    transformer.generic_visit(node)
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)):
        return node
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    call = _call(node, ast.Constant(None), ast.Lambda(nothing, node.test))
    target = ast.Name(id=_TURN, ctx=ast.Store())
    loop = ast.For(target=target, iter=call, body=node.body, orelse=node.orelse)
    return ast.fix_missing_locations(ast.copy_location(loop, node))


def _call(place: ast.stmt, *arguments: ast.expr) -> ast.expr:
    call = ast.Call(func=ast.Name(id=_FLAG, ctx=ast.Load()), args=list(arguments), keywords=[])
    return ast.fix_missing_locations(ast.copy_location(call, place))


def _loop(iterable: Iterable[Any] | None, condition: Callable[[], Any] | None = None) -> Iterator[Any]:
    """What a loop of an interpreted kernel runs over."""
    items = _while(condition) if iterable is None and condition is not None else iterable
    assert items is not None
    recorder = language.active.get()
    if not isinstance(recorder, Recorder) or not recorder.programs:
        return iter(items)
    frame = sys._getframe(1)
    return _announced(recorder, items, frame.f_code.co_filename, frame.f_lineno)


def _while(condition: Callable[[], Any]) -> Iterator[None]:
    while condition():
        yield None


def _announced(recorder: Recorder, items: Iterable[Any], file: str, line: int) -> Iterator[Any]:
    recorder.begin_loop(file, line)
    try:
        for item in items:
            yield item
            recorder.end_body()
    finally:
        recorder.end_loop()
