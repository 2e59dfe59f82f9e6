import pytest

from shortlist.diagnose.funnel import measure_funnel
from shortlist.diagnose.sample import sample_users
from shortlist.evaluate import evaluate_pipeline
from shortlist.evaluate.protocol.measures import choose_measures
from shortlist.pipeline import load_recommender
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized

SLOTS = 10


@pytest.fixture(scope="module")
def measured(world, bundle):
    recommender = load_recommender(bundle)
    split = world.split(**recommender.about.split)
    pipeline = resized(offline(recommender.pipeline), SLOTS)
    evaluated = evaluate_pipeline(
        pipeline, split.test, split.train, measures=choose_measures(at=SLOTS)
    ).funnel()
    sample = sample_users(split.test, len(recommender.catalog))
    return measure_funnel(pipeline, sample, SLOTS), evaluated


def test_funnel_of_all_users_is_that_of_evaluate(measured):
    found, evaluated = measured
    assert found.joint_recall.mean == pytest.approx(evaluated.joint_recall.mean)
    assert found.input_utility == pytest.approx(evaluated.input_utility)
    for one, other in zip(found.stages, evaluated.stages, strict=True):
        assert (one.name, one.recall.mean) == (other.name, pytest.approx(other.recall.mean))
        assert one.utility_lost.mean == pytest.approx(other.utility_lost.mean)
    for name, own in found.nominators.items():
        assert own.reveal_yield == pytest.approx(evaluated.nominators[name].reveal_yield)


def test_utility_lost_adds_up_to_that_of_the_slates(measured):
    """Spec test 33: losses are at least 0 and add up to the input less the slates."""
    found, _ = measured
    lost = [stage.utility_lost.mean for stage in found.stages]
    assert min(lost) >= 0
    assert sum(lost) == pytest.approx(found.input_utility - found.stages[-1].best_utility, abs=1e-9)


def test_stages_are_compared_with_the_last_one_that_scored(measured):
    found, evaluated = measured
    assert [(one.first, one.second) for one in found.agreement] == [
        (one.first, one.second) for one in evaluated.agreement
    ]
    for one in found.agreement:
        assert -1 <= one.tau_b.mean <= 1
        assert 0 <= one.rbo.mean <= 1
