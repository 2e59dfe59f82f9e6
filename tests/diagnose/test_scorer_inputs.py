import pytest

from shortlist.diagnose.sample import sample_users
from shortlist.diagnose.scorer_inputs import scorer_inputs, scorers
from shortlist.pipeline import Optional, Within, run
from tests.diagnose.test_follow_items import random_requests
from tests.worlds import N_ITEMS, RandomNominator, RandomScorer


def test_scorer_inputs_equal_the_candidates_of_single_requests(world, recommender):
    held_out = world.split().test.take(slice(0, 5))
    found = scorer_inputs(recommender.pipeline, sample_users(held_out, len(world.items)))
    assert list(found) == ["prerank", "rank"] == [stage.title for stage in scorers(recommender.pipeline)]
    for name, one in found.items():
        expected = []
        for row in range(len(held_out)):
            alone = held_out.take(slice(row, row + 1))
            step = next(
                s for s in run(recommender.pipeline, alone.query(width=500)).trace.steps if s.name == name
            )
            relevant = set(alone.relevant()[0].tolist())
            for place in step.before_cut.valid[0].nonzero().flatten().tolist():
                item = int(step.before_cut.items[0, place])
                expected.append((row, item, item in relevant, float(step.before.scores[0, place])))
        got = one.rows
        assert [(r, i, w) for r, i, w, _ in expected] == list(
            zip(got.request.tolist(), got.items.tolist(), got.relevant.tolist(), strict=True)
        )
        assert got.pool == pytest.approx([pool for *_, pool in expected], abs=1e-5)
        assert got.retrieved == sum(w for _, _, w, _ in expected)
        assert got.total == len(one.relevant) == int((held_out.relevant() >= 0).sum())
        assert got.share_retrieved == got.retrieved / got.total
        assert not one.probabilities


def test_pipeline_without_a_scorer_has_no_inputs(world, recommender):
    pool_alone = recommender.pipeline.stages[0]
    assert (
        scorer_inputs(pool_alone, sample_users(world.split().test.take(slice(0, 2)), len(world.items))) == {}
    )


def test_items_outside_the_catalogue_are_no_error(world, recommender):
    held_out = world.split().test.take(slice(0, 4))
    known = int(held_out.relevant().max())  # one row and more are outside
    found = scorer_inputs(recommender.pipeline, sample_users(held_out, known))["rank"].rows
    assert found.total == int((held_out.relevant() >= 0).sum())


def test_guarded_scorer_has_all_inputs_before_its_cut():
    one = sample_users(random_requests(6), N_ITEMS)
    nominator, scorer = RandomNominator(name="n0"), RandomScorer(name="rank", sides=1009)
    plain, *guarded = (
        scorer_inputs(nominator >> stage, one)["rank"].rows
        for stage in (scorer % 3, Optional(scorer % 3), Within(scorer % 3, ms=1e5))
    )
    for sample in guarded:
        assert sample.items.tolist() == plain.items.tolist()
        assert sample.scores.tolist() == plain.scores.tolist()
