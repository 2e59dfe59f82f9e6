"""Worlds, requests and funnels for full-stage learning to rank, in which the utility of every item is known."""

from shortlist.simulate.full_stage.live_funnel import (
    FunnelRun,
    duration_boosted,
    funnel_utility,
    live_funnel,
    random_score,
    shown_utility,
)
from shortlist.simulate.full_stage.make_short_video import (
    PAPER_SHARE,
    SHAPES,
    UNCALIBRATED,
    make_short_video,
)
from shortlist.simulate.full_stage.pools import (
    Pools,
    Score,
    cell_values,
    exposed_pools,
    pools_of,
    whole_catalogue,
)
from shortlist.simulate.full_stage.ratings.jester import JesterWorld, jester_world
from shortlist.simulate.full_stage.ratings.movielens import MovieLensWorld, movielens_world
from shortlist.simulate.full_stage.short_video import Shape, ShortVideoWorld, WatchModel, user_blocks
from shortlist.simulate.full_stage.splits import RequestSplits, make_cell_splits, make_splits
from shortlist.simulate.full_stage.stage_models import StageModelConfig
from shortlist.simulate.full_stage.static_requests import (
    RequestSizes,
    ScoredPools,
    StaticRequests,
    exposure_rates,
    static_requests,
)
from shortlist.simulate.full_stage.train_stage_models import (
    LabelledCells,
    StageModels,
    fit_stage_models,
    labelled,
    train_stage_models,
)

__all__ = [
    "PAPER_SHARE",
    "SHAPES",
    "UNCALIBRATED",
    "FunnelRun",
    "JesterWorld",
    "LabelledCells",
    "MovieLensWorld",
    "Pools",
    "RequestSizes",
    "RequestSplits",
    "Score",
    "ScoredPools",
    "Shape",
    "ShortVideoWorld",
    "StageModelConfig",
    "StageModels",
    "StaticRequests",
    "WatchModel",
    "cell_values",
    "duration_boosted",
    "exposed_pools",
    "exposure_rates",
    "fit_stage_models",
    "funnel_utility",
    "jester_world",
    "labelled",
    "live_funnel",
    "make_cell_splits",
    "make_short_video",
    "make_splits",
    "movielens_world",
    "pools_of",
    "random_score",
    "shown_utility",
    "static_requests",
    "train_stage_models",
    "user_blocks",
    "whole_catalogue",
]
