import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.artifact.as_json import as_json
from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.diagnose import diagnose_pipeline
from shortlist.diagnose.findings.summary import summary
from shortlist.diagnose.follow_items import follow_relevant_items
from shortlist.diagnose.full_catalog import Verdict
from shortlist.diagnose.nominators.replay import PoolReplay
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.pipeline import USERS, attribute, balance
from shortlist.diagnose.sample import sample_users
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate import evaluate_pipeline
from shortlist.evaluate.losses import StageTrace, decompose
from shortlist.grammar import as_pipeline
from shortlist.pipeline import Optional, Within, load_recommender
from shortlist.stages import Seen
from tests.diagnose.held_out import held_out_of
from tests.diagnose.test_bundle import without_times
from tests.diagnose.test_follow_items import random_requests
from tests.pipeline.strategies import pipelines
from tests.worlds import N_ITEMS, RandomFilter, RandomNominator, RandomScorer, listed, run_checked, tiny

TRAIN = Interactions.of(np.arange(60) % 6, np.arange(60) % N_ITEMS, np.arange(60), n_items=N_ITEMS)


def diagnosed(pipeline, held_out, n_items=N_ITEMS, **more):
    catalog = Catalog.bare(Vocabulary.of([f"i{row}" for row in range(n_items)]))
    found = diagnose_pipeline(pipeline, held_out, TRAIN, catalog, **more)
    json.dumps(as_json(found), allow_nan=False)
    return found


def check_balance(found):
    assert found.balance.exact
    assert found.balance.product_error <= 1e-12
    assert found.relevant == found.returned + sum(stage.lost for stage in found.stages)
    entered = found.relevant
    for stage in found.stages:
        assert stage.entered == entered == stage.survived + stage.lost
        assert 0 <= stage.removed <= stage.lost
        assert 0 <= stage.unavoidable <= stage.lost == stage.avoidable + stage.unavoidable
        entered = stage.survived
    assert entered == found.returned


