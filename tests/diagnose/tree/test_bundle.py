from dataclasses import replace

import pytest

from shortlist.diagnose.findings.tree import tree_findings
from shortlist.diagnose.tree.bundle import default_users, diagnose_trees, trees_of
from shortlist.diagnose.tree.diagnosis import diagnose_tree
from shortlist.pipeline import load_recommender


@pytest.fixture(scope="module")
def trained(tree_bundle):
    return load_recommender(tree_bundle)


@pytest.fixture(scope="module")
def found(trained, world):
    return diagnose_trees(trained, world, world.split().test, users=20, k=5, beam=8)


def test_trees_of_a_pipeline_are_found_by_name(trained, bundle):
    assert list(trees_of(trained)) == ["tree"]
    assert trees_of(load_recommender(bundle)) == {}


def test_every_tree_is_diagnosed_with_findings_and_the_id_of_the_traced_user(trained, world, found):
    (tree,) = found.values()
    users = world.split().test
    alone = diagnose_tree(
        trees_of(trained)["tree"].index,
        users,
        world.catalog,
        beam=8,
        k=5,
        users=20,
        exclude_seen=trees_of(trained)["tree"].exclude_seen,
    )
    assert replace(tree, findings=(), trace=replace(tree.trace, user=None)) == alone
    assert tree.findings == tree_findings(alone)
    assert tree.trace.user == world.users.id(int(users.users[tree.traced_row]))
    assert all(path.item_id == world.items.id(path.item) for path in tree.trace.paths)


def test_k_and_beam_default_to_those_of_the_tree(trained, world):
    stage = trees_of(trained)["tree"]
    tree = diagnose_trees(trained, world, world.split().test, users=3)["tree"]
    assert (tree.k, tree.beam) == (stage.limit, max(stage.beam, -(-stage.limit // tree.branch)))


def test_the_default_number_of_users_falls_with_the_size_of_the_tree():
    assert default_users(2_000) == 200
    assert default_users(1_000_000) == 20
    assert default_users(10**9) == 10
