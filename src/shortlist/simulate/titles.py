"""Names for items that a person can judge at a glance: films whose title tells their category."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.simulate.themes import ADJECTIVES, THEMES, Theme


def make_titles(categories: NDArray[np.int64], seed: int) -> list[str]:
    """A title for every item, all distinct, the short ones first; `categories` [I] are rows of `THEMES`."""
    titles = [""] * len(categories)
    for row in np.unique(categories):
        names = _names(THEMES[row], np.random.default_rng([seed, int(row)]))
        for item in np.flatnonzero(categories == row):
            titles[item] = next(names)
    return titles


def category_names(n_categories: int) -> list[str]:
    """The names of the first so many categories."""
    if not 1 <= n_categories <= len(THEMES):
        raise ConfigError(f"world: n_categories must lie between 1 and {len(THEMES)}, got {n_categories!r}")
    return [theme.name for theme in THEMES[:n_categories]]


def _names(theme: Theme, rng: np.random.Generator) -> Iterator[str]:
    """Titles of one category without end; once all are used up, they get a part number."""
    short = [f"The {adjective} {noun}" for adjective in ADJECTIVES for noun in theme.nouns]
    ended = [f"The {noun} {end}" for noun in theme.nouns for end in theme.ends]
    long = [f"{title} {end}" for title in short for end in theme.ends]
    names = [group[at] for group in (short, ended, long) for at in rng.permutation(len(group))]
    yield from names
    part = 2
    while True:
        yield from (f"{name}, part {part}" for name in names)
        part += 1
