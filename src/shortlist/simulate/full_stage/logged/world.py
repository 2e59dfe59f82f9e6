"""Worlds that a simulated service serves: utilities of all cells, and the data set from before the first request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data import Catalog, Dataset, Interactions, Vocabulary, read
from shortlist.data.split import SplitSettings
from shortlist.errors import ConfigError
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.cell_noise import Rows, cell_uniforms
from shortlist.simulate.full_stage.logged.settings import SimulationSettings
from shortlist.simulate.full_stage.make_short_video import PAPER_SHARE, make_short_video
from shortlist.simulate.full_stage.pools import Score
from shortlist.simulate.full_stage.ratings.jester import jester_world
from shortlist.simulate.full_stage.ratings.movielens import MovieLensWorld, movielens_world
from shortlist.simulate.full_stage.short_video import ShortVideoWorld, user_blocks

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
BEFORE_DAYS = 60  # over which the events before the first request are spread
HISTORY = 41  # stream of the cell noise
# Requests are later than all events: only a protocol that holds out whole users measures what was learned from them.
SPLIT: SplitSettings = {"protocol": "half-history", "seed": 0, "min_length": 4}


@dataclass(frozen=True, eq=False)
class ServedWorld:
    """Rows of users and items are those of the data set."""

    name: str
    seed: int
    utility: Score  # r(users [B], items [K] or [B, K]) -> [B, K], the probability that a shown item is liked
    data: Dataset
    start_ms: int  # of the first request
    duration_ms: NDArray[np.float64] | None = None  # [I]

    @property
    def n_users(self) -> int:
        return len(self.data.users)

    @property
    def n_items(self) -> int:
        return len(self.data.items)


def served_world(
    name: str,
    settings: SimulationSettings,
    source: Path | None = None,
    size: str = "small",
    seed: int = 0,
    progress: Progress = silent,
) -> ServedWorld:
    """One of SERVED_WORLDS; `size` is that of short-video, the others are built from the files of `source`."""
    if name not in SERVED_WORLDS:
        raise ConfigError(f"simulate: expected a world of {', '.join(SERVED_WORLDS)}, got {name!r}")
    if (name == "short-video") != (source is None):
        said = "needs no files; leave --source out" if source else "is built from files; add --source"
        raise ConfigError(f"simulate: the world {name} {said}")
    return SERVED_WORLDS[name](settings, source, size, seed, progress)


def _short_video(
    settings: SimulationSettings, source: Path | None, size: str, seed: int, progress: Progress
) -> ServedWorld:
    world = make_short_video(size, seed, PAPER_SHARE)
    duration = 1000 * np.exp(world.videos.log_duration.astype(np.float64))
    table = pa.table(
        {
            "title": [f"Video {row}" for row in range(world.n_items)],
            "category": [f"category {one}" for one in world.videos.category.tolist()],
            "duration_ms": duration.round(),
        }
    )
    data = _dataset(world, f"short-video-{size}", table, settings.history, world.labels, _seen(world))
    return ServedWorld("short-video", seed, world.r, data, START_MS, duration)


def _jester(
    settings: SimulationSettings, source: Path | None, size: str, seed: int, progress: Progress
) -> ServedWorld:
    world = jester_world(source or Path(), seed)
    table = pa.table({"title": [f"Joke {row + 1}" for row in range(world.n_items)]})
    data = _dataset(world, "jester", table, settings.history, world.labels, None)
    return ServedWorld("jester", seed, world.r, data, START_MS)


def _movielens(
    settings: SimulationSettings, source: Path | None, size: str, seed: int, progress: Progress
) -> ServedWorld:
    data = replace(read(source or Path(), "movielens", weights="use"), split_settings=SPLIT)
    world = movielens_world(data, seed, progress=progress)
    return ServedWorld("movielens", seed, _not_again(world), data, int(data.events.times.max()) + DAY_MS)


def _not_again(world: MovieLensWorld) -> Score:
    """The utility of a service after all ratings: nobody likes a film again that they have rated.

    With the utility 1 or 0 of rated films, the funnel would show nothing but films that are known to be liked.
    """
    return lambda users, items: np.where(world.observed(users, items), np.float32(0), world.r(users, items))


SERVED_WORLDS: Mapping[str, Callable[..., ServedWorld]] = {
    "short-video": _short_video,
    "movielens": _movielens,
    "jester": _jester,
}


def _seen(world: ShortVideoWorld) -> Callable[[Rows, Rows], NDArray[np.bool_]]:
    """The cells that an older system has shown."""
    return lambda users, items: world.seen(users, items) | world.in_block(users, items)


def _dataset(
    world: Any,
    name: str,
    table: pa.Table,
    history: int,
    labels: Callable[[Rows, Rows], NDArray[np.bool_]],
    exposed: Callable[[Rows, Rows], NDArray[np.bool_]] | None,
) -> Dataset:
    """At most `history` liked items of each user, at random, in a random order before the first request."""
    users, items, times = list[Rows](), list[Rows](), list[Rows]()
    catalogue = np.arange(world.n_items)
    for block in user_blocks(np.arange(world.n_users), world.n_items):
        liked = labels(block, catalogue)
        liked = liked if exposed is None else liked & exposed(block, catalogue)
        keys = np.where(liked, cell_uniforms(world.seed, HISTORY, block, catalogue), 2.0)
        chosen = np.argsort(keys, axis=1)[:, :history]
        keep = np.take_along_axis(liked, chosen, axis=1)
        when = cell_uniforms(world.seed, HISTORY + 1, block, chosen) * BEFORE_DAYS * DAY_MS
        users.append(np.broadcast_to(block[:, None], keep.shape)[keep])
        items.append(chosen[keep])
        times.append((START_MS - DAY_MS - when).astype(np.int64)[keep])
    own, liked_items, when_ms = (np.concatenate(one) for one in (users, items, times))
    events = Interactions.of(own, liked_items, when_ms, n_users=world.n_users, n_items=world.n_items)
    ids = Vocabulary.of(list(range(1, world.n_users + 1)))
    catalog = Catalog(Vocabulary.of(list(range(1, world.n_items + 1))), table)
    return Dataset(name, ids, events, catalog, split_settings=SPLIT)