@given(pipelines(), st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_relevant_items_of_any_pipeline_are_returned_or_lost_at_one_stage(pipeline, seed):
    check_balance(diagnosed(pipeline, random_requests(4, seed), k=4))


def test_diagnosis_of_a_trained_pipeline_has_all_parts(world, bundle):
    recommender = load_recommender(bundle)
    split = world.split(**recommender.about.split)
    found = diagnose_pipeline(recommender.pipeline, split.test, split.train, world.catalog)
    check_balance(found)
    assert found.k == 10
    assert [stage.name for stage in found.stages] == ["pool", "seen", "prerank", "rank", "diverse"]
    assert set(found.nominators) == {"popular", "covisit", "towers"}
    assert found.verdict.stage == "rank"
    assert set(found.shift) == set(found.calibration) == {"prerank", "rank"}
    assert len(found.segments[0].lost) == len(found.stages)
    assert {knob.knob for knob in found.knobs} == {"limit", "cut", "strength", "candidates"}
    assert [knob.stage for knob in found.filters] == ["seen"]
    assert [stage.name for stage in found.funnel.stages] == [stage.name for stage in found.stages]
    assert set(found.funnel.nominators) == set(found.nominators)
    assert found.findings


def test_recall_is_that_of_evaluate(world, bundle):
    recommender = load_recommender(bundle)
    split = world.split(**recommender.about.split)
    found = diagnose_pipeline(recommender.pipeline, split.test, split.train, world.catalog)
    scores = evaluate_pipeline(recommender.pipeline, split.test, split.train, ks=(10,)).scores
    assert found.recall.mean == pytest.approx(float(scores["recall@10"].nanmean()))
    assert found.recall.low < found.recall.mean < found.recall.high


def test_recall_is_the_mean_over_users_and_not_over_items():
    held_out = held_out_of([([30], [0]), ([30], [1, 2, 3, 4, 5, 6])])
    found = diagnosed(listed("a", [0, 7]) >> RandomScorer(name="rank") % 2, held_out)
    assert (found.returned, found.relevant) == (1, 7)
    assert found.recall.mean == 0.5
    assert found.max_recall == pytest.approx((1 + 2 / 6) / 2)
    assert found.stages[0].what_if.ceiling == pytest.approx(0.5)


def test_same_seed_gives_the_same_diagnosis_and_another_seed_another_sample():
    first, same, other = (diagnosed(tiny(), random_requests(60), users=40, seed=seed) for seed in (0, 0, 1))
    assert without_times(first) == without_times(same)
    assert first.recall != other.recall


def test_pipeline_without_a_ranker_has_no_verdict_but_everything_else():
    found = diagnosed(RandomNominator(name="n0", width=9) >> Seen(name="seen") % 5, random_requests(8))
    check_balance(found)
    assert isinstance(found.verdict, NotMeasured)
    assert "no scorer" in found.verdict.why
    assert found.calibration == found.shift == {}


def test_items_outside_the_catalogue_are_lost_at_a_row_of_their_own():
    held_out = held_out_of([([50], [1, 45]), ([1], [44])])
    found = diagnosed(listed("a", [1, 2]) >> RandomScorer(name="rank") % 2, held_out)
    check_balance(found)
    first = found.stages[0]
    assert (first.name, first.kind, first.lost) == ("catalogue", "catalogue", 2)
    assert first.what_if.oracle is None
    assert any("2 relevant items are not in the catalogue" in text for text in found.warnings)


def test_one_user_has_numbers_without_intervals():
    found = diagnosed(tiny(), random_requests(1))
    check_balance(found)
    assert found.users == 1
    assert found.recall.low is found.recall.high is None
    assert found.recall.mean is not None
    assert any("too few for intervals" in text for text in found.warnings)
    assert found.verdict.answer == "undecided"


def test_underfilled_stages_are_counted():
    pipeline = listed("a", [1, 2, 3]) >> RandomFilter(name="sieve") >> RandomScorer(name="rank") % 10
    found = diagnosed(pipeline, random_requests(6))
    assert found.stages[-1].underfilled == 6
    assert found.stages[-1].candidates < 10


def test_no_requests_and_requests_without_relevant_items_are_refused():
    with pytest.raises(DataError, match="train with another --protocol"):
        diagnosed(tiny(), random_requests(3).take(slice(0, 0)))
    nothing = held_out_of([([1, 2], [3])])
    with pytest.raises(DataError, match="with relevant items"):
        diagnosed(tiny(), type(nothing)(nothing.events, nothing.starts, nothing.cuts, nothing.cuts))


def test_scores_that_are_not_finite_are_a_warning():
    pipeline = RandomNominator(name="n0", width=9) >> RandomScorer(name="rank", broken=True) % 5
    found = diagnosed(pipeline, random_requests(40))
    check_balance(found)
    assert any("rank: nonfinite" in text for text in found.warnings)


def test_pipeline_without_a_slate_size_gets_one_with_a_warning():
    pipeline = listed("a", range(30)) >> Seen(name="seen")
    found = diagnosed(pipeline, random_requests(5))
    assert found.k == 10
    assert any("slates of 10 are assumed" in text for text in found.warnings)
    assert diagnosed(pipeline, random_requests(5), k=3).k == 3


def test_sampled_users_are_reported():
    found = diagnosed(tiny(), random_requests(50), users=35, on="valid", seed=3)
    assert found.users == found.sample.stages == 35
    assert (found.sample.held_out, found.sample.part, found.sample.seed) == (50, "validation users", 3)
    assert found.sample.knobs <= 35 <= USERS
    assert diagnosed(tiny(), random_requests(5)).sample.part == "held-out users"


def test_pipeline_that_returns_nothing_is_diagnosed():
    found = diagnosed(listed("a", [-1]) >> RandomScorer(name="rank") % 5, random_requests(40))
    check_balance(found)
    assert found.returned == 0
    assert found.stages[1].conditional is None
    assert found.stages[0].what_if.same_rates == 1.0


def test_account_that_does_not_balance_is_detected():
    alive = np.array([[True, False], [True, True]])
    losses = decompose(StageTrace(alive, ("pool", "rank"), np.arange(2)))
    assert balance(losses, 1).exact
    assert not balance(losses, 2).exact  # the slates hold an item that no stage passed on


@pytest.mark.parametrize("guard", [Optional, lambda stage: Within(stage, ms=0.001)])
def test_guards_change_nothing_and_time_limits_are_a_warning(guard):
    scorer, nominator = RandomScorer(name="rank", sides=1009), RandomNominator(name="n0", width=9)
    stages = scorer % 3, guard(scorer % 3)
    plain, guarded = (diagnosed(nominator >> stage, random_requests(40)) for stage in stages)
    check_balance(guarded)
    assert any("Time limits are off" in text for text in guarded.warnings) == (guard is not Optional)
    assert replace(guarded, warnings=(), pipeline="") == replace(plain, warnings=(), pipeline="")


def test_slate_of_0_items_is_refused():
    with pytest.raises(ConfigError, match="1 or more"):
        diagnosed(tiny(), random_requests(3), k=0)


def test_limit_of_recall_by_the_slate_is_reported():
    held_out = held_out_of([([30], [0, 1, 2, 3])] * 40)
    pipeline = listed("a", range(9)) >> RandomScorer(name="rank") % 2
    narrow, wide = diagnosed(pipeline, held_out), diagnosed(pipeline, held_out, k=4)
    assert (narrow.max_recall, wide.max_recall) == (0.5, 1.0)
    assert narrow.recall.mean <= 0.5
    assert "With slates of 2 recall is at most 50.0%" in summary(narrow)[0]
    assert "at most" not in summary(wide)[0]
    assert isinstance(wide.verdict, Verdict)


def reports(pipeline, held_out, n_items=10):
    return attributed(pipeline, sample_users(held_out, n_items))


def attributed(pipeline, sample):
    followed = follow_relevant_items(pipeline, sample)
    return attribute(PoolReplay.of(pipeline, sample), followed.hits(len(sample)), followed)


def test_leaving_out_a_nominator_costs_the_items_only_it_nominated():
    pipeline = as_pipeline(listed("a", [1, 2]) + listed("b", [2, 3]))
    found = reports(pipeline, held_out_of([([0], [1, 2]), ([0], [3]), ([0], [7])]))
    assert [(found[name].nominated, found[name].unique) for name in "ab"] == [(2, 1), (2, 1)]
    # Without a, the first of three users loses one of two relevant items; without b, the second loses the only one.
    assert found["a"].without.mean == pytest.approx(-1 / 2 / 3)
    assert found["b"].without.mean == pytest.approx(-1 / 3)


def test_nominator_that_displaces_relevant_items_lowers_recall():
    # With noise in the pool the cut keeps 8 and 9, which are irrelevant.
    pipeline = as_pipeline(listed("noise", [8, 9]) + listed("good", [1, 2]) >> Seen(name="cut") % 2)
    found = reports(pipeline, held_out_of([([0], [1, 2])]))
    assert found["noise"].without.mean > 0 > found["good"].without.mean


def test_recall_is_0_without_the_only_nominator():
    pipeline = as_pipeline(listed("only", [1, 2]) >> Seen(name="seen"))
    found = reports(pipeline, held_out_of([([0], [1, 5])]))
    assert found["only"].without.mean == -0.5
    assert found["only"].unique == 1


def test_later_stages_run_again_without_the_nominator():
    pipeline, sample = tiny(), sample_users(random_requests(40), N_ITEMS)
    found = attributed(pipeline, sample)
    silent = as_pipeline(listed("popular", [-1]) + pipeline.nominators[1] + pipeline.nominators[2])
    changed = type(pipeline)(silent.stages + pipeline.stages[1:])
    recalls = [recall_by_hand(stages, sample) for stages in (changed, pipeline)]
    without = found["popular"].without
    assert without.mean == pytest.approx(np.mean(recalls[0]) - np.mean(recalls[1]))
    assert without.low <= without.mean <= without.high


def recall_by_hand(pipeline, sample):
    slate = run_checked(pipeline, sample.batches[0].query).candidates
    sets = [set(row.tolist()) - {-1} for row in sample.batches[0].relevant]
    rows = zip(slate.items, slate.valid, sets, strict=True)
    return [len(set(items[valid].tolist()) & relevant) / len(relevant) for items, valid, relevant in rows]
