"""Fixtures that many tests share: a small world, and bundles trained on it in seconds."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from shortlist.data import Dataset, save_dataset
from shortlist.models.registry import MODELS
from shortlist.pipeline import TYPES, Recipe, Recommender, load_recommender, parse_recipe
from shortlist.pipeline.plugins import VARIABLE
from shortlist.simulate import embedded
from shortlist.train import TRAINERS, train

# One thread by default, because tests run side by side.
torch.set_num_threads(int(os.environ.get("SHORTLIST_TEST_THREADS", "1")))

SLOW = (
    "lab/",
    "cli/",
    "diagnose/",
    "report/",
    "spec/",
    "train/tree/",
    "train/jtr/",
    "index/tree/",
    "train/test_contract.py",
    "train/test_rankers.py",
    "train/rankers/test_user_states.py",
    "train/test_pipeline.py",
    "train/test_finished_stages.py",
    "train/renewal/test_refresh.py",
    "train/models/test_sequence.py",
    "index/test_registry.py",
    "index/test_faiss_index.py",
    "artifact/test_store.py",
    "evaluate/test_compare.py",
    "models/nodes/test_weight_norms.py",
    "serve/test_server.py",
    "test_docs.py",
    "test_toy_model.py",
    "test_toy_filter.py",
)
"""Folders and files that `make test-fast` leaves out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(root).as_posix()
        if any(path.startswith(slow) for slow in SLOW):
            item.add_marker(pytest.mark.slow)


TINY = """
name = "tiny"
pipeline = "popular % 40 + covisit % 60 + towers % 60 >> seen >> prerank % 80 >> rank % 40 >> diverse % 10"

[stages.popular]
type = "popular"

[stages.covisit]
type = "co-visit"

[stages.towers]
type = "two-tower"

[stages.towers.train]
width = 16
hidden = 16
epochs = 3
batch_size = 256

[stages.seen]
type = "seen"

[stages.prerank]
type = "two-tower-scorer"

[stages.prerank.train]
start = "towers"
epochs = 2

[stages.rank]
type = "feature-ranker"

[stages.rank.train]
epochs = 8

[stages.diverse]
type = "diverse"
strength = 0.1
"""

TREE = """
name = "oak"
pipeline = "tree % 30 >> seen % 20"

[stages.tree]
type = "tree"
beam = 8

[stages.tree.train]
method = "dtr-u"
scorer = "linear"
windows = [4, 2, 1, 1]
negatives = 8
batch_size = 64
rounds = 1
steps = 40
min_history = 1
device = "cpu"

[stages.seen]
type = "seen"
"""


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Forget the types and plug-ins of a test, or of an example of the docs."""
    tables: tuple[dict[str, Any], ...] = (MODELS, TYPES, TRAINERS)
    before, path = [dict(table) for table in tables], list(sys.path)
    yield
    os.environ.pop(VARIABLE, None)
    sys.path[:] = path
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)


@pytest.fixture(scope="session")
def world() -> Dataset:
    return embedded(size="small")


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return parse_recipe(TINY, "tiny.toml")


@pytest.fixture(scope="session")
def data_folder(world: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "data"
    save_dataset(world, folder, "test")
    return folder


@pytest.fixture(scope="session")
def bundle(world: Dataset, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "bundle"
    train(recipe, world, folder)
    return folder


@pytest.fixture(scope="session")
def tree_bundle(world: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grown") / "bundle"
    train(parse_recipe(TREE, "tree.toml"), world, folder)
    return folder


@pytest.fixture(scope="session")
def recommender(bundle: Path) -> Recommender:
    return load_recommender(bundle)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it skip, saying why, when it is not there."""
    folder = os.environ.get("SHORTLIST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SHORTLIST_DATA does not point at a folder of real data sets")
    return Path(folder)
