"""Properties of all experiments."""

import inspect

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments import EXPERIMENTS, FIGURES

WITHOUT_DATA = (
    "2ts-drift",
    "2ts-fig2-tenth",
    "2ts-fig2-unit",
    "2ts-fig3-full",
    "2ts-fig3-unit",
    "2ts-fig4-unit",
    "2ts-table1-full",
    "2ts-table1-unit",
    "2ts-table3-unit",
    "2ts-threshold-unit",
    "2ts-theory",
    "components-fig3",
    "components-fig4",
    "components-prop2",
    "components-fig5",
    "demo-world",
    "dtr-table3",
    "dtr-table7",
    "dtr-table9",
    "fsltr-assumptions",
    "fsltr-assumptions-small",
    "fsltr-closed-loop",
    "fsltr-closed-loop-small",
    "fsltr-ladder",
    "fsltr-ladder-small",
    "fsltr-recipes",
    "fsltr-recipes-small",
    "fsltr-table3",
    "fsltr-table3-small",
    "fsltr-table4",
    "fsltr-table4-small",
    "fsltr-table5",
    "fsltr-table5-small",
    "planted-stage",
    "planted-trained",
    "tree-speed-h200",
)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_unknown_profile_is_refused(name):
    with pytest.raises(ConfigError, match="quick or full"):
        EXPERIMENTS[name](None, "medium")


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - set(WITHOUT_DATA)))
def test_a_full_profile_without_its_data_is_refused(name):
    with pytest.raises(ConfigError, match="needs --data"):
        EXPERIMENTS[name](None, "full")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_the_same_first_parameters(name):
    parameters = list(inspect.signature(EXPERIMENTS[name]).parameters)
    assert parameters[:4] == ["data", "profile", "seeds", "progress"]


def test_every_figure_exists_for_both_data_sets():
    assert {f"{name}-mind" for name in FIGURES} < set(EXPERIMENTS)
