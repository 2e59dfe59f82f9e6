"""The configuration: validation and round trip."""

import json

import pytest

from shortlist.errors import ConfigError
from shortlist.models.nodes import ScorerConfig


def test_max_history_is_the_sum_of_the_windows():
    assert ScorerConfig(5).max_history == 69
    assert ScorerConfig(5, windows=(3, 1)).max_history == 4


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("kind", ("linear", "mlp", "attention")),
        ("history", ("ancestor", "item")),
        ("pool", ("sum", "mean")),
        ("norm", ("none", "layer", "batch")),
        ("output", ("linear", "bn_prelu")),
    ],
)
def test_an_unknown_choice_is_refused_with_the_known_ones(name, choices):
    with pytest.raises(ConfigError) as caught:
        ScorerConfig(5, **{name: "wrong"})
    message = str(caught.value)
    assert all(word in message for word in (name, "'wrong'", *choices))


@pytest.mark.parametrize(
    "changes",
    [
        {"n_rows": 0},
        {"n_rows": True},
        {"n_rows": 2.0},
        {"width": 0},
        {"hidden": -1},
        {"layers": ()},
        {"layers": (3, 0)},
        {"windows": 3},
        {"windows": (1, "2")},
        {"history": "item"},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"spread": 0.0},
        {"spread": float("nan")},
    ],
)
def test_invalid_sizes_are_refused(changes):
    with pytest.raises(ConfigError, match=r"must (be|have|lie)"):
        ScorerConfig(**({"n_rows": 5} | changes))


def test_settings_round_trip_through_json():
    config = ScorerConfig(5, n_items=3, history="item", layers=(4,), windows=(2, 1), dropout=0.1)
    assert ScorerConfig.of(json.loads(json.dumps(config.settings()))) == config


def test_unknown_or_missing_settings_are_refused():
    with pytest.raises(ConfigError, match=r"unknown key 'depth'.*windows"):
        ScorerConfig.of({"n_rows": 5, "depth": 3})
    with pytest.raises(ConfigError, match="n_rows"):
        ScorerConfig.of({"width": 3})
