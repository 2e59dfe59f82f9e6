"""Four nominators of one data set and seed, and what a split of a budget over them finds before and after a ranker."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Dataset
from shortlist.grammar import Stage
from shortlist.metrics.ranking import ndcg, recall
from shortlist.nominate import Split
from shortlist.nominate.split_gate import SplitGate
from shortlist.pipeline import TYPES, Recipe
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.auto.large import SETTINGS as TREE
from shortlist.train.auto.parts import nominator
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.folds import Fold, Folds
from shortlist.train.pipeline import context_of
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.rankers.training_data.out_of_fold import held_out_requests, request_batches
from shortlist.train.registry import TRAINERS
from shortlist.train.split.gate import fit_gate
from shortlist.train.split.ranks import TargetRanks, ranks_in_pool

NOMINATORS = ("tree", "nearest", "covisit", "popular")
SPLIT = "split"
EVERY = 10**9
SHOWN = 10  # items of a slate
METRICS = ("recall of the pool", f"ndcg@{SHOWN}", "candidates", "nominations")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a trial."""

    budget: int = 200
    requests: int = (
        4000  # out-of-fold requests: limits are learned from them, and rankers are trained on them
    )
    folds: int = 4
    tree_epochs: int = 5
    tower_epochs: int = 4
    ranker_epochs: int = 20
    width: int = 200  # length of every list


@dataclass(eq=False)
class BudgetTrial:
    """Nominators fitted out of fold and on all training events, with lists of full length."""

    dataset: Dataset
    sizes: Sizes
    seed: int

    @cached_property
    def folds(self) -> Folds:
        """Training requests with the candidates of nominators that never saw their targets."""
        return self._work.folds(self._context, self._split)

    @cached_property
    def test(self) -> tuple[RequestBatch, ...]:
        """Requests of test users with the candidates of nominators fitted on all training events."""
        requests = held_out_requests((self._split.test,), self.seed, EVERY)
        fold = Fold(self._stages, tuple(request_batches(requests)))
        return self._work.nominated(Folds((fold,), self._split.train)).parts[0].batches

    @cached_property
    def learned_from(self) -> TargetRanks:
        """Ranks of the targets of training requests."""
        return ranks_in_pool(self.folds.batches(self.seed), NOMINATORS)

    @cached_property
    def tested_on(self) -> TargetRanks:
        """Ranks of the relevant items of test users."""
        return ranks_in_pool(self.test, NOMINATORS)

    @cached_property
    def gate(self) -> SplitGate:
        """A gate of the nominators, from the events without the targets of training requests."""
        return fit_gate(self.folds.batches(self.seed), NOMINATORS, self.folds.events, self.seed)

    def measured(self, split: Split) -> Tensor:
        """Recall of the pool, NDCG after a ranker that is trained on such pools, and two counts [4, C].

        The counts are those of distinct candidates within the limits, and of all nominations of these.
        """
        rank = self._ranker(split)
        return torch.cat([self._metrics(one, split, rank) for one in self.test], dim=1)

    def _metrics(self, batch: RequestBatch, split: Split, rank: Stage) -> Tensor:
        with torch.no_grad():
            pool = split(batch.query, batch.found)
            slate = rank(batch.query, pool)
        raw, distinct = self._counts(batch, split)
        items, shown = (one.items.masked_fill(~one.valid, -1) for one in (pool, slate))
        return torch.stack(
            [
                recall(items, batch.targets, self.sizes.budget),
                ndcg(shown, batch.targets, SHOWN),
                distinct,
                raw,
            ]
        )

    def _counts(self, batch: RequestBatch, split: Split) -> tuple[Tensor, Tensor]:
        """Nominations within the limits of each request, and distinct candidates [C]."""
        own = split.rates(batch.query)
        ranks = [batch.found.columns[f"{name}.rank"] for name in split.nominators]
        named = torch.stack([one < own[:, at, None] for at, one in enumerate(ranks)]) & batch.found.valid
        return named.sum((0, 2)).to(torch.float32), named.any(0).sum(1).to(torch.float32)

    def _ranker(self, split: Split) -> Stage:
        """A ranker that is trained on what the split leaves of the out-of-fold candidates."""
        work = replace(self._work, trainers={**self._work.trainers, SPLIT: _Given(split)})
        trained, _ = work.fit_later(self.folds, self._context)
        fitted = replace(self._context, fitted=self._stages)
        steps = work.parsed({name: work.renewed(name, one, fitted) for name, one in trained.items()}).stages
        return steps[2].sized(SHOWN)

    @cached_property
    def _stages(self) -> dict[str, Stage]:
        warm = self.folds.parts[0].stages
        return self._work.fit(self._work.early, replace(self._context, warm=warm))

    @cached_property
    def _work(self) -> PipelineTrainer:
        return PipelineTrainer.of(self._recipe(), TYPES, TRAINERS)

    @cached_property
    def _split(self) -> Any:
        return self.dataset.split()

    @cached_property
    def _context(self) -> TrainContext:
        return context_of(self.dataset, self._split, self.seed)

    def _recipe(self) -> Recipe:
        sizes = self.sizes
        pool = " + ".join(f"{name} % {sizes.width}" for name in NOMINATORS)
        tree = {**TREE, "epochs": sizes.tree_epochs}
        return Recipe(
            "budget",
            f"{pool} >> split % {sizes.budget} >> rank % {SHOWN}",
            {
                "tree": nominator("tree", tree, beam=sizes.width),
                "nearest": nominator("two-tower", {"epochs": sizes.tower_epochs}),
                "covisit": nominator("co-visit"),
                "popular": nominator("popular"),
                SPLIT: StageConfig(SPLIT),
                "rank": StageConfig("feature-ranker", {}, {"epochs": sizes.ranker_epochs}),
            },
            {"requests": sizes.requests, "folds": sizes.folds},
        )


@dataclass(frozen=True)
class _Given:
    """A trainer of a split that was learned before."""

    stage: Split

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Stage:
        return replace(self.stage, name=str(settings["name"]))
