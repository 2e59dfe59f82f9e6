import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.two_stage import planted_trained as module
from shortlist.lab.experiments.two_stage.planted_trained import (
    CONTROL,
    CUT,
    HEALTHY,
    MISSING,
    PLANTS,
    STAGES,
    STALE,
    TrainedTrial,
    planted_trained,
)
from shortlist.pipeline import parse_recipe
from shortlist.pipeline.recipe_settings import with_settings
from tests.lab.experiments.results import check_result

SHORT = (
    HEALTHY.replace("epochs = 10", "epochs = 3")
    .replace("epochs = 25", "epochs = 8")
    .replace("0.00002", "0.00006")
)


@pytest.fixture(scope="module")
def quick():
    chosen = {plant: PLANTS[plant] for plant in (MISSING, STALE)}
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "PLANTS", chosen)
    patch.setattr(module, "KNOBS", ("nominator", "cut"))
    patch.setattr(module, "HEALTHY", SHORT)
    yield planted_trained(None, "quick", [0])
    patch.undo()


def test_a_missing_nominator_is_named_by_retraining(quick):
    check_result(quick, "planted-trained")
    holds = {one.id: one.holds for one in quick.claims}
    assert holds[f"{MISSING}: named first with retraining"]
    means = {(one.method, one.metric): one.mean for one in quick.rows}
    for plant in (MISSING, STALE):
        assert means[plant, "recall, weak"] < means[plant, "recall, healthy"]


def test_every_plant_changes_the_recipe_or_the_data_of_one_stage():
    healthy = parse_recipe(HEALTHY)
    for plant, changes in PLANTS.items():
        weak = with_settings(healthy, changes)
        assert (weak.expression, weak.stages) != (healthy.expression, healthy.stages) or plant in (
            CONTROL,
            STALE,
        )
    assert set(STAGES) == set(PLANTS) - {CONTROL}


def test_a_trial_is_right_if_the_planted_stage_is_first_or_nothing_is_advised_without_training():
    named = TrainedTrial(CUT, 0.3, 0.4, "prerank", 0.1, "")
    assert named.named
    assert named.fair
    wrong = TrainedTrial(CUT, 0.3, 0.4, "rank", 0.1, "pool")
    assert not wrong.named
    assert not wrong.fair
    assert TrainedTrial(CONTROL, 0.4, 0.4, "", 0.0, "").named


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="quick or full"):
        planted_trained(None, "medium")
