"""The floor plan, enforced: a room imports itself and the rooms before it, in sight, and never code from data."""

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import shortlist

ARROW = """
errors progress settings artifact data metrics grammar models index nominate stages pipeline feedback train
evaluate diagnose simulate report tune scale serve lab testing cli __main__
"""
ROOMS = ARROW.split()
ROOT = Path(shortlist.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
NEVER = {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"}
EVERYWHERE = {"shortlist", "torch", "numpy", "scipy", "pyarrow", "safetensors", *sys.stdlib_module_names}
ONLY_IN = {
    "matplotlib": {"report", "lab"},
    "faiss": {"index"},
    "scann": {"index"},
    "ray": {"scale"},
    "numba": {"models", "index"},
    "triton": {"models"},
}
OUTSIDE = {"serve", "cli"}  # they talk to the outside, in whatever language it takes


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree):
    """Pairs (module, the node) of every import in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = (
                [f"shortlist.{alias.name}" for alias in node.names]
                if node.module == "shortlist"
                else [node.module]
            )
            yield from ((name or ".", node) for name in names)


def hidden(tree):
    """Imports inside functions and classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    inside = [node for kind in ast.walk(tree) if isinstance(kind, kinds) for node in ast.walk(kind)]
    return [node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_from_its_own_room_and_the_rooms_before_it(path):
    tree = ast.parse(path.read_text())
    assert room_of(path) in ROOMS, (
        "a room without a place in the plan; there is no utils, common, base or helpers"
    )
    assert not hidden(tree), f"line {hidden(tree)[0].lineno}: an import hides in a function"
    for name, node in imported(tree):
        root, _, rest = name.partition(".")
        assert getattr(node, "level", 0) == 0, f"line {node.lineno}: say the whole name of what is imported"
        assert root not in NEVER, f"line {node.lineno}: {root} makes code of data"
        known = EVERYWHERE | {name for name, rooms in ONLY_IN.items() if room_of(path) in rooms}
        assert root in known or room_of(path) in OUTSIDE, f"line {node.lineno}: {root} is for serve or cli"
        if root == "shortlist" and rest and not rest.startswith("__"):
            there = rest.partition(".")[0]
            assert ROOMS.index(there) <= ROOMS.index(room_of(path)), (
                f"line {node.lineno}: {there} comes later"
            )


def test_no_name_of_a_room_is_hidden_by_a_file_of_another_thing() -> None:
    """Importing `room.name` puts the file under that name: a function exported from elsewhere would be gone."""
    for folder in sorted(path.parent for path in ROOT.rglob("__init__.py")):
        room = importlib.import_module(".".join(("shortlist", *folder.relative_to(ROOT).parts)))
        for name in getattr(room, "__all__", ()):
            if (folder / f"{name}.py").exists() and not inspect.ismodule(getattr(room, name)):
                home = getattr(room, name).__module__
                assert home == f"{room.__name__}.{name}", f"{room.__name__}: {name} comes from {home}"
