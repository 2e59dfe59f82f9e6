import pytest

from shortlist.diagnose.sample import panel
from shortlist.diagnose.scorer_inputs import scorers, served
from shortlist.pipeline import Optional, Within, run
from tests.diagnose.test_follow_items import wants
from tests.worlds import N_ITEMS, RandomNominator, RandomScorer


def test_every_scorer_is_told_what_it_was_given_and_what_of_it_was_wanted(world, recommender):
    cases = world.split().test.take(slice(0, 5))
    found = served(recommender.pipeline, panel(cases, len(world.items)))
    assert list(found) == ["prerank", "rank"] == [stage.title for stage in scorers(recommender.pipeline)]
    for name, one in found.items():
        expected = []
        for row in range(len(cases)):
            alone = cases.take(slice(row, row + 1))
            step = next(
                s for s in run(recommender.pipeline, alone.query(width=500)).trace.steps if s.name == name
            )
            truth = set(alone.relevant()[0].tolist())
            for place in step.before_cut.valid[0].nonzero().flatten().tolist():
                item = int(step.before_cut.items[0, place])
                expected.append((row, item, item in truth, float(step.before.scores[0, place])))
        got = one.sample
        assert [(r, i, w) for r, i, w, _ in expected] == list(
            zip(got.request.tolist(), got.items.tolist(), got.wanted.tolist(), strict=True)
        )
        assert got.pool == pytest.approx([pool for *_, pool in expected], abs=1e-5)
        assert got.found == sum(w for _, _, w, _ in expected)
        assert got.sought == len(one.truth) == int((cases.relevant() >= 0).sum())
        assert got.recall == got.found / got.sought
        assert not one.probabilities


def test_a_pipeline_without_a_scorer_has_nothing_to_tell(world, recommender):
    pool_alone = recommender.pipeline.stages[0]
    assert served(pool_alone, panel(world.split().test.take(slice(0, 2)), len(world.items))) == {}


def test_histories_and_wants_outside_the_catalogue_are_no_error(world, recommender):
    cases = world.split().test.take(slice(0, 4))
    known = int(cases.relevant().max())  # one row and more are outside
    found = served(recommender.pipeline, panel(cases, known))["rank"].sample
    assert found.sought == int((cases.relevant() >= 0).sum())


def test_a_guarded_scorer_is_told_all_it_was_given_before_its_cut():
    one = panel(wants(6), N_ITEMS)
    nominator, scorer = RandomNominator(name="n0"), RandomScorer(name="rank", sides=1009)
    plain, *guarded = (
        served(nominator >> stage, one)["rank"].sample
        for stage in (scorer % 3, Optional(scorer % 3), Within(scorer % 3, ms=1e5))
    )
    for sample in guarded:
        assert sample.items.tolist() == plain.items.tolist()
        assert sample.scores.tolist() == plain.scores.tolist()
