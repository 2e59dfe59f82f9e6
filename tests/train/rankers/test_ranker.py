"""The trainer of all rankers, with a toy ranker that has one parameter per item."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shortlist.data import Candidates, Catalog, Interactions, Query, Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline.about import TrainingHistory
from shortlist.stages.calibrated import Calibrated
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.loop.losses import listwise_loss
from shortlist.train.rankers.ranker import NetworkRankerTrainer, RankerTrainer, ranking_loss
from shortlist.train.rankers.training_data.training_set import MODES, NEGATIVES, RankingLists, TrainingSet
from tests.train.rankers.test_training_set import N, batch_of, training_set


class Table(nn.Module):
    """A score for every item."""

    def __init__(self) -> None:
        super().__init__()
        self.worth = nn.Parameter(torch.zeros(N))


@dataclass(frozen=True, eq=False, repr=False)
class TableScorer(Calibrated):
    table: Table

    def raw(self, query: Query, found: Candidates) -> Tensor:
        return self.table.worth[found.items.clamp(min=0)]


@dataclass(frozen=True)
class TableTrainer(NetworkRankerTrainer):
    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> TableScorer:
        return TableScorer(Table(), **settings)

    def network(self, stage: TableScorer) -> Table:
        return stage.table


def context(batches: tuple[RequestBatch, ...], histories: dict[str, TrainingHistory]) -> TrainContext:
    vocabulary = Vocabulary.of([str(row) for row in range(N)])
    events = Interactions.of(np.zeros(1, int), np.zeros(1, int), np.zeros(1), None, 1, N)
    return TrainContext(events, Catalog.bare(vocabulary), batches=batches, note=histories.__setitem__)


def fit(
    trainer: RankerTrainer, batches: tuple[RequestBatch, ...]
) -> tuple[TableScorer, TrainingHistory | None]:
    histories: dict[str, TrainingHistory] = {}
    stage = trainer.fit({"name": "rank"}, context(batches, histories))
    return stage, histories.get("rank")


def test_loss_is_the_weighted_softmax_loss_of_the_targets() -> None:
    items = torch.tensor([[1, 2, 3], [4, 5, -1]])
    first = torch.tensor([[True, False, False]] * 2)
    lists = RankingLists(
        Query.of([[1], [2]]),
        Candidates.of(items, items.float()),
        first,
        torch.zeros(2, 3),
        first * torch.tensor([[1.0], [3.0]]),
    )

    def score(query: Query, found: Candidates) -> Tensor:
        return found.items.float() / 2

    slow = [
        -np.log(np.exp(0.5) / np.exp([0.5, 1, 1.5]).sum()),
        -np.log(np.exp(2) / np.exp([2, 2.5]).sum()),
    ]
    assert float(ranking_loss(score, lists)) == pytest.approx((slow[0] + 3 * slow[1]) / 4)


def test_loss_over_all_candidates_is_the_listwise_loss() -> None:
    one = training_set(negatives="all-candidates")
    batch, lists = one.training[0], one.lists(0, 0)
    assert lists is not None
    worth = torch.randn(N, generator=torch.Generator().manual_seed(0))

    def score(query: Query, found: Candidates) -> Tensor:
        return worth[found.items.clamp(min=0)]

    expected = listwise_loss(score(batch.query, batch.found), batch.is_target, batch.found.valid)
    assert float(ranking_loss(score, lists)) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_constant_targets_rank_first_in_every_mode(mode: str, negatives: str) -> None:
    batches = []
    for seed in range(10):
        one = batch_of(seed)
        items = one.found.items.clone()
        items[items == 7] = 8
        items[:, 0] = 7
        targets = torch.full_like(one.targets, -1)
        targets[:, 0] = 7
        targets[:, 1] = 9
        batches.append(RequestBatch(one.query, replace(one.found, items=items), targets))
    trainer = TableTrainer(mode=mode, negatives=negatives, n_negatives=6, epochs=5, learning_rate=0.1)
    stage, history = fit(trainer, tuple(batches))
    assert int(stage.table.worth.argmax()) in (7, 9)
    assert history is not None
    assert (history.mode, history.negatives) == (mode, negatives)
    assert history.retrieved is not None
    assert history.retrieved.recall > 0
    assert history.converged is not None


def test_low_recall_is_warned_of_with_numbers() -> None:
    batches = tuple(batch_of(seed, found=2) for seed in range(10))
    _, history = fit(TableTrainer(epochs=1), batches)
    assert history is not None
    assert any("of targets are among the candidates" in one for one in history.warnings)
    _, history = fit(TableTrainer(mode="original", epochs=1), batches)
    assert history is not None
    assert history.warnings == ()


def test_no_retrieved_target_is_refused_in_all_modes_but_original() -> None:
    batches = tuple(replace(one, found=one.found.keep(~one.is_target)) for one in map(batch_of, range(10)))
    with pytest.raises(DataError, match="mode = 'original'"):
        fit(TableTrainer(epochs=1), batches)
    fit(TableTrainer(mode="original", epochs=1), batches)


def test_ranker_without_requests_is_refused() -> None:
    with pytest.raises(ConfigError, match="rank: a ranker is trained on candidates of nominators"):
        fit(TableTrainer(), ())


@pytest.mark.parametrize("wrong", [{"mode": "other"}, {"negatives": "none"}, {"calibrate": "yes"}])
def test_unknown_choices_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="must be one of"):
        TableTrainer(**wrong)  # type: ignore[arg-type]


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="epochs"):
        TableTrainer(epochs=0)
