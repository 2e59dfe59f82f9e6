"""The trainer of the two-tower scorer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import ModelNominator
from shortlist.settings import setting
from shortlist.stages import TowerScorer
from shortlist.train.context import TrainContext
from shortlist.train.loop.convergence import history_of
from shortlist.train.models.two_tower import TwoTowerTrainer
from shortlist.train.rankers.ranker import NetworkRankerTrainer, Score
from shortlist.train.rankers.training_data.training_set import TrainingSet


@dataclass(frozen=True)
class TowerScorerTrainer(NetworkRankerTrainer):
    """Two towers, initialised by a nominator of the pipeline or trained first, then trained on all candidates."""

    title: ClassVar[str] = "two-tower-scorer"
    targets_per_item: ClassVar[float] = 0.0  # item vectors are trained before, on all events

    negatives: str = "all-candidates"
    learning_rate: float = 5e-4
    start: str = setting(
        "", "Two-tower nominator whose weights the towers start from; empty to train new ones."
    )
    width: int = setting(TwoTowerConfig.width, "Width of the vectors, without start.", least=1, most=8192)

    def models_used(self) -> dict[str, type[Any]]:
        """The setting that names a nominator with a model, and the kind of model."""
        return {"start": TwoTower} if self.start else {}

    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> TowerScorer:
        return TowerScorer(self._towers(context, training_set.what), **settings)

    def network(self, stage: TowerScorer) -> TwoTower:
        return stage.towers

    def logits(self, stage: TowerScorer) -> Score:
        """Cosines times the learned scale."""

        def score(query: Query, found: Candidates) -> Tensor:
            logits: Tensor = stage.towers(query.history, found.items.clamp(min=0))
            return logits

        return score

    def _towers(self, context: TrainContext, what: str) -> TwoTower:
        if not self.start:
            return self._new_towers(context, f"{what} towers")
        stage = context.fitted.get(self.start)
        if not isinstance(stage, ModelNominator) or not isinstance(stage.model, TwoTower):
            raise ConfigError(
                f"{what}: start must name a two-tower nominator of the pipeline, got {self.start!r}"
            )
        return TwoTower.of({name: tensor.clone() for name, tensor in stage.model.state_dict().items()})

    def _new_towers(self, context: TrainContext, what: str) -> TwoTower:
        trainer = TwoTowerTrainer(config=TwoTowerConfig(width=self.width))
        trainer = replace(trainer, epochs=context.best_epochs.get(what, trainer.epochs))
        towers: TwoTower = trainer.learned(context)
        context.note(what, history_of(towers.validation, trainer.epochs, trainer.patience))
        return towers
