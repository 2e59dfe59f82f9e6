import pytest

from shortlist.diagnose.tree.bundle import diagnose_trees
from shortlist.pipeline import load_recommender


@pytest.fixture(scope="session")
def tree(tree_bundle, world):
    recommender = load_recommender(tree_bundle)
    return diagnose_trees(recommender, world, world.split().test, users=60, k=5, beam=8)["tree"]
