"""Lists, positives and utilities against the obvious computation for one user at a time."""

import numpy as np
import pytest
import torch

from shortlist.lab.experiments.full_stage.arms import PRERANK, RETRIEVAL, STAGES
from shortlist.lab.experiments.full_stage.sizes import SIZES
from shortlist.lab.experiments.full_stage.stage_data import CELLS, StageData
from shortlist.simulate.full_stage.live_funnel import funnel_utility

SIZE = SIZES["tiny"]


@pytest.fixture
def scores(grids):
    return torch.randn(grids.label.shape, generator=torch.Generator().manual_seed(3))


def slow_lists(data, scores, masked):
    """Top 50 items and positives of every user."""
    train, test = data.splits.train, data.splits.test
    for user in range(data.grids.n_users):
        pool = set(np.flatnonzero(data.grids.in_pool[user])) if data.stage == PRERANK else set(range(300))
        known = set(train.item_id[train.positives & (train.users == user)]) if masked else set()
        left = sorted(pool - known, key=lambda item, user=user: -scores[user, item])
        yield left[:50], set(test.item_id[test.positives & (test.users == user)])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("prefix", ["", "masked "])
def test_precision_and_recall_are_those_of_sorted_candidates(stages, scores, stage, prefix) -> None:
    found = stages[stage].measured(scores)
    lists = list(slow_lists(stages[stage], scores, bool(prefix)))
    hits = [len(relevant & set(top)) for top, relevant in lists if relevant]
    assert found[f"{prefix}precision@50"] == pytest.approx(np.mean(hits) / 50)
    shares = [len(relevant & set(top[:20])) / len(relevant) for top, relevant in lists if relevant]
    assert found[f"{prefix}recall@20"] == pytest.approx(np.mean(shares))


def test_random_rows_are_the_mean_of_random_orders(stages) -> None:
    data = stages[PRERANK]
    drawn = [data.measured(torch.rand(data.candidates.shape)) for _ in range(60)]
    for column in ("precision@50", "recall@20", "masked precision@50", "ndcg_hits@20"):
        values = [one[column] for one in drawn]
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - data.random()[column]) < 4 * error


def test_oracle_lists_are_far_above_random_ones(stages) -> None:
    for data in stages.values():
        assert data.oracle()["precision@20"] > 3 * data.random()["precision@20"]


def test_utilities_are_those_of_the_live_funnel(stages, grids, scores) -> None:
    def score(table):
        return lambda users, items: np.take_along_axis(
            table[users], np.broadcast_to(items, (len(users), items.shape[-1])), 1
        )

    cascade = [score(one) for one in (scores.numpy(), grids.prerank, grids.rank)]
    found = stages[RETRIEVAL].measured(scores)
    users = np.arange(grids.n_users)
    for name, capacities in (("utility", SIZE.wide), ("tight utility", SIZE.tight)):
        slow = funnel_utility(users, grids.n_items, cascade, capacities, score(grids.utility))
        assert found[name] == pytest.approx(slow.mean(), rel=1e-5)
    assert "utility" not in stages[PRERANK].measured(scores)


def test_cells_of_one_split_are_in_no_other(grids) -> None:
    data = StageData.of(grids, SIZE, RETRIEVAL, CELLS, 0, torch.device("cpu"))
    cells = [set(zip(one.users, one.item_id, strict=True)) for one in vars(data.splits).values()]
    assert not cells[0] & cells[1]
    assert not cells[2] & (cells[0] | cells[1])


def test_columns_of_real_feedback_list_only_observed_cells(grids, scores) -> None:
    observed = np.random.default_rng(1).random(grids.label.shape) < 0.5
    known = type(grids)(**{**vars(grids), "observed": observed})
    data = StageData.of(known, SIZE, RETRIEVAL, "requests", 0, torch.device("cpu"))
    test = data.splits.test
    top = np.argsort(-np.where(observed, scores.numpy(), -np.inf), axis=1)[:, :50]
    hits = []
    for user in range(grids.n_users):
        own = set(test.item_id[test.positives & (test.users == user)]) & set(np.flatnonzero(observed[user]))
        hits += [len(own & set(top[user]))] if own else []
    assert data.measured(scores)["observed precision@50"] == pytest.approx(np.mean(hits) / 50)
