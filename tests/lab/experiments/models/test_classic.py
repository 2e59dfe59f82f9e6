import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.models.classic import classic_ml1m
from shortlist.pipeline import parse_recipe
from tests.conftest import TINY


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(
        "shortlist.lab.experiments.models.classic.shipped_recipe", lambda _: parse_recipe(TINY)
    )


def test_the_quick_profile_gives_rows_and_claims_for_every_system(quick):
    result = classic_ml1m(None, "quick", seeds=[0])
    methods = {one.method for one in result.rows}
    assert {"pipeline", "popularity", "popular", "covisit", "towers", "up to seen", "up to rank"} <= methods
    claims = {one.id: one for one in result.claims}
    assert set(claims) == {f"pipeline > {name}" for name in ("popularity", "popular", "covisit", "towers")}
    assert claims["pipeline > popularity"].holds
    lost = [one.mean for one in result.rows if one.method.startswith("lost at")]
    found = next(one for one in result.rows if one.method == "pipeline")
    assert 0 < sum(lost) < 1
    assert found.mean > 0


def test_a_profile_without_its_data_is_refused():
    with pytest.raises(ConfigError, match="needs --data"):
        classic_ml1m(None, "full")
    with pytest.raises(ConfigError, match="quick or full"):
        classic_ml1m(None, "medium")
