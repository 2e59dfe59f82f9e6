"""Parse a pipeline expression without running it as code."""

import ast
from collections.abc import Callable, Mapping

from shortlist.errors import ConfigError, GrammarError
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.pipeline.guards import Optional, Within

GUARDS = ("Optional", "Within")


def parse(text: str, stages: Mapping[str, Stage], where: str = "pipeline") -> Pipeline:
    """The pipeline of an expression over these stages."""
    try:
        return as_pipeline(_stage(_tree(text, where).body, stages, where))
    except GrammarError as error:
        raise ConfigError(f"{where}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: is nested too deeply") from error


def names_in(text: str, where: str = "pipeline") -> list[str]:
    """The names of the stages in an expression, in order."""
    names = [node for node in ast.walk(_tree(text, where)) if isinstance(node, ast.Name)]
    ordered = sorted(names, key=lambda node: (node.lineno, node.col_offset))
    return [node.id for node in ordered if node.id not in GUARDS]


def _tree(text: str, where: str) -> ast.Expression:
    try:
        return ast.parse(f"({text.strip()}\n)", mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ConfigError(
            f"{where}: expected stages joined by + % >>, got {text.strip()[:200]!r} ({reason})"
        ) from error


def _stage(node: ast.expr, stages: Mapping[str, Stage], where: str) -> Stage:
    if isinstance(node, ast.Name):
        return _stage_called(node.id, stages, where)
    if isinstance(node, ast.Call):
        return _guard(node, stages, where)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _stage(node.left, stages, where) % _number(node.right, where)
    if isinstance(node, ast.BinOp) and type(node.op) in _JOINS:
        join = _JOINS[type(node.op)]
        return join(_stage(node.left, stages, where), _stage(node.right, stages, where))
    hint = "; write >> for >" if isinstance(node, ast.Compare) else ""
    raise ConfigError(f"{where}: expected stages joined by + % >>, got {ast.unparse(node)!r}{hint}")


_JOINS: Mapping[type[ast.operator], Callable[[Stage, Stage], Stage]] = {
    ast.Add: lambda left, right: left + right,
    ast.RShift: lambda left, right: left >> right,
}


def _stage_called(name: str, stages: Mapping[str, Stage], where: str) -> Stage:
    if name not in stages:
        raise ConfigError(
            f"{where}: stage {name!r} has no [stages.{name}]; known are {', '.join(stages) or 'none'}"
        )
    return stages[name]


def _guard(node: ast.Call, stages: Mapping[str, Stage], where: str) -> Stage:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    settings = {keyword.arg: keyword.value for keyword in node.keywords}
    expected = {"Optional": set[str](), "Within": {"ms"}}.get(name)
    if expected is None or len(node.args) != 1 or set(settings) != expected:
        raise ConfigError(
            f"{where}: expected Optional(stage) or Within(stage, ms=30), got {ast.unparse(node)!r}"
        )
    inner = _stage(node.args[0], stages, where)
    return Within(inner, ms=_number(settings["ms"], where)) if name == "Within" else Optional(inner)


def _number(node: ast.expr, where: str) -> int:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        return node.value  # type: ignore[return-value]
    raise ConfigError(f"{where}: expected a number, got {ast.unparse(node)!r}")
