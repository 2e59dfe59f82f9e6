"""Another pipeline expression: one stage more or less, or another size."""

import ast
from collections.abc import Callable

from shortlist.pipeline.expression import names_in

Change = Callable[[ast.expr], ast.expr]


def with_size(expression: str, name: str, size: int) -> str:
    """The same expression with another number after the % of a stage."""

    def change(node: ast.expr) -> ast.expr:
        if _sized(node) == name:
            return _times(node.left, size)  # type: ignore[attr-defined]
        return node

    return _text(_mapped(_parsed(expression), change))


def sizes_of(expression: str) -> dict[str, int]:
    """The number after the % of every stage that has one."""
    found = {_sized(node): node for node in ast.walk(_parsed(expression)) if _sized(node)}
    return {name: node.right.value for name, node in found.items() if name}  # type: ignore[attr-defined]


def with_nominator(expression: str, name: str, size: int) -> str:
    """The same expression with one more nominator at the end of its pool."""
    added = _times(ast.Name(name), size)

    def joined(node: ast.expr) -> ast.expr:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
            return ast.BinOp(joined(node.left), node.op, node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.BinOp):
            return ast.BinOp(joined(node.left), node.op, node.right)  # (a + b) % 100: a cut of the pool
        return ast.BinOp(node, ast.Add(), added)

    return _text(joined(_parsed(expression)))


def without_stage(expression: str, name: str) -> str | None:
    """The same expression without a stage, with slates of the same size; None if nothing else nominates."""
    tree = _parsed(expression)
    left = _removed(tree, name)
    if left is None or names_in(_text(left)) == names_in(expression):
        return None
    last = _last(tree)
    if _sized(last) == name:
        left = _resized(left, last.right.value)  # type: ignore[attr-defined]
    return _text(left)


def first_step(expression: str) -> str:
    """The nominators of an expression, with their limits."""
    node = _parsed(expression)
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
        node = node.left
    return _text(node)


def renamed(expression: str, name: str, new: str) -> str:
    """The same expression with another stage in the place of one."""

    def change(node: ast.expr) -> ast.expr:
        return ast.Name(new) if isinstance(node, ast.Name) and node.id == name else node

    return _text(_mapped(_parsed(expression), change))


def _parsed(expression: str) -> ast.expr:
    return ast.parse(f"({expression.strip()}\n)", mode="eval").body


def _text(node: ast.expr) -> str:
    return ast.unparse(node)


def _mapped(node: ast.expr, change: Change) -> ast.expr:
    """The expression with every part changed, the innermost first."""
    if isinstance(node, ast.BinOp):
        node = ast.BinOp(_mapped(node.left, change), node.op, _mapped(node.right, change))
    elif isinstance(node, ast.Call):
        node = ast.Call(node.func, [_mapped(one, change) for one in node.args], node.keywords)
    return change(node)


def _sized(node: ast.AST) -> str:
    """The name of a stage with a number after its %; empty for anything else."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)):
        return ""
    inner = node.left.args[0] if isinstance(node.left, ast.Call) else node.left
    return inner.id if isinstance(inner, ast.Name) and isinstance(node.right, ast.Constant) else ""


def _removed(node: ast.expr, name: str) -> ast.expr | None:
    """What is left of an expression without a stage; None if that was all."""
    if isinstance(node, ast.Name):
        return None if node.id == name else node
    if isinstance(node, ast.Call):
        inner = _removed(node.args[0], name)
        return None if inner is None else ast.Call(node.func, [inner], node.keywords)
    if not isinstance(node, ast.BinOp):
        return node
    left, right = _removed(node.left, name), _removed(node.right, name)
    if left is None:  # without its pool a pipeline has nothing to pass on
        return right if isinstance(node.op, ast.Add) else None
    return left if right is None else ast.BinOp(left, node.op, right)


def _last(node: ast.expr) -> ast.expr:
    return node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift) else node


def _resized(node: ast.expr, size: int) -> ast.expr:
    """The expression with another size of its last step."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
        return ast.BinOp(node.left, node.op, _resized(node.right, size))
    sized = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
    return _times(node.left if sized else node, size)  # type: ignore[attr-defined]


def _times(node: ast.expr, size: int) -> ast.expr:
    return ast.BinOp(node, ast.Mod(), ast.Constant(size))
