"""A new stateless filter is one class: TOML, train, save, load and serve work without a trainer."""

import asyncio
from dataclasses import dataclass

import httpx
import pytest
from torch import Tensor

from shortlist import load, train
from shortlist.artifact.as_json import as_json
from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Filter, leaves
from shortlist.pipeline import find_recipe
from shortlist.pipeline.recommender import Request
from shortlist.pipeline.registry import TYPES, register
from shortlist.serve import make_app
from shortlist.settings import setting
from shortlist.testing.stages import check_stage

RECIPE = """
name = "toy"
pipeline = "popular % 50 >> multiples % 10"

[stages.popular]
type = "popular"

[stages.multiples]
type = "multiples"
of = 3
"""


@dataclass(frozen=True, eq=False, repr=False)
class Multiples(Filter):
    """Keep the items whose row is a multiple of `of`."""

    of: int = setting(2, "Divisor of the kept rows.", least=1, most=100)

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return found.items % self.of == 0


@pytest.fixture
def recipe(tmp_path):
    register("multiples", Multiples)
    path = tmp_path / "toy.toml"
    path.write_text(RECIPE)
    yield path
    del TYPES["multiples"]


async def post(app, path, body):
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shortlist") as client,
    ):
        return (await client.post(path, json=body)).json()


def test_filter_keeps_the_contract():
    check_stage(Multiples(of=3), n_items=20)


def test_filter_goes_from_toml_through_training_and_disk_to_the_service(recipe, world, tmp_path):
    trained = train(recipe, world, tmp_path / "bundle")
    loaded = load(tmp_path / "bundle")
    assert [stage.of for stage in leaves(loaded.pipeline) if isinstance(stage, Multiples)] == [3]
    user = trained.users.id(0)
    slate = loaded.recommend(Request(user=user, k=5))
    assert all(row % 3 == 0 for row in slate.items[0].tolist() if row >= 0)
    assert slate.items.tolist() == trained.recommend(Request(user=user, k=5)).items.tolist()
    response = asyncio.run(post(make_app(loaded), "/v1/recommend", {"user_id": user, "k": 5}))
    assert response["items"] == as_json(loaded.recommendations(slate))
    assert len(response["items"]) == 5


def test_setting_of_the_filter_is_checked_with_its_range(recipe):
    recipe.write_text(RECIPE.replace("of = 3", "of = 0"))
    with pytest.raises(ConfigError, match=r"toy.toml:10: .* of must lie between 1 and 100, got 0"):
        find_recipe(recipe)


def test_filter_without_trainer_takes_no_training_settings(recipe, world):
    recipe.write_text(RECIPE + "\n[stages.multiples.train]\nepochs = 3\n")
    with pytest.raises(ConfigError, match=r"\[stages.multiples.train\]: unknown key 'epochs'"):
        train(recipe, world)
