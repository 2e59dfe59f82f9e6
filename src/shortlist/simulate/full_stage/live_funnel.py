"""The live funnel: every stage cuts what the stage before it kept, from the catalogue to the shown slots."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.simulate.full_stage.cell_noise import Floats, Rows, cell_uniforms
from shortlist.simulate.full_stage.pools import Score as Score
from shortlist.simulate.full_stage.short_video import CELLS, user_blocks

RANDOM = 9  # stream of the cell noise


@dataclass(frozen=True, eq=False)
class FunnelRun:
    """What the stages of a funnel did to one request of each user [B].

    `kept[i]` [B, c_i] are the items of stage i + 1 by its score, best first. `scored[i]` are the scores of that stage
    for its input: the catalogue for the first, `kept[i - 1]` for the others.
    """

    users: Rows
    kept: tuple[Rows, ...]
    scored: tuple[Floats, ...]

    @property
    def shown(self) -> Rows:
        """The items of the last stage [B, c_T]."""
        return self.kept[-1]

    def stages_reached(self, n_items: int) -> NDArray[np.int8]:
        """S of every item of the catalogue [B, I]: the last stage that kept it."""
        reached = np.zeros((len(self.users), n_items), np.int8)
        for stage, items in enumerate(self.kept):
            np.put_along_axis(reached, items, np.int8(stage + 1), axis=1)
        return reached


def live_funnel(users: Rows, n_items: int, scores: Sequence[Score], capacities: Sequence[int]) -> FunnelRun:
    """One request of every user: stage i keeps the top min(c_i, |input|) of its score, ties by item ascending.

    Memory holds users x catalogue; go through `user_blocks` with many users.
    """
    if len(scores) != len(capacities) or not scores or min(capacities) < 1:
        raise ConfigError(
            f"live funnel: expected one positive capacity per stage, got {len(scores)} scores and {capacities}"
        )
    items, kept, scored = np.arange(n_items), [], []
    for score, capacity in zip(scores, capacities, strict=True):
        scored.append(score(users, items))
        items = top_items(items, scored[-1], capacity)
        kept.append(items)
    return FunnelRun(users, tuple(kept), tuple(scored))


def top_items(items: Rows, scores: Floats, capacity: int) -> Rows:
    """The `capacity` items with the highest scores [B, K] -> [B, c], best first, ties by item ascending."""
    grid = np.broadcast_to(items, scores.shape)
    order = np.lexsort((grid, -scores), axis=1)[:, :capacity]
    return np.take_along_axis(grid, order, axis=1)


def funnel_utility(
    users: Rows,
    n_items: int,
    scores: Sequence[Score],
    capacities: Sequence[int],
    utility: Score,
    cells: int = CELLS,
) -> NDArray[np.float64]:
    """U of each user [U]: the expected utility of the shown slots, in blocks of users."""
    parts = [
        shown_utility(live_funnel(block, n_items, scores, capacities), utility)
        for block in user_blocks(users, n_items, cells)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def shown_utility(run: FunnelRun, utility: Score) -> NDArray[np.float64]:
    """The sum of the utilities of the shown items [B]."""
    return np.asarray(utility(run.users, run.shown).sum(axis=1, dtype=np.float64))


def random_score(seed: int) -> Score:
    """A stage that keeps random items; another seed keeps other ones."""
    return lambda users, items: cell_uniforms(seed, RANDOM, users, items).astype(np.float32)


def duration_boosted(score: Score, log_duration: Floats, beta: float) -> Score:
    """A misaligned stage: its score plus beta * log-duration."""
    return lambda users, items: np.asarray(score(users, items) + beta * log_duration[items], np.float32)
