"""Simulated logs: any number of events from a seed, with memory for one group of users at a time."""

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shortlist.data import Catalog, Dataset, Interactions, Vocabulary
from shortlist.data.dataset import LogFacts
from shortlist.errors import ConfigError
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate.sessions import Sessions, event_counts, sample_sessions
from shortlist.simulate.successors import sample_places
from shortlist.simulate.themes import category_names, make_titles
from shortlist.simulate.world import Floats, Rows, World

CONSIDERED = 32  # items a user considers per event
REPEAT_PENALTY = 6.0  # for an item the user has interacted with (log)
GROUP = 4096  # users simulated at once, at most
TINY = np.finfo(np.float32).tiny  # avoids the logarithm of 0
CELLS = 1 << 27  # users x items, and users x events, of a group at most


def simulate_log(world: World, n_events: int, seed: int = 0, progress: Progress = silent) -> Dataset:
    """A data set of `n_events` events whose rows are the rows of the world.

    For each event a user considers some items, sampled by category and appeal, and chooses one by its utility. The
    more items are considered, the closer are the choices to the choice model of the world.
    """
    if n_events < 1 or seed < 0:
        raise ConfigError(f"world: expected 1 event or more and a seed from 0, got {n_events!r} and {seed!r}")
    sampler, counts = CategorySampler.of(world), event_counts(world, n_events)
    parts = []
    for at, group in enumerate(tracked(_groups(world, counts), "simulate", progress)):
        rng = np.random.default_rng([seed, at])
        sessions = sample_sessions(world, group, counts[group], rng)
        parts.append(_columns(sessions, _choices(world, sampler, sessions, rng)))
    users, items, times = (np.concatenate(column) for column in zip(*parts, strict=True))
    events = Interactions.of(users, items, times, n_users=world.n_users, n_items=world.n_items)
    return Dataset("world", _ids("u", world.n_users), events, _catalog(world), facts=_facts(world, seed))


@dataclass(frozen=True, eq=False)
class CategorySampler:
    """Samples items by category share x appeal; category c owns the interval [c, c + 1) of `edges`."""

    order: Rows  # [I] items sorted by category
    edges: NDArray[np.float64]  # [I] end of the interval of each item
    oldest: Rows  # [C] the first released item of each category

    @classmethod
    def of(cls, world: World) -> "CategorySampler":
        """The sampler of a world."""
        order = np.lexsort((world.release_times, world.categories))
        sizes = np.bincount(world.categories)
        heads = np.cumsum(sizes) - sizes  # [C]
        cumulative = np.cumsum(world.appeal[order].astype(np.float64))
        before = np.concatenate([[0.0], cumulative])[heads]  # [C] the appeal of all earlier categories
        total = np.diff(np.concatenate([before, cumulative[-1:]]))
        category = world.categories[order]
        return cls(order, category + (cumulative - before[category]) / total[category], order[heads])

    def sample(self, shares: Floats, count: int, rng: np.random.Generator) -> Rows:
        """`count` items with probability category share x appeal; shares [B, C] -> [B, count]."""
        edges = np.cumsum(shares, axis=1)[:, None, :-1]  # [B, 1, C - 1]
        category = (rng.random((len(shares), count, 1), np.float32) >= edges).sum(axis=2)  # [B, count]
        at = np.searchsorted(self.edges, category + rng.random(category.shape), side="right")
        return np.asarray(self.order[np.minimum(at, len(self.order) - 1)], np.int64)


def _groups(world: World, counts: Rows) -> list[Rows]:
    """Groups of users with similar numbers of events, most active first."""
    active = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    size = int(np.clip(CELLS // max(world.n_items, int(counts.max())), 1, GROUP))
    return [active[start : start + size] for start in range(0, len(active), size)]


def _choices(
    world: World, sampler: CategorySampler, sessions: Sessions, rng: np.random.Generator
) -> NDArray[np.int32]:
    """The chosen items of a group of users, one event of every user at a time [G, T]."""
    chosen = np.full(sessions.times.shape, -1, np.int32)
    seen = np.zeros((len(sessions.users), world.n_items), bool)
    for step in range(sessions.times.shape[1]):
        current = slice(int((sessions.counts > step).sum()))  # counts are descending
        users, times = sessions.users[current], sessions.times[current, step]
        after = np.where(sessions.starts[current, step], -1, chosen[current, step - 1]).astype(np.int64)
        considered = sampler.sample(world.shares(users, times, after), CONSIDERED, rng)  # [B, CONSIDERED]
        penalty = np.float32(REPEAT_PENALTY) * np.take_along_axis(seen[current], considered, axis=1)
        picked = _choose(considered, world.utility(users, considered, times, after) - penalty, rng)
        picked = follow(world, picked, times, after, seen[current], rng)
        unreleased = world.release_times[picked] > times  # if none of the considered items is released
        chosen[current, step] = np.where(unreleased, sampler.oldest[world.categories[picked]], picked)
        seen[np.arange(len(users)), chosen[current, step]] = True
    return chosen


def _choose(considered: Rows, utility: Floats, rng: np.random.Generator) -> Rows:
    """One item per user [B]: the argmax of utility + Gumbel noise is a sample from softmax(utility)."""
    noise = -np.log(rng.standard_exponential(considered.shape, np.float32) + TINY)
    best = np.argmax(utility + noise, axis=1)
    return np.asarray(considered[np.arange(len(considered)), best], np.int64)


def follow(
    world: World, picked: Rows, times: Rows, after: Rows, seen: NDArray[np.bool_], rng: np.random.Generator
) -> Rows:
    """The chosen items [B], some of them replaced by a successor of the last item that is released and not seen."""
    if not world.choice_model.follow:
        return picked
    place = sample_places(world.successors.shape[1], len(picked), rng)
    successor = world.successors[after, place]
    possible = (world.release_times[successor] <= times) & ~seen[np.arange(len(picked)), successor]
    follows = (rng.random(len(picked)) < world.choice_model.follow) & (after >= 0) & possible
    return np.where(follows, successor, picked)


def _columns(sessions: Sessions, chosen: NDArray[np.int32]) -> tuple[Rows, NDArray[np.int32], Rows]:
    """The events of a group: users, items and times [E]."""
    return np.repeat(sessions.users, sessions.counts), chosen[chosen >= 0], sessions.times[chosen >= 0]


def _catalog(world: World) -> Catalog:
    names = np.array(category_names(len(world.phases)))
    table = {"title": make_titles(world.categories, world.seed), "category": names[world.categories].tolist()}
    return Catalog(_ids("i", world.n_items), pa.table(table))


def _ids(letter: str, count: int) -> Vocabulary:
    """Ids of equal length, so that their sorted order is the order of the rows."""
    width = max(5, len(str(count - 1)))
    return Vocabulary.of([f"{letter}{row:0{width}d}" for row in range(count)])


def _facts(world: World, seed: int) -> LogFacts:
    settings = {"world_seed": world.seed, "log_seed": seed, "days": world.days, **asdict(world.choice_model)}
    return LogFacts("world", settings=settings)
