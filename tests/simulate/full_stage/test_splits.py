"""Splits by request and by cells."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.full_stage.pools import pools_of
from shortlist.simulate.full_stage.splits import make_cell_splits, make_splits
from shortlist.simulate.full_stage.static_requests import RequestSizes, ScoredPools

SIZES = RequestSizes(100, 40, 20)


@pytest.fixture(scope="module")
def pools():
    rng = np.random.default_rng(1)
    made = pools_of(np.arange(6), [rng.random((6, 400)) < 0.5])
    scores = rng.standard_normal((2, len(made.item))).astype(np.float32)
    return ScoredPools(made, scores[0], scores[1], rng.random(len(made.item)) < 0.6)


def cells(requests, keep=slice(None)):
    return set(zip(requests.users[keep].tolist(), requests.item_id[keep].tolist(), strict=True))


def test_test_positives_are_absent_from_every_train_and_validation_request(pools) -> None:
    """Spec test 30."""
    splits = make_splits(pools, SIZES, n_train=4, seed=2)
    test, validation = (cells(one, one.positives) for one in (splits.test, splits.validation))
    assert test
    assert validation
    assert not test & (cells(splits.train) | cells(splits.validation))
    assert not validation & cells(splits.train)
    assert len(splits.train) == 24


def test_same_seed_gives_the_same_splits(pools) -> None:
    """Spec test 30."""
    first, again = (make_splits(pools, SIZES, seed=2) for _ in range(2))
    assert (first.train.item_id == again.train.item_id).all()
    assert (first.test.item_id == again.test.item_id).all()


def test_cell_split_hides_held_out_cells_but_keeps_drawing_them(pools) -> None:
    splits = make_cell_splits(pools, SIZES, n_train=6, seed=2)
    parts = [cells(one) for one in (splits.test, splits.validation, splits.train)]
    assert not parts[0] & parts[1]
    assert not parts[2] & (parts[0] | parts[1])
    assert (splits.train.drawn == 100).all()
    share = len(splits.train.item_id) / (36 * 80)
    assert 0.6 < share < 0.8  # 70 % of the cells; the others were drawn and dropped


def test_cell_split_holds_out_positives_and_negatives_alike(pools) -> None:
    test = make_cell_splits(pools, SIZES, seed=5, test_share=0.4).test
    assert {-1, 0, 1} == set(test.y.tolist())


def test_impossible_shares_and_counts_are_errors(pools) -> None:
    with pytest.raises(ConfigError, match="sum below 1"):
        make_cell_splits(pools, SIZES, test_share=0.95)
    with pytest.raises(ConfigError, match="at least 1 train request"):
        make_splits(pools, SIZES, n_train=0)
