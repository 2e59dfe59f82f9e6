"""World B: completion of a rating table, and MovieLens where it is there."""

import numpy as np
import pyarrow as pa
import pytest

from shortlist.data import Catalog, Dataset, Interactions, Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.simulate.full_stage.ratings.completion import CompletionConfig, Ratings, complete
from shortlist.simulate.full_stage.ratings.movielens import MovieLensWorld, movielens_world, ratings_of

SMALL = CompletionConfig(width=4, layers=(16,), epochs=12, batch_size=256, weight_decay=0.3)


def table(seed=0, n_users=150, n_items=80, share=0.4):
    """Generated ratings 1..5 with user, item and attribute effects."""
    rng = np.random.default_rng(seed)
    groups, genres = rng.integers(0, 3, n_users), rng.integers(0, 4, n_items)
    score = (
        rng.normal(0, 0.6, (n_users, 1))
        + rng.normal(0, 0.8, n_items)
        + rng.normal(0, 0.7, (3, 4))[groups][:, genres]
    )
    noisy = np.clip(np.round(3.4 + score + rng.normal(0, 0.5, score.shape)), 1, 5).astype(np.float32)
    users, items = np.nonzero(rng.random(score.shape) < share)
    return groups, genres, users, items, noisy[users, items]


def dataset(seed=0):
    groups, genres, users, items, values = table(seed)
    events = Interactions.of(users, items, np.arange(len(users)), values, n_users=150, n_items=80)
    ids = [
        Vocabulary.of([f"{letter}{row:03d}" for row in range(count)])
        for letter, count in (("u", 150), ("i", 80))
    ]
    names = [["drama", "comedy"] if genre == 3 else [("drama", "war", "noir")[genre]] for genre in genres]
    people = pa.table({"gender": [f"g{one}" for one in groups], "age": (groups * 10).tolist()})
    return Dataset("made", ids[0], events, Catalog(ids[1], pa.table({"category": names})), people)


@pytest.fixture(scope="module")
def world():
    return movielens_world(dataset(), seed=1, config=SMALL)


def test_observed_cells_keep_the_real_rating(world) -> None:
    ratings = world.ratings
    some = np.arange(0, len(ratings), 7)
    users, items = ratings.users[some], ratings.items[some][:, None]
    assert (world.rating(users, items)[:, 0] == ratings.values[some]).all()
    assert world.observed(users, items).all()
    liked = ratings.values[some] >= 4
    assert (world.labels(users, items)[:, 0] == liked).all()
    assert (world.r(users, items)[:, 0] == liked).all()


def test_mask_counts_the_observed_cells_and_only_those(world) -> None:
    users, items = np.arange(world.n_users), np.arange(world.n_items)
    mask = world.observed(users, items)
    assert mask.sum() == len(world.ratings)
    r = world.r(users, items)[~mask]
    assert ((r > 0) & (r < 1)).all()


def test_missing_cells_are_fixed_and_follow_their_probability(world) -> None:
    users, items = np.arange(world.n_users), np.arange(world.n_items)
    missing, r, labels = ~world.observed(users, items), world.r(users, items), world.labels(users, items)
    assert abs(labels[missing].mean() - r[missing].mean()) < 0.02
    part = world.labels(np.array([9, 4]), np.array([[3, 70], [5, 6]]))
    assert (part == [labels[9, [3, 70]], labels[4, [5, 6]]]).all()


def test_completion_is_better_than_the_base_rate_and_calibrated(world) -> None:
    report = world.report
    assert report.auc > 0.75
    assert report.log_loss < report.base_log_loss - 0.05
    assert report.predicted == pytest.approx(report.observed, abs=0.06)
    assert report.rmse_factors < 0.9


def test_other_seed_gives_other_labels_of_missing_cells_only() -> None:
    first, other = (movielens_world(dataset(), seed, SMALL) for seed in (1, 2))
    users, items = np.arange(first.n_users), np.arange(first.n_items)
    changed = first.labels(users, items) != other.labels(users, items)
    assert changed.any()
    assert not (changed & first.observed(users, items)).any()


def test_attributes_are_one_column_per_value_and_genre() -> None:
    ratings = ratings_of(dataset())
    assert ratings.user_attributes.shape == (150, 6)
    assert (ratings.user_attributes.sum(axis=1) == 2).all()
    assert ratings.item_attributes.shape == (80, 4)
    assert set(ratings.item_attributes.sum(axis=1)) == {1.0, 2.0}


def test_implicit_data_and_too_few_ratings_are_errors() -> None:
    made = dataset()
    with pytest.raises(DataError, match='weights="use"'):
        ratings_of(Dataset("made", made.users, made.events.unweighted(), made.catalog, made.user_table))
    few = Ratings(
        np.arange(3),
        np.arange(3),
        np.ones(3, np.float32),
        np.eye(3, dtype=np.float32),
        np.eye(3, dtype=np.float32),
    )
    with pytest.raises(DataError, match="got 3 ratings"):
        complete(few)
    with pytest.raises(ConfigError, match="epochs"):
        CompletionConfig(epochs=0)


@pytest.mark.data
def test_world_from_movielens_100k(real_data) -> None:
    if not (real_data / "ml-100k").exists():
        pytest.skip("SHORTLIST_DATA holds no ml-100k")
    world = movielens_world(real_data / "ml-100k", config=CompletionConfig(epochs=2, weight_decay=0.5))
    assert isinstance(world, MovieLensWorld)
    assert (world.n_users, world.n_items, len(world.ratings)) == (943, 1682, 100_000)
    assert world.report.auc > 0.72
    assert world.report.log_loss < world.report.base_log_loss
