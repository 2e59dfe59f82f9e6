"""A bundle of a log whose items have several categories: trained, saved, loaded and served with lists."""

from dataclasses import replace

import pyarrow as pa

import shortlist
from shortlist.data import Catalog

RECIPE = """
name = "lists"
pipeline = "popular % 40 + covisit % 20 >> seen >> available >> diverse % 5"

[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.seen]
type = "seen"
[stages.available]
type = "available"
never = ["sea"]
[stages.diverse]
type = "diverse"
"""


def test_bundle_reads_every_category_of_an_item(world, tmp_path):
    lists = [[name, "sea"] if row % 3 == 0 else [name] for row, name in enumerate(_first(world))]
    catalog = Catalog(
        world.items, pa.table({"title": [f"t{row}" for row in range(len(lists))], "category": lists})
    )
    recipe = tmp_path / "lists.toml"
    recipe.write_text(RECIPE)
    bundle = shortlist.train(recipe, replace(world, catalog=catalog), out=tmp_path / "bundle")
    for row in range(5):
        slate = bundle.recommendations(bundle.recommend(shortlist.Request(user=world.users.id(row))))
        assert slate
        assert all("sea" not in one.categories for one in slate), "excluded by its second category"


def _first(world):
    return [world.catalog.category(row) for row in range(len(world.items))]
