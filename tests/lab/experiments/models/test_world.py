import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.models.world import demo_world


def test_random_popularity_neighbours_and_truth_rank_in_this_order():
    result = demo_world(None, "quick", seeds=[0])
    means = {one.method: one.mean for one in result.rows if one.metric == "recall@20"}
    assert means["random"] < means["popularity"] < means["item neighbours"] < means["truth"]
    assert [one.id for one in result.claims] == [
        "popularity > random",
        "item neighbours > popularity",
        "truth > item neighbours",
    ]


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="quick or full"):
        demo_world(None, "medium")
