"""The floor plan, enforced: rooms import only earlier rooms, at the top of the file, and stay small."""

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import shortlist

ORDER = """
errors callable_room progress settings artifact data metrics grammar models index state nominate stages pipeline
feedback train evaluate diagnose simulate report tune scale serve lab testing cli __main__
"""
ROOMS = ORDER.split()
ROOT = Path(shortlist.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
FOLDERS = sorted({path.parent for path in FILES})
MAX_MODULES = 20
NEVER = {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"}
EVERYWHERE = {"shortlist", "torch", "numpy", "scipy", "pyarrow", "safetensors", *sys.stdlib_module_names}
ONLY_IN = {
    "matplotlib": {"report", "lab"},
    "faiss": {"index"},
    "scann": {"index"},
    "ray": {"scale"},
    "numba": {"models", "index", "simulate"},
    "triton": {"models"},
}
ANY_PACKAGE = {"serve", "cli"}  # rooms that talk to the outside
NOT_PRODUCT = {"lab", "testing", "cli", "__main__"}


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree):
    """Pairs (module, node) of every import in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"shortlist.{alias.name}" for alias in node.names]
            yield from (
                (name or ".", node) for name in (names if node.module == "shortlist" else [node.module])
            )


def late_imports(tree):
    """Imports inside functions and classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    inside = [node for kind in ast.walk(tree) if isinstance(kind, kinds) for node in ast.walk(kind)]
    return [node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_imports_only_its_own_room_and_earlier_rooms(path):
    tree, room = ast.parse(path.read_text()), room_of(path)
    assert room in ROOMS, "a room without a place in the plan; there is no utils, common, base or helpers"
    assert room == "cli" or not late_imports(tree), f"line {late_imports(tree)[0].lineno}: late import"
    for name, node in imported(tree):
        root, _, rest = name.partition(".")
        assert getattr(node, "level", 0) == 0, f"line {node.lineno}: relative import"
        assert root not in NEVER, f"line {node.lineno}: {root} executes code from data"
        known = EVERYWHERE | {package for package, rooms in ONLY_IN.items() if room in rooms}
        assert root in known or room in ANY_PACKAGE, f"line {node.lineno}: {root} is for serve or cli"
        if root == "shortlist" and rest and not rest.startswith("__"):
            other = rest.partition(".")[0]
            assert ROOMS.index(other) <= ROOMS.index(room), f"line {node.lineno}: {other} comes later"
            assert other != "lab" or room in NOT_PRODUCT, f"line {node.lineno}: the product imports lab"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_folder_has_at_most_twenty_modules(folder):
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MAX_MODULES


def test_exported_name_is_not_hidden_by_a_module_of_the_same_name() -> None:
    """Importing `room.name` binds the module: a function exported under that name from elsewhere would be gone."""
    for folder in sorted(path.parent for path in ROOT.rglob("__init__.py")):
        room = importlib.import_module(".".join(("shortlist", *folder.relative_to(ROOT).parts)))
        for name in getattr(room, "__all__", ()):
            if (folder / f"{name}.py").exists() and not inspect.ismodule(getattr(room, name)):
                home = getattr(room, name).__module__
                assert home == f"{room.__name__}.{name}", f"{room.__name__}: {name} comes from {home}"
