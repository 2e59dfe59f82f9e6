"""The closed loop: a live funnel over World A whose stages are trained from its own log, round after round."""

from shortlist.simulate.full_stage.closed_loop.loop import (
    LoopState,
    Retrain,
    Round,
    closed_loop,
    random_scores,
)
from shortlist.simulate.full_stage.closed_loop.serve import Served, serve, serve_users
from shortlist.simulate.full_stage.closed_loop.settings import LoopSettings
from shortlist.simulate.full_stage.closed_loop.world import LoopWorld, loop_arrays

__all__ = [
    "LoopSettings",
    "LoopState",
    "LoopWorld",
    "Retrain",
    "Round",
    "Served",
    "closed_loop",
    "loop_arrays",
    "random_scores",
    "serve",
    "serve_users",
]
