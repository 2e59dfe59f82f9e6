"""Titles: distinct, reproducible, and recognisable by category."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.themes import ADJECTIVES, THEMES
from shortlist.simulate.titles import category_names, make_titles


def test_a_hundred_thousand_titles_are_distinct_without_a_part_number() -> None:
    categories = np.arange(100_000) % len(THEMES)
    titles = make_titles(categories, seed=0)
    assert len(set(titles)) == 100_000
    assert not any(", part" in title for title in titles)


def test_a_category_without_unused_titles_adds_part_numbers() -> None:
    count = 2 * len(ADJECTIVES) * 14 * 10
    titles = make_titles(np.zeros(count, np.int64), seed=0)
    assert len(set(titles)) == count
    assert any(title.endswith(", part 2") for title in titles)


def test_small_worlds_have_short_titles_with_a_noun_of_their_category() -> None:
    categories = np.arange(240) % len(THEMES)
    for row, title in zip(categories, make_titles(categories, seed=4), strict=True):
        the, adjective, noun = title.split()
        assert (the, adjective in ADJECTIVES, noun in THEMES[row].nouns) == ("The", True, True)


def test_titles_depend_only_on_the_seed() -> None:
    categories = np.arange(50) % 5
    assert make_titles(categories, seed=1) == make_titles(categories, seed=1)
    assert make_titles(categories, seed=1) != make_titles(categories, seed=2)


def test_no_noun_and_no_name_is_used_in_two_categories() -> None:
    nouns = [noun for theme in THEMES for noun in theme.nouns]
    assert len(nouns) == len(set(nouns))
    assert len({theme.name for theme in THEMES}) == len(THEMES) >= 24


def test_an_invalid_number_of_categories_is_refused() -> None:
    assert category_names(2) == ["sea stories", "space"]
    with pytest.raises(ConfigError, match="between 1 and 24, got 0"):
        category_names(0)
