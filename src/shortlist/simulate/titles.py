"""Film titles for simulated items; a title shows the category of its item."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.simulate.themes import ADJECTIVES, THEMES, Theme


def make_titles(categories: NDArray[np.int64], seed: int) -> list[str]:
    """A distinct title for every item, short ones first; `categories` [I] are rows of `THEMES`."""
    titles = [""] * len(categories)
    for row in np.unique(categories):
        names = _names(THEMES[row], np.random.default_rng([seed, int(row)]))
        for item in np.flatnonzero(categories == row):
            titles[item] = next(names)
    return titles


def category_names(n_categories: int) -> list[str]:
    """The names of the first `n_categories` categories."""
    if not 1 <= n_categories <= len(THEMES):
        raise ConfigError(f"world: n_categories must lie between 1 and {len(THEMES)}, got {n_categories!r}")
    return [theme.name for theme in THEMES[:n_categories]]


def _names(theme: Theme, rng: np.random.Generator) -> Iterator[str]:
    """An endless sequence of titles of one category; after all combinations, a part number is added."""
    short = [f"The {adjective} {noun}" for adjective in ADJECTIVES for noun in theme.nouns]
    ended = [f"The {noun} {end}" for noun in theme.nouns for end in theme.ends]
    long = [f"{title} {end}" for title in short for end in theme.ends]
    names = [group[at] for group in (short, ended, long) for at in rng.permutation(len(group))]
    yield from names
    part = 2
    while True:
        yield from (f"{name}, part {part}" for name in names)
        part += 1
