"""The network ranker over ids, histories, columns and nominators' words, taught on rehearsed requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.stages import MLPScorer
from shortlist.train.context import TrainContext
from shortlist.train.rankers.calibrate import calibrated
from shortlist.train.rankers.features import learned_sheet, own_settings, renewed_sheet
from shortlist.train.rankers.ranker import RankerTrainer


@dataclass(frozen=True)
class MLPRankerTrainer(RankerTrainer):
    """A network over all that is known of a candidate; `days` is what counts as lately."""

    positives_per_request: int = 4
    width: int = 32
    value_width: int = 8
    hidden: tuple[int, ...] = (128, 64)
    max_history: int = 69
    dropout: float = 0.1
    days: float = 30.0

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> MLPScorer:
        what = str(settings.get("name", "mlp-ranker"))
        lessons = self.lessons(context, what)
        torch.manual_seed(context.seed)
        sheet = learned_sheet(settings, context, self.days, what)
        network = MLPRanker(
            MLPRankerConfig(
                n_items=len(context.catalog),
                n_features=sheet.size,
                values=sheet.columns.sizes,
                n_tags=sheet.columns.n_tags,
                width=self.width,
                value_width=self.value_width,
                hidden=self.hidden,
                max_history=self.max_history,
                dropout=self.dropout,
            )
        )
        network.scale(torch.cat([sheet(one.query, one.found)[one.found.valid] for one in lessons.taught]))
        stage = MLPScorer(sheet, network, **own_settings(settings))
        self.learn(network, stage.raw, context, what)
        return calibrated(stage, self.calibrate, lessons.held, what)

    def renew(self, stage: MLPScorer, context: TrainContext) -> MLPScorer:
        """The same ranker with the counts of all events."""
        return stage.renewed(sheet=renewed_sheet(stage.sheet, context, self.days))
