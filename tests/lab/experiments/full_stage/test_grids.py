"""Grids of both worlds."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.full_stage import grids as module
from shortlist.lab.experiments.full_stage.grids import digest, grids_of, movielens_grids
from shortlist.lab.experiments.full_stage.sizes import MOVIELENS, SIZES, Budget
from shortlist.simulate.full_stage.make_short_video import make_short_video
from shortlist.simulate.full_stage.ratings.movielens import movielens_world

TINY = SIZES["tiny"]


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """A folder with 60 users, 80 films and 40 % of their ratings, in the format of MovieLens-1M."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "ml").mkdir()
    rng = np.random.default_rng(0)
    liked = rng.normal(0, 1, 80)
    lines = [
        f"{user + 1}::{item + 1}::{int(np.clip(round(3.4 + liked[item] + rng.normal(0, 0.5)), 1, 5))}::{item}"
        for user, item in zip(*np.nonzero(rng.random((60, 80)) < 0.4), strict=True)
    ]
    (folder / "ml" / "ratings.dat").write_text("\n".join(lines) + "\n")
    people = (f"{user + 1}::{'FM'[user % 2]}::{25 + user % 3}::1::00000" for user in range(60))
    (folder / "ml" / "users.dat").write_text("\n".join(people) + "\n")
    films = (f"{item + 1}::Film {item} (1999)::{('Drama', 'War')[item % 2]}" for item in range(80))
    (folder / "ml" / "movies.dat").write_text("\n".join(films) + "\n")
    return folder


def test_grids_of_world_a_are_those_of_the_world(grids) -> None:
    world = make_short_video("tiny", 0)
    users, items = np.arange(world.shape.block_users), np.arange(world.n_items)
    assert np.array_equal(grids.label, world.labels(users, items))
    assert np.allclose(grids.utility, world.r(users, items))
    assert np.array_equal(grids.in_pool, world.seen(users, items) | world.in_block(users, items))
    assert not grids.observed.size


def test_pools_have_the_values_of_their_cells(grids) -> None:
    scored = grids.pools()
    users, items = scored.pools.users, scored.pools.item
    assert grids.in_pool[users, items].all()
    assert len(items) == grids.in_pool.sum()
    assert np.array_equal(scored.rank, grids.rank[users, items])
    assert np.array_equal(scored.label, grids.label[users, items])


def test_grids_are_built_once(grids, grids_folder, monkeypatch) -> None:
    monkeypatch.setattr(module, "short_video_grids", None)
    again = grids_of("tiny", 0, grids_folder, "cpu")
    assert all(
        np.array_equal(one, other)
        for one, other in zip(vars(again).values(), vars(grids).values(), strict=True)
    )


def test_another_budget_needs_no_other_grids() -> None:
    assert digest(replace(TINY, budget=Budget(1, 1, 1))) == digest(TINY)
    assert digest(replace(TINY, n_train=3)) != digest(TINY)


def test_world_b_has_the_users_with_the_most_ratings(ratings) -> None:
    size = replace(TINY, shape="ml", users=20, pool_share=0.3)
    found = movielens_grids(size, 1, ratings, "cpu")
    world = movielens_world(ratings / "ml", 1)
    counts = np.sort(np.bincount(world.ratings.users))[::-1][:20]
    assert np.array_equal(np.sort(found.observed.sum(axis=1))[::-1], counts)
    assert (found.in_pool | ~found.observed).all()
    assert found.in_pool.mean() > found.observed.mean()
    assert np.isin(found.utility[found.observed], (0.0, 1.0)).all()
    assert np.array_equal(found.label[found.observed], found.utility[found.observed] == 1)


def test_world_b_needs_its_ratings(tmp_path) -> None:
    with pytest.raises(ConfigError, match="needs --data"):
        grids_of(MOVIELENS, 0, tmp_path, "cpu")
