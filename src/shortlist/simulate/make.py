"""Build a world of any size from a seed."""

import math

import numpy as np

from shortlist.errors import ConfigError
from shortlist.simulate.themes import category_names
from shortlist.simulate.world import DAY, ChoiceModel, Floats, Rows, World

START = 1_704_067_200_000  # 2024-01-01, so that times are realistic
FAVOURITES = 3  # preferred categories per user
OPEN = 0.1  # share of interest that is spread over all categories


def make_world(
    n_users: int,
    n_items: int,
    n_categories: int = 24,
    seed: int = 0,
    *,
    dim: int = 16,
    days: float = 180.0,
    choice_model: ChoiceModel | None = None,
    popularity: float = 0.9,
    activity: float = 1.6,
) -> World:
    """A world in which the item of rank r within its category has appeal r^-popularity.

    The number of events per user has a Pareto distribution with exponent `activity`, capped at ten times the minimum.
    """
    _check(seed, n_users=n_users, n_items=n_items, dim=dim, days=days, activity=activity)
    if not 0 <= popularity < math.inf:
        raise ConfigError(f"world: popularity must be 0 or a finite number above, got {popularity!r}")
    n_categories = min(len(category_names(n_categories)), n_items)
    rng = np.random.default_rng([seed, 0])
    choice_model = ChoiceModel() if choice_model is None else choice_model
    categories = _categories(rng, n_items, n_categories)
    lifetimes = rng.uniform(0.08, 0.25, n_users).astype(np.float32)
    return World(
        seed=seed,
        start=START,
        days=days,
        choice_model=choice_model,
        categories=categories,
        vectors=_vectors(rng, categories, dim),
        appeal=_appeal(rng, categories, popularity),
        release_times=_release_times(rng, categories, days),
        interests=_interests(rng, n_users, n_categories),
        tastes=choice_model.taste * rng.standard_normal((2, n_users, dim), np.float32),
        activity=_activity(rng, n_users, activity),
        arrivals=(rng.random(n_users) * (1 - lifetimes)).astype(np.float32),
        lifetimes=lifetimes,
        phases=rng.random(n_categories, np.float32),
    )


def _check(seed: int, **sizes: float) -> None:
    if seed < 0:
        raise ConfigError(f"world: seed must not be negative, got {seed!r}")
    for name, size in sizes.items():
        if not 0 < size < math.inf:
            raise ConfigError(f"world: {name} must be positive, got {size!r}")


def _categories(rng: np.random.Generator, n_items: int, n_categories: int) -> Rows:
    """The category of each item; every category has at least one item, the first ones have more [I]."""
    weights = 1 / np.sqrt(np.arange(1, n_categories + 1))
    rest = rng.choice(n_categories, n_items - n_categories, p=weights / weights.sum())
    return rng.permutation(np.concatenate([np.arange(n_categories), rest])).astype(np.int64)


def _vectors(rng: np.random.Generator, categories: Rows, dim: int) -> Floats:
    """Item vectors around the centre of their category, of unit length [I, D]."""
    centres = rng.standard_normal((int(categories.max()) + 1, dim), np.float32)
    vectors = 0.7 * centres[categories] + rng.standard_normal((len(categories), dim), np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _appeal(rng: np.random.Generator, categories: Rows, power: float) -> Floats:
    """Power-law popularity by a random rank within each category, where it sums to 1 [I]."""
    shuffled = rng.permutation(len(categories))
    order = shuffled[np.argsort(categories[shuffled], kind="stable")]  # by category, random within
    sizes = np.bincount(categories)
    ranks = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    appeal = np.empty(len(order))
    appeal[order] = (ranks + 1.0) ** -power
    return (appeal / np.bincount(categories, appeal)[categories]).astype(np.float32)


def _release_times(rng: np.random.Generator, categories: Rows, days: float) -> Rows:
    """About half the items are released before the start, among them one of each category [I]."""
    release_times = START + (rng.uniform(-1, 1, len(categories)) * days * DAY).astype(np.int64)
    _, first = np.unique(categories, return_index=True)
    release_times[first] = np.minimum(release_times[first], START)
    return release_times


def _interests(rng: np.random.Generator, n_users: int, n_categories: int) -> Floats:
    """Category shares of each user on arrival and departure; one of three favourites changes [2, U, C]."""
    general = 1 / np.sqrt(np.arange(1, n_categories + 1))
    general /= general.sum()
    # The top k of log weight + Gumbel noise are a weighted sample without replacement.
    keys = np.log(general) + rng.gumbel(size=(n_users, n_categories))
    ranked = np.argsort(-keys, axis=1)[:, : FAVOURITES + 1]  # [U, 4]
    weights = rng.dirichlet(np.full(FAVOURITES, 1.5), n_users)  # [U, 3]
    both = np.broadcast_to(OPEN * general, (2, n_users, n_categories)).copy()
    for phase in range(2):
        liked = ranked[:, phase : phase + FAVOURITES]
        shares = weights[:, : liked.shape[1]] / weights[:, : liked.shape[1]].sum(axis=1, keepdims=True)
        np.put_along_axis(
            both[phase], liked, np.take_along_axis(both[phase], liked, 1) + (1 - OPEN) * shares, 1
        )
    return both.astype(np.float32)


def _activity(rng: np.random.Generator, n_users: int, exponent: float) -> Floats:
    """The share of events of each user [U]."""
    weights = np.minimum(rng.pareto(exponent, n_users) + 1, 10.0)
    return np.asarray(weights / weights.sum(), np.float32)
