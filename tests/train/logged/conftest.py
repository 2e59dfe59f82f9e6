"""A log of the small pipeline, written once."""

import pytest

from shortlist.pipeline import parse_recipe
from shortlist.train.pipeline import train_pipeline
from tests.train.logged.served import RECIPE, serve


@pytest.fixture(scope="session")
def served(world):
    """The recommender that serves."""
    return train_pipeline(parse_recipe(RECIPE, "served.toml"), world).recommender


@pytest.fixture(scope="session")
def log_folder(world, served, tmp_path_factory):
    return serve(tmp_path_factory.mktemp("logged") / "log", world, served.pipeline)
