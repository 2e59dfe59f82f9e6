"""`describe_types` lists every setting once, and the tables of the docs are generated from it."""

from pathlib import Path

import pytest

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError
from shortlist.pipeline import TYPES
from shortlist.train.type_settings import (
    MARKED,
    describe_type,
    describe_types,
    markdown_table,
    shown,
    with_tables,
)

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if MARKED.search(page.read_text("utf-8"))]


def test_every_type_is_described_with_a_meaning():
    types = describe_types()
    assert [one.type for one in types] == list(TYPES)
    assert all(
        one.meaning.endswith(".") and one.kind in ("nominator", "filter", "scorer", "selector")
        for one in types
    )
    as_json(types)


def test_settings_of_stage_model_and_trainer_are_told_apart():
    parts = {one.name: (one.table, one.part) for one in describe_type("sasrec").settings}
    assert parts["exclude_seen"] == ("[stages.NAME]", "stage")
    assert parts["width"] == ("[stages.NAME.train]", "model")
    assert parts["epochs"] == ("[stages.NAME.train]", "trainer")
    assert "n_items" not in parts
    assert "name" not in parts


@pytest.mark.parametrize("name", TYPES)
def test_no_setting_of_a_type_is_described_twice(name):
    names = [(one.table, one.name) for one in describe_type(name).settings]
    assert len(names) == len(set(names))


def test_unknown_type_is_refused_with_similar_names():
    with pytest.raises(ConfigError, match="unknown type 'sasrek'; did you mean sasrec"):
        describe_type("sasrek")
    with pytest.raises(ConfigError, match='replaced by type = "popular" with days'):
        describe_type("popular-in-window")


def test_markdown_table_has_one_row_per_setting():
    lines = markdown_table("ease", "trainer").splitlines()
    assert lines[:4] == [
        "| setting | default | range | meaning |",
        "|---|---|---|---|",
        "| `ridge` | `250` | 1e-09 to 1e+12 | L2 regularisation. |",
        '| `weights` | `"use"` | use, implicit | Weights of events: use them, or count every event once (implicit). |',
    ]
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["`examples`", "`pools`"]
    assert markdown_table("sasrec").count("\n") == 2 + len(describe_type("sasrec").settings)


def test_values_are_shown_as_in_toml():
    assert [shown(value) for value in (None, True, 3, 0.001, "a", (1, 2))] == [
        "",
        "true",
        "3",
        "0.001",
        '"a"',
        "[1, 2]",
    ]


def test_marked_tables_are_generated_again():
    page = "before\n<!-- settings:ease:trainer -->\nold\n<!-- /settings -->\nafter\n"
    again = with_tables(page)
    assert "`ridge`" in again
    assert "old" not in again
    assert with_tables(again) == again


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_tables_of_the_docs_are_up_to_date(page):
    text = page.read_text("utf-8")
    assert with_tables(text) == text, f"run: python -m shortlist.train.type_settings {page.name}"
