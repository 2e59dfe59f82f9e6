"""Stage models: scores by parts equal the network, and training predicts held-out exposed cells."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.simulate.full_stage.make_short_video import SHAPES, make_short_video
from shortlist.simulate.full_stage.pools import exposed_pools
from shortlist.simulate.full_stage.ratings.jester import JesterWorld
from shortlist.simulate.full_stage.stage_models import StageModelConfig
from shortlist.simulate.full_stage.static_requests import ScoredPools
from shortlist.simulate.full_stage.train_stage_models import (
    exposed_cells,
    fit_stage_models,
    labelled,
    train_stage_models,
)
from shortlist.simulate.full_stage.video_features import item_features, user_features

SMALL = StageModelConfig(prerank_layers=(32, 16), rank_layers=(64, 32), width=8, batch_size=512, epochs=4)


@pytest.fixture(scope="module")
def world():
    return make_short_video(replace(SHAPES["tiny"], n_users=300, n_items=400), 2)


@pytest.fixture(scope="module")
def models(world):
    return train_stage_models(world, SMALL, seed=1, device="cpu")


def test_trained_models_predict_held_out_cells(models) -> None:
    assert models.prerank_auc > 0.7
    assert models.rank_auc > 0.7


def test_scores_of_a_catalogue_a_grid_and_single_cells_agree(world, models) -> None:
    users, grid = np.array([7, 250]), np.array([[3, 399, 5], [5, 0, 3]])
    for score in (models.prerank, models.rank):
        whole = score(users, np.arange(world.n_items))
        assert whole.shape == (2, 400)
        assert np.allclose(score(users, grid), np.take_along_axis(whole, grid, 1), atol=1e-4)


def test_rank_scores_are_those_of_the_network(models) -> None:
    network = models.rank.model
    users, items = torch.tensor([1, 2]), torch.tensor([5, 6])
    with torch.no_grad():
        assert np.allclose(
            network(users, items), models.rank(np.array([1, 2]), np.array([[5], [6]]))[:, 0], atol=1e-4
        )


def test_same_seed_trains_the_same_models(world, models) -> None:
    again = train_stage_models(world, SMALL, seed=1, device="cpu")
    assert np.allclose(again.prerank.users, models.prerank.users, atol=1e-3)
    assert again.rank_auc == pytest.approx(models.rank_auc, abs=1e-3)


def test_training_cells_are_those_of_the_big_matrix_only(world) -> None:
    users = np.arange(world.n_users)
    cells, pools = exposed_cells(world, users), exposed_pools(world, users, small=False)
    assert len(cells) == len(pools.item)
    assert not np.diagonal(world.in_block(cells.users[:50], cells.items[:50])).any()
    assert (cells.labels[:20] == labelled(world.labels, cells.users[:20], cells.items[:20]).labels).all()
    assert len(exposed_cells(world, users, most=100)) == 100


def test_models_without_features_learn_from_embeddings_alone() -> None:
    utilities = np.random.default_rng(0).beta(0.3, 0.3, (1, 60)).repeat(80, axis=0).astype(np.float32)
    world = JesterWorld(utilities)
    users, items = (one.ravel() for one in np.meshgrid(np.arange(80), np.arange(60), indexing="ij"))
    none = [np.zeros((count, 0), np.float32) for count in (80, 60)]
    models = fit_stage_models(labelled(world.labels, users, items), *none, SMALL, device="cpu")
    assert models.rank_auc > 0.75


def test_pools_are_scored_cell_by_cell(world, models) -> None:
    pools = exposed_pools(world, np.arange(30, 60))
    scored = ScoredPools.of(pools, models.prerank, models.rank, world.labels)
    own = slice(pools.offsets[4], pools.offsets[5])
    user = np.array([34])
    assert np.allclose(scored.rank[own], models.rank(user, pools.item[own])[0], atol=1e-4)
    assert (scored.label[own] == world.labels(user, pools.item[own])[0]).all()


def test_features_hold_one_category_and_one_age_group_per_row(world) -> None:
    users, items = user_features(world), item_features(world)
    assert users.shape == (300, 9)
    assert items.shape == (400, 43)
    assert (users[:, :7].sum(axis=1) == 1).all()
    assert (items[:, :31].sum(axis=1) == 1).all()
    assert 0.7 < np.corrcoef(items[:, -1], world.videos.quality)[0, 1] < 0.99  # measured with noise


def test_defaults_are_those_of_the_paper() -> None:
    config = StageModelConfig()
    assert config.prerank_layers == (256, 128)
    assert config.rank_layers == (1024, 512, 256)
    assert (config.learning_rate, config.batch_size) == (1e-3, 8192)
    with pytest.raises(ConfigError, match="epochs"):
        StageModelConfig(epochs=0)


def test_too_few_held_out_cells_are_an_error(world) -> None:
    with pytest.raises(DataError, match="both labels"):
        train_stage_models(world, replace(SMALL, max_cells=10), device="cpu")
