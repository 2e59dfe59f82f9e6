"""Pre-rankers and rankers, taught on the candidates they will be given."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.errors import ConfigError
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.sequence.two_tower import TwoTower
from shortlist.stages import FeatureRanker, TowerScorer
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.loop.convergence import course
from shortlist.train.loop.loop import Loop
from shortlist.train.loop.losses import listwise_loss
from shortlist.train.models.two_tower import TowerTrainer
from shortlist.train.rankers.features import counted, heard
from shortlist.train.rankers.ranker import HELD


@dataclass(frozen=True)
class TowerScorerTrainer:
    """Starts from the two-tower nominator named `start` (or from scratch), then learns on the candidates."""

    start: str = ""
    width: int = 64
    epochs: int = 20
    learning_rate: float = 5e-4
    weight_decay: float = 1e-4
    patience: int = 3

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> TowerScorer:
        towers = self._start(context, str(settings.get("name", "pre-ranker")))

        def score(round_: RequestBatch) -> Tensor:
            logits: Tensor = towers(round_.query.history, round_.found.items.clamp(min=0))
            return logits

        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience)
        _learn(towers, score, context, loop, str(settings.get("name", "pre-ranker")))
        return TowerScorer(towers, **settings)

    def _start(self, context: TrainContext, what: str) -> TwoTower:
        if not self.start:
            return TowerTrainer(width=self.width).towers(context, f"{what} towers")
        stage = context.fitted.get(self.start)
        if stage is None or "offered.weight" not in stage.tensors():
            raise ConfigError(
                f"{what}: start must name a two-tower nominator of the pipeline, got {self.start!r}"
            )
        return TwoTower.of({name: tensor.clone() for name, tensor in stage.tensors().items()})


@dataclass(frozen=True)
class FeatureRankerTrainer:
    """A network over what the nominators said and how the candidate fits; `days` is what counts as lately."""

    hidden: tuple[int, ...] = (64, 32)
    dropout: float = 0.1
    epochs: int = 30
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    patience: int = 4
    days: float = 30.0

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> FeatureRanker:
        what = str(settings.get("name", "ranker"))
        torch.manual_seed(context.seed)
        features = counted(heard(settings, context, what), context, self.days)
        network = FeatureMLP([len(features.names), *self.hidden], self.dropout)
        told = {id(r): features(r.query, r.found) for r in context.rounds}
        _set_scale(network, [told[id(r)][r.found.valid] for r in context.rounds])
        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience)
        _learn(network, lambda r: network(told[id(r)]), context, loop, what)
        kept = {name: value for name, value in settings.items() if name != "nominators"}
        return FeatureRanker(features, network, **kept)

    def renew(self, stage: FeatureRanker, context: TrainContext) -> FeatureRanker:
        """The same ranker with the counts of all events; as shares, they mean what they meant in the rehearsal."""
        return stage.renewed(features=counted(stage.features.nominators, context, self.days))


def _set_scale(network: FeatureMLP, seen: list[Tensor]) -> None:
    """Scale features by what the candidates of training had."""
    rows = torch.cat(seen)
    if len(rows) > 1:
        network.mean.copy_(rows.mean(0))
        network.scale.copy_(rows.std(0).clamp(min=1e-3))


def _learn(
    model: nn.Module, score: Callable[[RequestBatch], Tensor], context: TrainContext, loop: Loop, what: str
) -> None:
    """Learn from four rounds of five, stop by the fifth."""
    held = [r for number, r in enumerate(context.rounds) if number % HELD == HELD - 1]
    rounds = [r for number, r in enumerate(context.rounds) if number % HELD != HELD - 1]

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        for number in np.random.default_rng((context.seed, epoch)).permutation(len(rounds)):
            yield lambda r=rounds[number]: _loss(score, r)  # type: ignore[misc]

    @torch.no_grad()
    def judge() -> float:
        return -float(sum(_loss(score, r) for r in held))

    judged = loop.run(model, batches, len(rounds), what, context.progress, judge if held else None)
    context.note(what, course(judged, loop.epochs, loop.patience))


def _loss(score: Callable[[RequestBatch], Tensor], round_: RequestBatch) -> Tensor:
    return listwise_loss(score(round_), round_.wanted, round_.found.valid)
