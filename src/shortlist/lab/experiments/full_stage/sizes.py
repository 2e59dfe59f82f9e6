"""Sizes of the worlds, and the training budget that all arms of a table share."""

from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.simulate.full_stage.make_short_video import PAPER_SHARE, UNCALIBRATED
from shortlist.simulate.full_stage.short_video import WatchModel
from shortlist.simulate.full_stage.stage_models import StageModelConfig
from shortlist.simulate.full_stage.static_requests import RequestSizes

TEMPERATURES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # in the small world the best are 0.4 and 0.8
RATES = (1e-3, 3e-3, 1e-2)
MOVIELENS = "movielens"


@dataclass(frozen=True)
class Budget:
    """What every arm may spend: the same steps at most, and the same settings to choose from on validation."""

    epochs: int
    every: int  # epochs between two validations
    batch_size: int
    temperatures: tuple[float, ...] = TEMPERATURES
    rates: tuple[float, ...] = RATES
    width: int = 64  # of user and item vectors
    patience: int = 0  # validations without a better one after which an arm stops; 0 = it takes all epochs


@dataclass(frozen=True)
class Size:
    """A world with its requests and its budget."""

    shape: str  # of `make_short_video`; World B: the file of the ratings
    requests: RequestSizes
    n_train: int  # train requests per user
    budget: Budget
    stages: StageModelConfig
    watch: WatchModel | None = None  # None: calibrated
    oracle_requests: int = 100  # fresh requests from which the oracle's exposure rates are counted
    users: int = 0  # World B: those with the most ratings
    pool_share: float = 0.0  # World B: random items in the pool of a user, beside the rated ones

    @property
    def wide(self) -> tuple[int, int, int]:
        """Capacities of the live funnel: as many items as a static request has at each stage."""
        return self.requests.drawn, self.requests.kept, self.requests.exposed

    @property
    def tight(self) -> tuple[int, int, int]:
        """Capacities of a live funnel whose retrieval returns as many items as ranking had before."""
        return self.requests.kept, self.requests.kept // 2, self.requests.exposed


FULL_BUDGET = Budget(40, 1, 4096, rates=(2e-3, 1e-2), patience=5)
SIZES: Mapping[str, Size] = {
    "tiny": Size(
        "tiny",
        RequestSizes(100, 20, 5),
        2,
        Budget(4, 2, 128, (0.1, 0.2), (1e-2,), 16),
        StageModelConfig((16,), (16,), 8, 1e-2, 512, 4),
        oracle_requests=20,
    ),
    "small": Size(
        "small",
        RequestSizes(300, 60, 15),
        4,
        Budget(35, 5, 512),
        StageModelConfig((64, 32), (128, 64), 16, 2e-3, 2048, 4),
        UNCALIBRATED,
    ),
    "full": Size("full", RequestSizes(), 8, FULL_BUDGET, StageModelConfig(), PAPER_SHARE),
    MOVIELENS: Size(
        "ml-1m/ml-1m.zip",
        RequestSizes(),
        8,
        FULL_BUDGET,
        StageModelConfig((256, 128), (1024, 512, 256), 32, 1e-3, 8192, 6),
        users=1500,
        pool_share=0.3,
    ),
}
"""World A of the quick profile, of the small check of the specification (4.9) and of the full profile; World B.

Watch times of the full world are not calibrated to KuaiRec: with those quantiles 99 % of exposures are positive, the
utility of every arm is 49.96 of 50, and live funnels do not differ.
"""
