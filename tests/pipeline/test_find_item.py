"""Items by id or title: the first of id, title, beginning and part of a title that finds any."""

import pyarrow as pa
import pytest

from shortlist.data import Catalog, Vocabulary
from shortlist.errors import ConfigError
from shortlist.pipeline.find_item import find_history, find_item, find_items

TITLES = {
    "1": "Toy Story (1995)",
    "2": "Toy Story 2 (1999)",
    "3": "Matrix, The (1999)",
    "4": "Heat (1995)",
    "Heat": "An id like a title",
    "5": "Solaris",
    "6": "Solaris",
    "7": None,
    "8": "Crouching Tiger, Hidden Dragon (2000)",
    "9": "L'ÉTÉ [red]",
}
CATALOG = Catalog(Vocabulary.of(list(TITLES)), pa.table({"title": list(TITLES.values())}))


@pytest.mark.parametrize(
    ("text", "item", "by"),
    [
        ("4", "4", "id"),
        ("Heat", "Heat", "id"),
        ("heat (1995)", "4", "title"),
        ("toy story", "1", "title"),
        ("Toy Story 2", "2", "title"),
        (" MATRIX ", "3", "prefix"),
        ("hidden", "8", "substring"),
        ("l'été", "9", "prefix"),
        ("[red]", "9", "substring"),
    ],
)
def test_item_is_found_by_the_most_exact_match(text, item, by):
    found = find_items(CATALOG, text)
    assert (CATALOG.vocabulary.ids_of(found.rows), found.by, found.unique) == ([item], by, True)
    assert CATALOG.vocabulary.id(find_item(CATALOG, text)) == item


def test_ambiguous_title_is_refused_with_ids_and_titles():
    with pytest.raises(
        ConfigError, match=r"'toy' may be one of 2 items, give its id: 1 \(Toy Story \(1995\)\); 2"
    ):
        find_item(CATALOG, "toy")
    with pytest.raises(ConfigError, match=r"5 \(Solaris\); 6 \(Solaris\)"):
        find_item(CATALOG, "solaris")


def test_at_most_ten_candidates_are_named():
    many = Catalog(Vocabulary.of(list(range(30))), pa.table({"title": [f"Part {row}" for row in range(30)]}))
    with pytest.raises(
        ConfigError, match=r"one of 30 items, give its id: 0 \(Part 0\); .* and 20 more$"
    ) as refused:
        find_item(many, "part")
    assert str(refused.value).count("(Part") == 10


def test_unknown_title_is_refused_with_similar_ones():
    with pytest.raises(
        ConfigError, match=r"'Toi Storey' is not in the catalogue of 10 items; the most .* 1 \("
    ):
        find_item(CATALOG, "Toi Storey")
    with pytest.raises(ConfigError, match="check the id or the title"):
        find_item(CATALOG, "qqq")
    with pytest.raises(ConfigError, match="check the id or the title"):
        find_item(Catalog.bare(Vocabulary.of(["a"])), "b")


def test_unknown_number_is_not_searched_inside_titles():
    assert find_items(CATALOG, "99").by == "similar"
    assert find_items(CATALOG, "").rows == ()


def test_history_holds_ids_and_whole_titles_with_commas():
    text = "4, matrix, the (1999),Crouching Tiger, Hidden Dragon (2000) , 99, toy, 1,"
    assert find_history(CATALOG, text) == ["4", "3", "8", "99", "toy", "1"]
    assert find_history(CATALOG, "1,4") == ["1", "4"]
    assert find_history(CATALOG, "") == []
    with pytest.raises(ConfigError, match=r"'Solaris' may be one of 2 items"):
        find_history(CATALOG, "1, Solaris")
    assert find_history(Catalog.bare(Vocabulary.of(["a"])), "a, b") == ["a", "b"]
