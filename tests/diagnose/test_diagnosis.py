import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.diagnose.diagnosis import USERS, diagnose, identity
from shortlist.diagnose.findings.findings import in_short
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline import Optional, Within, load_recommender
from shortlist.stages import Seen
from tests.diagnose.held_out_of import cases_of
from tests.diagnose.test_follow_items import wants
from tests.pipeline.strategies import pipelines
from tests.worlds import N_ITEMS, RandomFilter, RandomNominator, RandomScorer, listed, tiny

IDS = Vocabulary.of([f"i{row}" for row in range(N_ITEMS)])
LEARNED = Interactions.of(np.arange(60) % 6, np.arange(60) % N_ITEMS, np.arange(60), n_items=N_ITEMS)


def told(pipeline, cases, n_items=N_ITEMS, **more):
    catalog = Catalog.bare(Vocabulary.of([f"i{row}" for row in range(n_items)]))
    answer = diagnose(pipeline, cases, LEARNED, catalog, **more).as_dict()
    json.dumps(answer, allow_nan=False)
    return answer


def check_identity(answer):
    assert answer["identity"]["exact"]
    assert answer["identity"]["product_error"] <= 1e-12
    assert answer["wanted"] == answer["returned"] + sum(stage["lost"] for stage in answer["stages"])
    entered = answer["wanted"]
    for stage in answer["stages"]:
        assert stage["entered"] == entered == stage["survived"] + stage["lost"]
        assert 0 <= stage["removed"] <= stage["lost"]
        assert 0 <= stage["no_room"] <= stage["lost"]
        entered = stage["survived"]
    assert entered == answer["returned"]


