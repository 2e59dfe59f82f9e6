from contextlib import contextmanager

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.two_stage import planted_cells
from shortlist.lab.experiments.two_stage.planted_cells import (
    CONTROL,
    CUT,
    MISSING,
    PLANTS,
    STAGES,
    STALE,
    PlantedCell,
    TrainedTrial,
    recipe_of,
)
from shortlist.lab.experiments.two_stage.planted_trained import _harmless, planted_trained
from tests.lab.experiments.results import check_result

SHORT = """
pipeline = "ease + popular >> prerank >> rank"

[stages.ease]
type = "ease"
exclude_seen = true

[stages.popular]
type = "popular"
exclude_seen = true

[stages.prerank]
type = "feature-ranker"
train.epochs = 1

[stages.rank]
type = "feature-ranker"
train.epochs = 4
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("planted") / "cells.safetensors"


@contextmanager
def short_trainings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planted_cells, "KNOBS", ("nominator",))
        patch.setattr(planted_cells, "HEALTHY", SHORT)
        patch.setitem(planted_cells.LIMITS, "quick", {"ease": 20, "popular": 20})
        patch.setattr(planted_cells, "OLD", 0.01)
        yield patch


@pytest.fixture(scope="module")
def quick(cache):
    with short_trainings():
        return planted_trained(None, "quick", [0], cache_file=cache, only=[f"{MISSING}/*", f"{STALE}/*"])


def test_a_missing_nominator_and_a_stale_one_are_named_by_retraining(quick):
    check_result(quick, "planted-trained")
    holds = {one.id: one.holds for one in quick.claims}
    assert holds[f"{MISSING}: named first with retraining"]
    assert holds[f"{STALE}: named first with retraining"]


def test_cells_that_were_not_run_are_named_and_those_in_the_cache_are_not_run_again(quick, cache):
    assert quick.skipped == {f"{plant}/0": "not run" for plant in PLANTS if plant not in (MISSING, STALE)}

    def refused(*_):
        raise AssertionError

    with short_trainings() as patch:
        patch.setattr(planted_cells._World, "trial", refused)
        again = planted_trained(None, "quick", [0], cache_file=cache, only=[f"{MISSING}/*"])
    assert again.rows == quick.rows


def test_every_plant_changes_the_recipe_or_the_data_of_one_stage():
    healthy = recipe_of(CONTROL, "full")
    for plant in PLANTS:
        weak = recipe_of(plant, "full")
        changed = (weak.expression, weak.stages) != (healthy.expression, healthy.stages)
        assert changed == (plant not in (CONTROL, STALE))
    assert set(STAGES) == set(PLANTS) - {CONTROL}


def test_a_trial_is_right_if_the_planted_stage_is_first_or_nothing_is_advised_without_training():
    named = TrainedTrial(CUT, 0.3, "prerank", 0.1, "")
    assert named.named
    assert named.fair
    wrong = TrainedTrial(CUT, 0.3, "rank", 0.1, "pool")
    assert not wrong.named
    assert not wrong.fair
    assert TrainedTrial(CONTROL, 0.4, "", 0.0, "").named


def test_a_weakness_that_costs_no_recall_need_not_be_named():
    cells = [PlantedCell(plant, 0) for plant in (CONTROL, CUT, MISSING)]
    cache = AnswerCache.open(None)
    for cell, loss in zip(cells, (0.0, 0.1, 0.0), strict=True):
        cache.put(str(cell), torch.linspace(0.2, 0.4, 50) - loss, {}, {})
    assert _harmless(cells, cache) == {PlantedCell(MISSING, 0)}


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="quick or full"):
        planted_trained(None, "medium")
