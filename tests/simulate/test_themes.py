"""The words of titles: their number and form."""

from shortlist.simulate.themes import ADJECTIVES, THEMES


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
