"""The DIN ranker, taught on rehearsed requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.models.model import VectorModel
from shortlist.models.ranking.din_ranker import INPUTS, DINRanker, DINRankerConfig
from shortlist.nominate import ModelNominator, Nearest
from shortlist.stages import DINScorer
from shortlist.train.context import TrainContext
from shortlist.train.loop.device import device_of
from shortlist.train.loop.ranges import check_word
from shortlist.train.rankers.calibrate import calibrated
from shortlist.train.rankers.ranker import RankerTrainer


@dataclass(frozen=True)
class DINRankerTrainer(RankerTrainer):
    """Attention of each candidate on the history; the sizes are those of the two-stage bounds paper, appendix D.

    These sizes are for a GPU: on a CPU a width of 32, an attention of (16,) and a memory of 20 learn in minutes. Items
    can begin where the nominator named `start` has them, which helps where requests are few; the width is then its.
    """

    start: str = ""
    positives_per_request: int = 2
    width: int = 96
    attention: tuple[int, ...] = (64, 16)
    hidden: tuple[int, ...] = (200, 80)
    max_history: int = 69
    windows: tuple[int, ...] = ()
    inputs: str = "din3"
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("inputs", self.inputs, tuple(INPUTS))

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> DINScorer:
        what = str(settings.get("name", "din-ranker"))
        torch.manual_seed(context.seed)
        model = self._fresh(context, what).to(device_of(self.device))

        def score(query: Query, found: Candidates) -> Tensor:
            there = model.device
            return model.score_rows(query.history.to(there), found.items.to(there)).to(found.items.device)

        lessons = self.learn(model, score, context, what)
        stage = DINScorer(model.cpu().eval(), **settings)
        return calibrated(stage, self.calibrate, lessons.held, what)

    @torch.no_grad()
    def _fresh(self, context: TrainContext, what: str) -> DINRanker:
        """A ranker that knows nothing yet, or has the items where a nominator has them."""
        begun = known_vectors(context, self.start, what) if self.start else None
        width = self.width if begun is None else begun.shape[1]
        sizes = (self.max_history, width, self.attention, self.hidden, self.windows, self.inputs)
        model = DINRanker(DINRankerConfig(len(context.catalog), *sizes))
        if begun is not None:
            spread = begun.pow(2).mean().sqrt().clamp(min=1e-12)
            model.items.weight[:-1] = begun / spread * width**-0.5  # as large as fresh ones
        return model


def known_vectors(context: TrainContext, start: str, what: str) -> Tensor:
    """The vectors [N, D] that a nominator of the pipeline has for items."""
    stage = context.fitted.get(start)
    if isinstance(stage, Nearest):
        return stage.towers.items()
    if isinstance(stage, ModelNominator) and isinstance(stage.model, VectorModel):
        return stage.model.vectors()
    raise ConfigError(f"{what}: start must name a nominator with vectors of items, got {start!r}")
