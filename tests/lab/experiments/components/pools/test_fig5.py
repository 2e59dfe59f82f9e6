import pytest

from shortlist.errors import ArtifactError, ConfigError
from shortlist.lab.experiments.components.pools import fig5
from shortlist.lab.experiments.components.pools.data import Sizes
from shortlist.lab.experiments.components.pools.fig5 import DRAWN, components_fig5
from shortlist.lab.experiments.components.pools.methods import CORE, MITIGATIONS
from shortlist.lab.experiments.components.pools.points import EURLEX
from shortlist.lab.render import result_drawing
from tests.lab.experiments.results import check_result, points


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("fig5") / "cells.safetensors"


@pytest.fixture(scope="module")
def found(cache):
    return components_fig5(None, "quick", [0, 1], cache_file=cache)


def test_every_system_is_measured_at_every_point(found):
    check_result(found, "components-fig5")
    for method in DRAWN:
        assert set(points(found, f"{method.name} on c", "precision@5")) == {20, 60}
    means = {(one.method, one.metric): one.mean for one in found.rows}
    for method in (*CORE, *MITIGATIONS):
        assert means[f"{method.name} at the centre", "precision@5 of nominated"] > 0
    place = " at the centre"
    assert means["popularity" + place, "precision@5"] < means["best by all features" + place, "precision@5"]
    assert means["best by all features" + place, "recall@5"] < means["ceiling" + place, "recall@5"]
    assert "Highest precision@5 by c: 20:" in found.note
    assert result_drawing(found).startswith("<svg")


def test_a_second_run_takes_everything_from_the_cache(found, cache, monkeypatch):
    monkeypatch.delattr(fig5, "Run")
    again = components_fig5(None, "quick", [0, 1], cache_file=cache)
    assert again.rows == found.rows
    assert again.claims == found.claims


def test_a_cache_of_other_settings_is_refused(found, cache, monkeypatch):
    monkeypatch.setattr(Sizes, "small", lambda: Sizes(12, 20, 4, 2.0, (100, 50, 50)))
    with pytest.raises(ArtifactError, match="other settings"):
        components_fig5(None, "quick", [0, 1], cache_file=cache)


def test_documents_have_an_experiment_of_their_own():
    result = components_fig5(None, "quick", [0], where=EURLEX)
    check_result(result, "components-fig5-eurlex")
    assert not any("kappa" in one.method for one in result.rows)


def test_missing_data_and_unknown_profiles_are_refused():
    with pytest.raises(ConfigError, match="eurlex: the full profile needs --data"):
        components_fig5(None, "full", where=EURLEX)
    with pytest.raises(ConfigError, match="quick or full"):
        components_fig5(None, "medium")
