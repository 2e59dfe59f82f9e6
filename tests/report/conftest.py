import pytest

from shortlist.diagnose.tree.bundle import look_at_trees
from shortlist.pipeline import load_recommender
from shortlist.progress import silent


@pytest.fixture(scope="session")
def tree(tree_bundle, world):
    recommender = load_recommender(tree_bundle)
    return look_at_trees(recommender, world, world.split().test, 0, silent, users=60, k=5, beam=8)["tree"]
