"""A nominator inside a pool: its own order, the pool's items, as many as fit."""

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError, GrammarError
from shortlist.grammar import Nominator
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.nominate import CoVisit, InPool, ModelNominator, Popular, Repeat
from shortlist.testing import check_stage

A = 60


def factorised(**settings):
    torch.manual_seed(0)
    model = MF(MFConfig(n_items=A, n_users=0, width=4))
    model.finish(torch.zeros(0, dtype=torch.bool))
    return ModelNominator(model.eval(), **settings)


def popular():
    return Popular(
        torch.randperm(A, generator=torch.Generator().manual_seed(1)), torch.linspace(1, 0.1, A) / A
    )


def covisit():
    random = torch.Generator().manual_seed(2)
    neighbours = torch.stack([torch.randperm(A, generator=random)[:8] for _ in range(A)])
    return CoVisit(neighbours, torch.rand(A, 8, generator=random))


POOL = torch.arange(A) % 7 == 3
INNER = {"model": factorised, "popular": popular, "co-visit": covisit, "repeat": Repeat}


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_any_nominator_in_a_pool_is_a_stage_and_comes_back_from_its_tensors(inner):
    stage = InPool(inner(), POOL, limit=6)
    check_stage(stage, A)
    again = InPool.build(stage.settings(), stage.tensors())
    query = Query.of([[1, 2, 3], [], [10, 17]])
    assert torch.equal(again.nominate(query).items, stage.nominate(query).items)
    check_stage(again, A)
    again.check_catalogue(A, ())


def test_it_returns_the_best_of_the_pool_in_the_order_of_the_nominator():
    query = Query.of([[1, 2, 3], [9], [30, 31]])
    stage = InPool(factorised(), POOL, limit=5)
    every = factorised(limit=A)(query, Candidates.none(3)).items
    expected = torch.stack([row[POOL[row]][:5] for row in every])
    assert torch.equal(stage.nominate(query).items, expected)


def test_a_small_pool_is_returned_whole():
    pool = torch.zeros(A, dtype=torch.bool)
    pool[[4, 50]] = True
    found = InPool(popular(), pool, limit=10).nominate(Query.of([[1], []]))
    assert found.valid.sum(1).tolist() == [2, 2]
    assert set(found.items[found.valid].tolist()) == {4, 50}


def test_a_pool_of_all_items_changes_nothing():
    query = Query.of([[1, 2], []])
    whole = InPool(factorised(), torch.ones(A, dtype=torch.bool), limit=9)(query, Candidates.none(2))
    alone = factorised(limit=9)(query, Candidates.none(2))
    assert torch.equal(whole.items, alone.items)
    assert torch.equal(whole.scores, alone.scores)


def test_it_asks_for_more_items_only_where_they_are_needed():
    asked = []

    class Counting(Nominator):
        def nominate(self, query):
            asked.append((len(query), self.limit))
            # Items of the pool come first for request 0 and last for request 1.
            order = torch.argsort(POOL.int(), stable=True)
            rows = [order.flip(0) if user == 0 else order for user in query.user.tolist()]
            return Candidates.of(torch.stack(rows), torch.arange(A, 0, -1.0).expand(len(query), -1)).best(
                self.limit
            )

    found = InPool(Counting(), POOL, limit=3).nominate(Query.of([[1], [2]], users=[0, 1]))
    assert asked[0] == (2, 20)
    assert all(count == 1 for count, _ in asked[1:])
    assert asked[-1][1] == A
    assert bool(POOL[found.items].all())


def test_scores_outside_the_pool_are_missing():
    query, items = Query.of([[1, 2]]), torch.tensor([[3, 4]])
    scores = InPool(factorised(), POOL).item_columns(query, items)["score"]
    assert scores[0, 0] == factorised().item_columns(query, items)["score"][0, 0]
    assert bool(scores[0, 1].isnan())


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"a pool with at least one item.*with 0 items"):
        InPool(popular(), torch.zeros(A, dtype=torch.bool))
    with pytest.raises(ConfigError, match="do not hold inside a pool"):
        InPool(factorised(serving_noise=0.1), POOL)
    with pytest.raises(ArtifactError, match="'pool'"):
        InPool(popular(), POOL[:-1]).check_catalogue(A, ())

    class Mine(Nominator):
        def nominate(self, query):
            return Candidates.none(len(query))

    with pytest.raises(ConfigError, match="Mine has no stored form inside a pool"):
        InPool(Mine(), POOL).tensors()
    with pytest.raises(GrammarError, match="cannot score the pool"):
        InPool(Mine(), POOL, score_pool=True)
    stage = InPool(popular(), POOL)
    broken = {**stage.tensors(), "about": InPool(Repeat(), POOL).tensors()["about"][:3]}
    with pytest.raises(ArtifactError, match="is not JSON"):
        InPool.build(stage.settings(), broken)


def test_a_nominator_that_returns_nothing_returns_nothing_in_a_pool():
    found = InPool(Repeat(), POOL).nominate(Query.of([[], []]))
    assert not bool(found.valid.any())
