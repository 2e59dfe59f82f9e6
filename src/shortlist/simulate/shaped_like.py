"""Simulated logs with the shape of public ones: short histories of shoppers, and power laws with drift.

The choices have several causes at once, so that no family of models is the truth: a Markov part (successors, momentum,
similarity to the last item), a long-term part (favourite categories, personal taste), and a part of popularity (appeal,
cycles of categories, bonus of new items).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shortlist.data import Catalog, Dataset, Interactions
from shortlist.data.cleaning import LogFilters, apply_filters
from shortlist.errors import ConfigError
from shortlist.simulate.log import simulate_log
from shortlist.simulate.make import make_world
from shortlist.simulate.successors import sample_successors
from shortlist.simulate.world import DAY, ChoiceModel, World

CORE = 5  # least events of a user and of an item of the log of shoppers
SUCCESSORS = 6
LIFETIMES = (0.1, 0.9)  # shortest and longest time a user is active, as a share of the log
LATER = 0.35  # share of the events of shoppers that are at least a day after the one before
SIZES = {  # users, items, categories, events that are simulated
    "amazon-like": {
        "full": (24_600, 16_300, 24, 194_000),
        "medium": (2_500, 1_650, 16, 20_500),
        "small": (500, 220, 12, 4_100),
    },
    "power-law": {"full": (6_000, 10_000, 24, 250_000), "small": (300, 400, 12, 9_000)},
}
SHOPPERS = ChoiceModel(
    drift=0.3, trend=0.5, freshness=1.5, momentum=0.5, closeness=2.5, taste=2.0, follow=0.3
)
DRIFTING = ChoiceModel(
    drift=0.7, trend=1.2, freshness=3.0, half_life=30.0, momentum=0.3, closeness=1.5, taste=2.0, follow=0.2
)


def amazon_like(seed: int = 0, size: str = "full") -> Dataset:
    """A log of shoppers: about 23,000 users, 11,500 items, 180,000 events; users and items have 5 or more (5-core).

    The median history has 6 events. Half the next items stay in the category of the last one, and three in ten are a
    successor of it, of the same brand. Times are whole days and come in bursts: more than half the events share their
    day with the one before, and keep their order in the log. The catalogue has titles, categories and brands.
    """
    n_users, n_items, n_categories, n_events = _sizes("amazon-like", size)
    world = make_world(
        n_users, n_items, n_categories, seed, days=1500.0, choice_model=SHOPPERS, popularity=0.6
    )
    rng = np.random.default_rng([seed, 11])
    brands, lifetimes = _brands(world, rng), rng.uniform(*LIFETIMES, n_users).astype(np.float32)
    world = replace(
        world,
        vectors=_near_brand(world, brands, rng),
        successors=sample_successors(brands, world.appeal, SUCCESSORS, rng),
        activity=_activity(rng, n_users, exponent=2.6, longest=40.0),
        lifetimes=lifetimes,
        arrivals=_arrivals(rng, lifetimes),
    )
    log = simulate_log(world, n_events, seed)
    log = replace(log, name="amazon-like", events=_whole_days(log.events, rng), catalog=_branded(log, brands))
    return apply_filters(log, LogFilters(False, None, CORE, CORE, core=True))[0]


def power_law(seed: int = 0, size: str = "full") -> Dataset:
    """A log with long tails: 6,000 users, 10,000 items, 250,000 events; what is popular changes month by month.

    Histories and popularity follow power laws: the most active user has up to 100 times the events of the least active
    one, and many items have a handful of events. New items have a bonus that halves every 30 days, categories have
    cycles, and interests of users move by 70 % while they are active. Two in ten next items are successors of the last.
    """
    n_users, n_items, n_categories, n_events = _sizes("power-law", size)
    world = make_world(n_users, n_items, n_categories, seed, choice_model=DRIFTING, popularity=1.1)
    rng = np.random.default_rng([seed, 12])
    lifetimes = rng.uniform(*LIFETIMES, n_users).astype(np.float32)
    world = replace(
        world,
        successors=sample_successors(world.categories, world.appeal, SUCCESSORS, rng),
        activity=_activity(rng, n_users, exponent=1.2, longest=100.0),
        lifetimes=lifetimes,
        arrivals=_arrivals(rng, lifetimes),
    )
    return replace(simulate_log(world, n_events, seed), name="power-law")


def _sizes(name: str, size: str) -> tuple[int, int, int, int]:
    known = SIZES[name]
    if size not in known:
        raise ConfigError(f"{name}: expected a size of {', '.join(known)}, got {size!r}")
    return known[size]


def _activity(rng: np.random.Generator, n_users: int, exponent: float, longest: float) -> NDArray[np.float32]:
    """Shares of events with a Pareto distribution, at most `longest` times the least [U]."""
    weights = np.minimum(rng.pareto(exponent, n_users) + 1, longest)
    return np.asarray(weights / weights.sum(), np.float32)


def _arrivals(rng: np.random.Generator, lifetimes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Random arrivals of users who leave before the end of the log [U]."""
    return (rng.random(len(lifetimes)) * (1 - lifetimes)).astype(np.float32)


def _brands(world: World, rng: np.random.Generator) -> NDArray[np.int64]:
    """The brand of each item: about 20 in a category, some larger than others [I]."""
    per_category = max(2, min(20, world.n_items // (10 * len(world.phases))))
    shares = 1 / np.arange(1, per_category + 1)
    own = rng.choice(per_category, world.n_items, p=shares / shares.sum())
    return np.asarray(world.categories * per_category + own, np.int64)


def _near_brand(world: World, brands: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
    """Item vectors moved towards the centre of their brand, of unit length [I, D]."""
    centres = rng.standard_normal((int(brands.max()) + 1, world.vectors.shape[1]), np.float32)
    vectors = world.vectors + 0.8 * centres[brands] / np.linalg.norm(centres[brands], axis=1, keepdims=True)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _whole_days(events: Interactions, rng: np.random.Generator) -> Interactions:
    """The same events at whole days; some events of a session are a day after the one before, never earlier."""
    later = np.cumsum(rng.random(len(events)) < LATER)
    first = events.starts[:-1].clip(max=len(events) - 1)
    days = events.times // DAY + later - later[first][events.users]
    return Interactions.of(events.users, events.items, days * DAY, None, events.n_users, events.n_items)


def _branded(log: Dataset, brands: NDArray[np.int64]) -> Catalog:
    names = [f"brand {row}" for row in brands]
    return Catalog(log.items, log.catalog.table.append_column("brand", [names]))
