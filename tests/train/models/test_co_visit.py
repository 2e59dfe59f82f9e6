import tracemalloc
from dataclasses import replace

import numpy as np

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.models.counting.co_visit import CoVisitTrainer, item_blocks


def context(users, items, n_items):
    events = Interactions.of(np.array(users), np.array(items), n_items=n_items)
    return TrainContext(events, Catalog.bare(Vocabulary.of(list(range(n_items)))))


def test_items_of_the_same_users_are_similar():
    stage = CoVisitTrainer(shrink=0.0).fit({"name": "c"}, context([0, 0, 1, 1, 2], [0, 1, 0, 1, 2], 4))
    assert stage.neighbour[0, 0].item() == 1
    assert stage.likeness[0, 0].item() > 0.999
    assert stage.neighbour[2].tolist() == [-1, -1, -1]  # its only user has no other item
    check_stage(stage, 4)


def test_similarities_equal_the_cosines_of_weighted_columns():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 300), rng.integers(0, 12, 300)
    stage = CoVisitTrainer(neighbours=11, shrink=0.0).fit({}, context(users, items, 12))
    dense = np.zeros((30, 12))
    dense[users, items] = 1
    dense /= np.log2(2 + dense.sum(1, keepdims=True))
    cosine = dense.T @ dense / np.outer(np.linalg.norm(dense, axis=0), np.linalg.norm(dense, axis=0))
    for item in range(12):
        for row, likeness in zip(stage.neighbour[item].tolist(), stage.likeness[item].tolist(), strict=True):
            assert row < 0 or abs(cosine[item, row] - likeness) < 1e-5


def test_only_the_last_events_of_a_user_count():
    stage = CoVisitTrainer(last=2, shrink=0.0).fit({}, context([0, 0, 0], [0, 1, 2], 3))
    assert stage.neighbour[0, 0].item() == -1
    assert stage.neighbour[1, 0].item() == 2


def test_one_item_has_no_neighbour():
    stage = CoVisitTrainer().fit({}, context([0, 1], [0, 0], 1))
    assert stage.neighbour.tolist() == [[-1]]


def test_weights_are_the_values_of_the_cosine():
    rng = np.random.default_rng(0)
    users, items, weights = rng.integers(0, 30, 300), rng.integers(0, 12, 300), rng.integers(1, 6, 300)
    plain = context(users, items, 12)
    events = Interactions.of(users, items, weights=weights, n_items=12)
    stage = CoVisitTrainer(neighbours=11, shrink=0.0).fit({}, replace(plain, events=events))
    dense = np.zeros((30, 12))
    np.maximum.at(dense, (users, items), weights)
    dense /= np.log2(2 + (dense > 0).sum(1, keepdims=True))  # a user weighs by the number of items
    cosine = dense.T @ dense / np.outer(np.linalg.norm(dense, axis=0), np.linalg.norm(dense, axis=0))
    np.fill_diagonal(cosine, 0.0)
    assert np.allclose(stage.likeness, np.sort(cosine, axis=1)[:, :0:-1], atol=1e-5)


def test_blocks_of_items_hold_no_more_similarities_than_allowed():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 200), rng.integers(0, 40, 200)
    matrix = Interactions.of(users, items, n_items=40).weighted_matrix().tocsc()
    shared = matrix.T @ matrix
    for cells in (1, 50, 200, 10_000):
        blocks = item_blocks(matrix, cells)
        assert [row for block in blocks for row in range(40)[block]] == list(range(40))
        for block in blocks:
            several = np.count_nonzero(np.diff(shared[block].indptr)) > 1
            assert not several or shared[block].nnz <= cells


def test_many_items_take_memory_by_events_not_by_pairs_of_items():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 500, 2000), rng.integers(0, 200_000, 2000)
    tracemalloc.start()
    stage = CoVisitTrainer(neighbours=5).fit({}, context(users, items, 200_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stage.neighbour.shape == (200_000, 5)
    assert peak < 150e6  # all pairs of 1,024 items would be 800 MB
