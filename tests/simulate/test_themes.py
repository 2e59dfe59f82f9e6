"""Titles: number and form of their words; distinct, reproducible, and recognisable by category."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.themes import ADJECTIVES, THEMES, category_names, make_titles


def test_every_category_has_the_same_number_of_words() -> None:
    assert {(len(theme.nouns), len(theme.ends)) for theme in THEMES} == {(14, 9)}
    assert len(ADJECTIVES) == len(set(ADJECTIVES)) == 40


def test_nouns_and_adjectives_are_single_capitalised_words() -> None:
    words = [*ADJECTIVES, *(noun for theme in THEMES for noun in theme.nouns)]
    assert [word for word in words if not (word.isalpha() and word == word.capitalize())] == []


def test_no_word_is_both_an_adjective_and_a_noun() -> None:
    assert set(ADJECTIVES).isdisjoint(noun for theme in THEMES for noun in theme.nouns)


def test_endings_are_lower_case_and_distinct_within_a_category() -> None:
    for theme in THEMES:
        assert len(set(theme.ends)) == len(theme.ends), theme.name
        assert all(end[0].islower() and end == " ".join(end.split()) for end in theme.ends), theme.name


def test_the_three_kinds_of_titles_of_a_category_are_disjoint() -> None:
    for theme in THEMES:
        short = {f"{adjective} {noun}" for adjective in ADJECTIVES for noun in theme.nouns}
        ended = {f"{noun} {end}" for noun in theme.nouns for end in theme.ends}
        long = {f"{title} {end}" for title in short for end in theme.ends}
        assert len(short | ended | long) == 40 * 14 + 14 * 9 + 40 * 14 * 9, theme.name


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
