"""The log a world leaves behind: any number of events from a seed, in memory bounded by a group of users."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data import Catalog, Dataset, Interactions, Vocabulary
from shortlist.errors import ConfigError
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate.shelves import Shelves
from shortlist.simulate.titles import category_names, make_titles
from shortlist.simulate.sessions import Visits, event_counts, plan
from shortlist.simulate.world import Floats, Rows, World

LOOKS = 32  # items a user considers before taking one
BORED = 6.0  # how much less a user takes what was taken before (log)
GROUP = 4096  # users simulated side by side, at most
TINY = np.finfo(np.float32).tiny  # a draw of exactly 0 has no logarithm
CELLS = 1 << 27  # users x items, and users x events, of a group, at most


def simulate_log(world: World, n_events: int, seed: int = 0, progress: Progress = silent) -> Dataset:
    """`n_events` events of the world, as a data set whose rows are the rows of the world.

    A user considers a few items, drawn by category and appeal, and takes one by its pull on the user just
    then: the more items considered, the closer to the law of the world.
    """
    if n_events < 1 or seed < 0:
        raise ConfigError(f"world: expected 1 event or more and a seed from 0, got {n_events!r} and {seed!r}")
    shelves, counts = Shelves.of(world), event_counts(world, n_events)
    parts = []
    for at, group in enumerate(tracked(_groups(world, counts), "simulate", progress)):
        rng = np.random.default_rng([seed, at])
        visits = plan(world, group, counts[group], rng)
        parts.append(_columns(visits, _walk(world, shelves, visits, rng)))
    users, items, times = (np.concatenate(column) for column in zip(*parts, strict=True))
    events = Interactions.of(users, items, times, n_users=world.n_users, n_items=world.n_items)
    return Dataset("world", _ids("u", world.n_users), events, _catalog(world), facts=_facts(world, seed))


def _groups(world: World, counts: Rows) -> list[Rows]:
    """Users of like activity together, the most active first: no group waits for a few of its users."""
    active = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    size = int(np.clip(CELLS // max(world.n_items, int(counts.max())), 1, GROUP))
    return [active[start : start + size] for start in range(0, len(active), size)]


def _walk(world: World, shelves: Shelves, visits: Visits, rng: np.random.Generator) -> NDArray[np.int32]:
    """What the users of a group take, one event of every user after the other [G, T]."""
    taken = np.full(visits.times.shape, -1, np.int32)
    seen = np.zeros((len(visits.users), world.n_items), bool)
    for step in range(visits.times.shape[1]):
        awake = slice(int((visits.counts > step).sum()))  # counts descend: the first ones
        users, times = visits.users[awake], visits.times[awake, step]
        after = np.where(visits.opens[awake, step], -1, taken[awake, step - 1]).astype(np.int64)
        looks = shelves.draw(world.shares(users, times, after), LOOKS, rng)  # [B, LOOKS]
        bored = np.float32(BORED) * np.take_along_axis(seen[awake], looks, axis=1)
        picked = _pick(looks, world.pull(users, looks, times, after) - bored, rng)
        unborn = world.births[picked] > times  # when none of the items considered is born yet
        taken[awake, step] = np.where(unborn, shelves.oldest[world.categories[picked]], picked)
        seen[np.arange(len(users)), taken[awake, step]] = True
    return taken


def _pick(looks: Rows, pull: Floats, rng: np.random.Generator) -> Rows:
    """One item for each user [B]: the largest pull plus Gumbel noise, which is a draw by exp(pull)."""
    noise = -np.log(rng.standard_exponential(looks.shape, np.float32) + TINY)
    best = np.argmax(pull + noise, axis=1)
    return np.asarray(looks[np.arange(len(looks)), best], np.int64)


def _columns(visits: Visits, taken: NDArray[np.int32]) -> tuple[Rows, NDArray[np.int32], Rows]:
    """The real events of a group: users, items and times [E]."""
    return np.repeat(visits.users, visits.counts), taken[taken >= 0], visits.times[taken >= 0]


def _catalog(world: World) -> Catalog:
    names = np.array(category_names(len(world.phases)))
    table = {"title": make_titles(world.categories, world.seed), "category": names[world.categories].tolist()}
    return Catalog(_ids("i", world.n_items), pa.table(table))


def _ids(letter: str, count: int) -> Vocabulary:
    """Ids of one width, so that their order as text is the order of the rows."""
    width = max(5, len(str(count - 1)))
    return Vocabulary.of([f"{letter}{row:0{width}d}" for row in range(count)])


def _facts(world: World, seed: int) -> dict[str, Any]:
    return {"world_seed": world.seed, "log_seed": seed, "days": world.days, "law": asdict(world.law)}
