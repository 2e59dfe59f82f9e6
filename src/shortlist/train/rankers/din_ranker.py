"""The trainer of the DIN ranker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.models.model import VectorModel
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.nominate import ModelNominator
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import setting, settings_of
from shortlist.stages import DINScorer
from shortlist.train.context import TrainContext
from shortlist.train.loop.device import DEVICES, device_of
from shortlist.train.rankers.ranker import NetworkRankerTrainer
from shortlist.train.rankers.training_data.training_set import TrainingSet


@dataclass(frozen=True)
class DINRankerTrainer(NetworkRankerTrainer, DINRankerConfig):
    """Attention of each candidate on the history; default sizes are those of the two-stage bounds paper, appendix D.

    The defaults are for a GPU: on a CPU, width 32, attention (16,) and max_history 20 train in minutes. Starting from
    a nominator's item embeddings helps where requests are few; the width is then the nominator's.
    """

    title: ClassVar[str] = "din-ranker"

    positives_per_request: int = 2
    start: str = setting("", "Nominator whose item embeddings initialise the ranker; empty for random ones.")
    device: str = setting("auto", "Device to train on.", choices=DEVICES)

    def __post_init__(self) -> None:
        super().__post_init__()
        DINRankerConfig.__post_init__(self)

    def models_used(self) -> dict[str, type[Any]]:
        """The setting that names a nominator with a model, and the kind of model."""
        return {"start": VectorModel} if self.start else {}

    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> DINScorer:
        model = self.initial(context, training_set.what).to(device_of(self.device))
        return DINScorer(model, **settings)

    def network(self, stage: DINScorer) -> DINRanker:
        return stage.model

    def fit_stage(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[DINScorer, TrainingHistory]:
        stage, history = super().fit_stage(settings, context, training_set)
        assert isinstance(stage, DINScorer)
        stage.model.cpu().eval()
        return stage, history

    @torch.no_grad()
    def initial(self, context: TrainContext, what: str) -> DINRanker:
        """A ranker with random item embeddings, or with those of a nominator."""
        vectors = item_vectors(context, self.start, what) if self.start else None
        width = self.width if vectors is None else vectors.shape[1]
        sizes = {one.name: getattr(self, one.name) for one in settings_of(DINRankerConfig)}
        model = DINRanker(DINRankerConfig(n_items=len(context.catalog), **(sizes | {"width": width})))
        if vectors is not None:
            rms = vectors.pow(2).mean().sqrt().clamp(min=1e-12)
            model.items.weight[:-1] = vectors / rms * width**-0.5  # the scale of random ones
        return model


def item_vectors(context: TrainContext, start: str, what: str) -> Tensor:
    """The item vectors [N, D] of a nominator of the pipeline."""
    stage = context.fitted.get(start)
    if isinstance(stage, ModelNominator) and isinstance(stage.model, VectorModel):
        return stage.model.vectors()
    raise ConfigError(f"{what}: start must name a nominator with item vectors, got {start!r}")
