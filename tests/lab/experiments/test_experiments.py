"""What all experiments have in common."""

import inspect

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments import EXPERIMENTS, FIGURES

UNREAL = (
    "demo-world",
    "dtr-table3",
    "dtr-table7",
    "dtr-table9",
    "planted-stage",
    "tree-speed-h200",
)  # need no data


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_unknown_profile_is_refused(name):
    with pytest.raises(ConfigError, match="quick or full"):
        EXPERIMENTS[name](None, "medium")


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - set(UNREAL)))
def test_a_full_profile_without_its_data_is_refused(name):
    with pytest.raises(ConfigError, match="needs --data"):
        EXPERIMENTS[name](None, "full")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_asked_in_the_same_way(name):
    asked = list(inspect.signature(EXPERIMENTS[name]).parameters)
    assert asked[:4] == ["data", "profile", "seeds", "progress"]


def test_every_figure_is_there_for_both_data_sets():
    assert {f"{name}-mind" for name in FIGURES} < set(EXPERIMENTS)