@given(pipelines(), st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_the_account_of_any_pipeline_balances(pipeline, seed):
    check_identity(told(pipeline, wants(4, seed), k=4))


def test_all_parts_are_there_and_are_those_of_a_trained_bundle(world, bundle):
    recommender = load_recommender(bundle)
    split = world.split(**recommender.about["split"])
    answer = diagnose(recommender, split.test, split.train, world.catalog).as_dict()
    json.dumps(answer, allow_nan=False)
    check_identity(answer)
    assert answer["k"] == 10
    assert [stage["name"] for stage in answer["stages"]] == ["pool", "seen", "prerank", "rank", "diverse"]
    assert set(answer["nominators"]) == {"popular", "covisit", "towers"}
    assert answer["verdict"]["stage"] == "rank"
    assert set(answer["shift"]) == set(answer["calibration"]) == {"prerank", "rank"}
    assert len(answer["segments"][0]["lost"]) == len(answer["stages"])
    assert {one["label"] for one in answer["knobs"]} == {"limit", "cut", "strength", "named"}
    assert [one["stage"] for one in answer["rules"]] == ["seen"]
    assert answer["recall"]["mean"] == pytest.approx(answer["returned"] / answer["wanted"])


def test_the_same_seed_gives_the_same_words_and_another_lot_gives_others():
    one, same, other = (
        json.dumps(told(tiny(), wants(60), users=40, seed=seed), sort_keys=True) for seed in (0, 0, 1)
    )
    assert one == same
    assert one != other


def test_a_pipeline_without_a_ranker_has_no_verdict_and_everything_else():
    answer = told(RandomNominator(name="n0", width=9) >> Seen(name="seen") % 5, wants(8))
    check_identity(answer)
    assert answer["verdict"]["answer"] is None
    assert "no scorer" in answer["verdict"]["why"]
    assert answer["calibration"] == answer["shift"] == {}


def test_held_out_items_outside_the_catalogue_are_lost_at_a_stage_of_their_own():
    answer = told(
        listed("a", [1, 2]) >> RandomScorer(name="rank") % 2, cases_of([([50], [1, 45]), ([1], [44])])
    )
    check_identity(answer)
    first = answer["stages"][0]
    assert (first["name"], first["kind"], first["lost"]) == ("catalogue", "catalogue", 2)
    assert first["what_if"]["oracle"] is None
    assert any("2 wanted items lie outside the catalogue" in one for one in answer["warnings"])


def test_one_user_gets_numbers_and_no_intervals():
    answer = told(tiny(), wants(1))
    check_identity(answer)
    assert answer["users"] == 1
    assert answer["recall"]["low"] is answer["recall"]["high"] is None
    assert answer["recall"]["mean"] is not None
    assert any("too few for intervals" in one for one in answer["warnings"])
    assert answer["verdict"]["answer"] == "undecided"


def test_a_stage_that_returns_fewer_than_it_may_is_told():
    pipeline = listed("a", [1, 2, 3]) >> RandomFilter(name="sieve") >> RandomScorer(name="rank") % 10
    answer = told(pipeline, wants(6))
    assert answer["stages"][-1]["short"] == 6
    assert answer["stages"][-1]["candidates"] < 10


def test_no_cases_and_cases_that_want_nothing_are_errors_that_say_what_to_do():
    with pytest.raises(DataError, match="choose another split"):
        told(tiny(), wants(3).take(slice(0, 0)))
    nothing = cases_of([([1, 2], [3])])
    with pytest.raises(DataError, match="want something"):
        told(tiny(), type(nothing)(nothing.events, nothing.starts, nothing.cuts, nothing.cuts))


def test_scores_that_are_no_numbers_are_told_and_nothing_breaks():
    answer = told(
        RandomNominator(name="n0", width=9) >> RandomScorer(name="rank", broken=True) % 5, wants(40)
    )
    check_identity(answer)
    assert any("rank: nonfinite" in one for one in answer["warnings"])


def test_a_pipeline_without_a_size_is_given_one_and_that_is_told():
    answer = told(listed("a", range(30)) >> Seen(name="seen"), wants(5))
    assert answer["k"] == 10
    assert any("slates of 10 are assumed" in one for one in answer["warnings"])
    assert told(listed("a", range(30)) >> Seen(name="seen"), wants(5), k=3)["k"] == 3


def test_at_most_so_many_users_are_asked_and_the_sample_is_told():
    answer = told(tiny(), wants(50), users=35)
    assert answer["users"] == answer["sample"]["stages"] == 35
    assert answer["sample"]["knobs"] <= 35
    assert USERS >= 35


def test_a_pipeline_that_loses_everything_is_answered():
    answer = told(listed("a", [-1]) >> RandomScorer(name="rank") % 5, wants(40))
    check_identity(answer)
    assert answer["returned"] == 0
    assert answer["stages"][1]["conditional"] is None
    assert answer["stages"][0]["what_if"]["same_rates"] == 1.0


def test_an_account_that_does_not_balance_is_seen():
    losses = diagnose(tiny(), wants(9), LEARNED, Catalog.bare(IDS)).losses
    back = int(losses.alive[-1])
    assert identity(losses, back)["exact"]
    assert not identity(losses, back + 1)["exact"]  # the slates hold something that no stage passed on


@pytest.mark.parametrize("guard", [Optional, lambda stage: Within(stage, ms=0.001)])
def test_guards_change_nothing_and_time_limits_are_told(guard):
    scorer, nominator = RandomScorer(name="rank", sides=1009), RandomNominator(name="n0", width=9)
    plain, guarded = (told(nominator >> stage, wants(40)) for stage in (scorer % 3, guard(scorer % 3)))
    check_identity(guarded)
    assert any("Time limits are not in force" in one for one in guarded.pop("warnings")) == (
        guard is not Optional
    )
    plain.pop("warnings")
    assert guarded == plain


def test_a_slate_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="1 or more"):
        told(tiny(), wants(3), k=0)


def test_what_slates_can_hold_is_told_where_users_want_more():
    cases = cases_of([([30], [0, 1, 2, 3])] * 40)
    pipeline = listed("a", range(9)) >> RandomScorer(name="rank") % 2
    narrow, wide = told(pipeline, cases), told(pipeline, cases, k=4)
    assert (narrow["possible"], wide["possible"]) == (0.5, 1.0)
    assert narrow["recall"]["mean"] <= 0.5
    assert "No funnel could return more than 50.0% in slates of 2" in in_short(narrow)[0]
    assert "No funnel" not in in_short(wide)[0]
