"""The closed loop: serve, log, read the log back, train the stages from it, and serve again."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from shortlist.feedback import LoggedRequests, Sampling
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.closed_loop.measures import LIKED, measured, retrieved
from shortlist.simulate.full_stage.closed_loop.round_log import LoopLog, feedback
from shortlist.simulate.full_stage.closed_loop.serve import Served, serve
from shortlist.simulate.full_stage.closed_loop.settings import LoopSettings
from shortlist.simulate.full_stage.closed_loop.world import LoopWorld
from shortlist.train.objectives.from_log import LeftOut, stage_log
from shortlist.train.objectives.stage_log import StageLog

RETRIEVAL, PRERANK, RANK, RERANK = 1, 2, 3, 4


@dataclass(frozen=True, eq=False)
class LoopState:
    """What a round begins with."""

    number: int
    world: LoopWorld
    settings: LoopSettings
    scores: Mapping[int, Tensor]  # of every stage now [U, I]


Retrain = Callable[[StageLog, LoopState], Tensor | None]
"""From the log of the last rounds to the new scores of a stage [U, I]; None keeps the present ones.

The state shows what only an oracle may use: the utilities of the world and the scores of the other stages.
"""


@dataclass(frozen=True, eq=False)
class Round:
    """One round: its figures, and, where asked for, what was served and the log of it."""

    number: int
    figures: Mapping[str, float]
    left_out: LeftOut
    versions: tuple[int, ...]  # of the policy of every stage
    served: Served | None = None
    log: LoggedRequests | None = None


def closed_loop(
    world: LoopWorld,
    settings: LoopSettings,
    retrain: Mapping[int, Retrain],
    folder: Path,
    sampling: Sampling | None = None,
    keep: bool = False,
    progress: Progress = silent,
) -> list[Round]:
    """All rounds that count. Rounds before them retrieve at random, and train nothing.

    `retrain` has a function for every stage that is trained. Logs are written under `folder`; those that no later round
    needs are removed, unless `keep`.
    """
    log = LoopLog(folder, world.n_users, world.n_items, sampling)
    state = LoopState(-settings.warm, world, settings, _first_scores(world, settings))
    versions: tuple[int, ...] = (0,) * len(settings.capacities)
    records, rounds = list[LoggedRequests](), list[Round]()
    before: Tensor | None = None
    for number in range(-settings.warm, settings.rounds):
        scores, left_out = _scores(state, records, log, retrain if number >= 0 else {}, number)
        versions = _versions(versions, state.scores, scores)
        state = replace(state, number=number, scores=scores)
        served = serve(world, settings, scores, number)
        liked = feedback(world, served)
        log.write(served, liked, settings, versions)
        records = [*records, log.read(number)][-settings.window :]
        if number >= 0:
            figures = measured(world, settings, served, before) | {LIKED: float(liked.sum(1).mean())}
            kept = (served, records[-1]) if keep else (None, None)
            assert left_out is not None
            rounds.append(Round(number, figures, left_out, versions, *kept))
        before = retrieved(world, served)
        if not keep:
            shutil.rmtree(log.folder(number))
        progress("rounds", number + settings.warm + 1, settings.warm + settings.rounds)
    return rounds


def _first_scores(world: LoopWorld, settings: LoopSettings) -> dict[int, Tensor]:
    rank = world.rank_scores(settings, -1)
    return {RETRIEVAL: torch.zeros_like(rank), PRERANK: world.prerank, RANK: rank, RERANK: world.rerank}


def _scores(
    state: LoopState,
    records: list[LoggedRequests],
    log: LoopLog,
    retrain: Mapping[int, Retrain],
    number: int,
) -> tuple[dict[int, Tensor], LeftOut | None]:
    """The scores of a round: what drifts, then what is trained from the log."""
    scores = dict(state.scores)
    if number < 0:
        return scores | {RETRIEVAL: random_scores(state.world, number)}, None
    if number == state.settings.drift_round and state.settings.drifted(number):
        scores[RANK] = state.world.rank_scores(state.settings, number)
    found, left_out = stage_log(records, log.items, log.users, len(scores))
    now = replace(state, number=number, scores=scores)
    trained = {stage: function(found, now) for stage, function in retrain.items()}
    return scores | {stage: one for stage, one in trained.items() if one is not None}, left_out


def random_scores(world: LoopWorld, number: int) -> Tensor:
    """Scores of a retrieval that returns random items, others in every round [U, I]."""
    generator = torch.Generator().manual_seed(world.seed * 100_003 + number + 5000)
    return torch.rand((world.n_users, world.n_items), generator=generator).to(world.device)


def _versions(
    versions: tuple[int, ...], old: Mapping[int, Tensor], new: Mapping[int, Tensor]
) -> tuple[int, ...]:
    """The version of a stage grows when its scores are replaced."""
    return tuple(
        one + (old[stage] is not new[stage]) for one, stage in zip(versions, sorted(new), strict=True)
    )
