"""The DIN ranker, taught on rehearsed requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.represent.din_ranker import INPUTS, DINRanker, DINRankerConfig
from shortlist.stages import DINScorer
from shortlist.train.calibrate import calibrated
from shortlist.train.device import device_of
from shortlist.train.material import Material
from shortlist.train.ranges import check_word
from shortlist.train.ranker import RankerTrainer


@dataclass(frozen=True)
class DINRankerTrainer(RankerTrainer):
    """Attention of each candidate on the history; the sizes are those of the two-stage bounds paper, appendix D.

    These sizes are for a GPU: on a CPU a width of 32, an attention of (16,) and a memory of 20 learn in minutes.
    """

    wants: int = 2
    width: int = 96
    attention: tuple[int, ...] = (64, 16)
    hidden: tuple[int, ...] = (200, 80)
    memory: int = 69
    windows: tuple[int, ...] = ()
    inputs: str = "din3"
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("inputs", self.inputs, tuple(INPUTS))

    def fit(self, settings: Mapping[str, Any], material: Material) -> DINScorer:
        what = str(settings.get("name", "din-ranker"))
        torch.manual_seed(material.seed)
        sizes = (self.memory, self.width, self.attention, self.hidden, self.windows, self.inputs)
        model = DINRanker(DINRankerConfig(len(material.catalog), *sizes)).to(device_of(self.device))

        def score(query: Query, found: Candidates) -> Tensor:
            there = model.device
            return model.score_rows(query.history.to(there), found.items.to(there)).to(found.items.device)

        lessons = self.learn(model, score, material, what)
        stage = DINScorer(model.cpu().eval(), **settings)
        return calibrated(stage, self.calibrate, lessons.held, what)
